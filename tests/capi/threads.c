/* Threads: each has a last error of its own; a session is for one at a time, and says so; devices are for all. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void* fail_in_thread(void* user) {
  pthread_barrier_t* both = user;
  ferry_settings* settings = NULL;
  CHECK(strcmp(ferry_last_error(), "") == 0);
  OK(ferry_settings_create(&settings));
  FAILS(FERRY_ERROR_SETTING, "FERRY_CHUNK_BYTES", ferry_settings_set(settings, "FERRY_CHUNK_BYTES", "1"));
  pthread_barrier_wait(both);
  pthread_barrier_wait(both);
  CHECK(strstr(ferry_last_error(), "FERRY_CHUNK_BYTES") != NULL);
  OK(ferry_settings_destroy(settings));
  return NULL;
}

static void test_last_error(void) {
  pthread_barrier_t both;
  pthread_t thread;
  char mine[200];
  pthread_barrier_init(&both, NULL, 2);
  FAILS(FERRY_ERROR_INVALID_HANDLE, "ferry_plan_destroy: 'plan' is null", ferry_plan_destroy(NULL));
  strncpy(mine, ferry_last_error(), sizeof mine - 1);
  mine[sizeof mine - 1] = '\0';
  pthread_create(&thread, NULL, fail_in_thread, &both);
  pthread_barrier_wait(&both);
  CHECK(strcmp(ferry_last_error(), mine) == 0);
  FAILS(FERRY_ERROR_INVALID_HANDLE, "ferry_block_free", ferry_block_free(NULL));
  pthread_barrier_wait(&both);
  pthread_join(thread, NULL);
  CHECK(strstr(ferry_last_error(), "ferry_block_free") != NULL);
  pthread_barrier_destroy(&both);
}

/* Holds the session's turn: a placement function that waits until the other thread has tried everything. */
typedef struct held {
  rig on;
  pthread_barrier_t both;
  ferry_lease* lease;
  ferry_block* block;
} held;

static int wait_for_other(ferry_item_info const* item, void* user) {
  held* self = user;
  (void)item;
  pthread_barrier_wait(&self->both);
  pthread_barrier_wait(&self->both);
  return FERRY_KEEP;
}

static void* try_everything(void* user) {
  held* self = user;
  ferry_key key = {0, 0, "h"};
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  void* memory = NULL;
  char* text = NULL;
  pthread_barrier_wait(&self->both);
  FAILS(FERRY_ERROR_BUSY, "one thread at a time", ferry_session_begin_step(self->on.session));
  FAILS(FERRY_ERROR_BUSY, "one thread at a time",
        ferry_session_restore(self->on.session, &key, self->on.stream, &lease, &memory));
  FAILS(FERRY_ERROR_BUSY, "one thread at a time",
        ferry_session_allocate(self->on.session, 256, self->on.stream, NULL, &block, &memory));
  FAILS(FERRY_ERROR_BUSY, "one thread at a time", ferry_session_explain(self->on.session, &text));
  FAILS(FERRY_ERROR_BUSY, "one thread at a time", ferry_lease_end(self->lease));
  FAILS(FERRY_ERROR_BUSY, "one thread at a time", ferry_block_free(self->block));
  FAILS(FERRY_ERROR_BUSY, "one thread at a time", ferry_block_data(self->block, &memory, NULL));
  CHECK(ferry_block_float(self->block) == NULL && strstr(ferry_last_error(), "one thread at a time") != NULL);
  FAILS(FERRY_ERROR_BUSY, "one thread at a time", ferry_session_destroy(self->on.session));
  OK(ferry_lease_data(self->lease, &memory, NULL));                                   /* which no call changes */
  FAILS(FERRY_ERROR_IN_USE, "another thread", ferry_stream_destroy(self->on.stream)); /* the save is using it */
  OK(ferry_stream_synchronize(self->on.stream));                                      /* streams are for all */
  pthread_barrier_wait(&self->both);
  return NULL;
}

static void test_one_at_a_time(void) {
  held self;
  pthread_t thread;
  ferry_key key = {0, 0, "h"};
  ferry_block* block = NULL;
  self.on = make_rig("keep", "1MiB");
  pthread_barrier_init(&self.both, NULL, 2);
  OK(ferry_session_begin_step(self.on.session));
  OK(ferry_session_allocate(self.on.session, 256, self.on.stream, NULL, &block, NULL));
  OK(ferry_session_allocate(self.on.session, 256, self.on.stream, NULL, &self.block, NULL));
  OK(ferry_session_save(self.on.session, &key, block, self.on.stream, NULL, &self.lease));
  OK(ferry_session_set_placement(self.on.session, wait_for_other, &self));
  OK(ferry_session_allocate(self.on.session, 256, self.on.stream, NULL, &block, NULL));
  key.segment = 1;
  pthread_create(&thread, NULL, try_everything, &self);
  OK(ferry_session_save(self.on.session, &key, block, self.on.stream, NULL, NULL));
  pthread_join(thread, NULL);
  OK(ferry_lease_end(self.lease)); /* all is as it was */
  OK(ferry_block_free(self.block));
  OK(ferry_session_end_step(self.on.session));
  pthread_barrier_destroy(&self.both);
  end_rig(&self.on);
}

/* Several threads make, use and destroy things of one device, while others hold handles that go stale under them. */
enum { thread_count = 4, rounds = 200 };

typedef struct shared {
  rig on;
  ferry_stream* volatile stale;
} shared;

static int add_one(void* user) {
  ++*(int*)user;
  return 0;
}

static void* use_device(void* user) {
  shared* self = user;
  int i;
  for (i = 0; i < rounds; ++i) {
    ferry_stream* stream = NULL;
    ferry_event* event = NULL;
    ferry_settings* settings = NULL;
    int runs = 0;
    ferry_status status;
    OK(ferry_settings_create(&settings));
    if (i % 20 == 0) {
      OK(ferry_stream_create(self->on.device, "mine", &stream));
      OK(ferry_event_create(self->on.device, &event));
      OK(ferry_stream_launch(stream, "add", add_one, &runs, NULL, 0));
      OK(ferry_event_record(event, stream));
      OK(ferry_event_synchronize(event));
      CHECK(runs == 1);
      OK(ferry_event_destroy(event));
      OK(ferry_stream_destroy(stream));
    }
    status = ferry_stream_synchronize(self->stale);
    CHECK(status == FERRY_OK || status == FERRY_ERROR_INVALID_HANDLE);
    CHECK(ferry_device_destroy(self->on.device) == FERRY_ERROR_IN_USE);
    OK(ferry_settings_destroy(settings));
  }
  return NULL;
}

static void test_together(void) {
  shared self;
  pthread_t threads[thread_count];
  ferry_stream* stream = NULL;
  ferry_status status;
  int i;
  self.on = make_rig("keep", "1MiB");
  OK(ferry_stream_create(self.on.device, "stale", &stream));
  self.stale = stream;
  for (i = 0; i < thread_count; ++i) pthread_create(&threads[i], NULL, use_device, &self);
  do {
    status = ferry_stream_destroy(stream); /* refused while one of them is using it */
    CHECK(status == FERRY_OK || status == FERRY_ERROR_IN_USE);
  } while (status == FERRY_ERROR_IN_USE);
  for (i = 0; i < thread_count; ++i) pthread_join(threads[i], NULL);
  end_rig(&self.on);
}

void test_threads(void) {
  test_last_error();
  test_one_at_a_time();
  test_together();
}
