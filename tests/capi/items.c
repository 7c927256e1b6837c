/* Items: saved, carried away, brought back with every byte; adopted memory; calls in the wrong order. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { item_bytes = 64 * 1024, segments = 12 };

static ferry_key key_of(uint32_t segment) {
  ferry_key key;
  key.micro_batch = 0;
  key.segment = segment;
  key.name = "h";
  return key;
}

static void save_filled(rig const* on, ferry_key const* key, unsigned char value) {
  ferry_block* block = NULL;
  void* memory = NULL;
  OK(ferry_session_allocate(on->session, item_bytes, on->stream, "h", &block, &memory));
  launch_fill(on, memory, item_bytes, value);
  OK(ferry_session_save(on->session, key, block, on->stream, NULL, NULL));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "used up", ferry_block_free(block));
}

static void restore_and_expect(rig const* on, ferry_key const* key, unsigned char value, int* wrong) {
  ferry_lease* lease = NULL;
  void* memory = NULL;
  void* same = NULL;
  size_t bytes = 0;
  OK(ferry_session_restore(on->session, key, on->stream, &lease, &memory));
  OK(ferry_lease_data(lease, &same, &bytes));
  CHECK(same == memory && bytes == item_bytes);
  CHECK(ferry_lease_float(lease) == memory);
  launch_expect(on, memory, item_bytes, value, wrong);
  OK(ferry_lease_end(lease));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'lease' is gone", ferry_lease_end(lease));
}

/* A budget of four items for twelve: they leave, come back, and are what they were. */
static void test_round_trip(void) {
  rig made = make_rig("offload", "256KiB");
  ferry_stats stats;
  ferry_item_state state = FERRY_ITEM_UNKNOWN;
  ferry_outlook outlook = {-1, -1};
  char* text = NULL;
  int wrong = 0;
  uint32_t s;
  int step;
  for (step = 0; step < 2; ++step) {
    OK(ferry_session_begin_step(made.session));
    for (s = 0; s < segments; ++s) {
      ferry_key key = key_of(s);
      save_filled(&made, &key, (unsigned char)(s + 1));
      OK(ferry_session_state(made.session, &key, &state));
      CHECK(state != FERRY_ITEM_UNKNOWN);
      OK(ferry_session_foresee(made.session, &key, &outlook));
      CHECK(outlook.transfer_us >= 0);
    }
    OK(ferry_session_synchronize(made.session));
    OK(ferry_session_idle_hint(made.session, 100.0));
    for (s = segments; s-- > 0;) {
      ferry_key key = key_of(s);
      restore_and_expect(&made, &key, (unsigned char)(s + 1), &wrong);
      OK(ferry_session_release(made.session, &key));
      OK(ferry_session_state(made.session, &key, &state));
      CHECK(state == FERRY_ITEM_UNKNOWN);
    }
    OK(ferry_stream_synchronize(made.stream));
    OK(ferry_session_end_step(made.session));
  }
  CHECK(wrong == 0);
  stats.size = sizeof stats;
  OK(ferry_session_stats(made.session, &stats));
  CHECK(stats.steps == 2 && stats.saves == 2 * segments && stats.restores == 2 * segments);
  CHECK(stats.device.limit_bytes == 256 * 1024 && stats.device.peak_bytes <= 256 * 1024);
  CHECK(stats.device_to_host.bytes >= (uint64_t)(segments - 4) * item_bytes);
  CHECK(stats.host_to_device.bytes >= (uint64_t)(segments - 4) * item_bytes);
  CHECK(stats.pinned.peak_bytes > 0 && stats.recomputes == 0);
  OK(ferry_session_stats_json(made.session, &text));
  CHECK(strstr(text, "\"saves\": 24") != NULL);
  OK(ferry_string_free(text));
  OK(ferry_session_explain(made.session, &text));
  CHECK(strlen(text) > 0);
  OK(ferry_string_free(text));
  end_rig(&made);
}

typedef struct released {
  rig const* on;
  int times;
  ferry_event* event;
  ferry_status asked_session;
} released;

static void note_release(ferry_event* done, void* user) {
  released* note = user;
  ferry_stats stats;
  int complete = -1;
  ++note->times;
  note->event = done;
  stats.size = sizeof stats;
  note->asked_session = ferry_session_stats(note->on->session, &stats);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "lent to a release function", ferry_event_record(done, note->on->stream));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "lent to a release function", ferry_event_destroy(done));
  OK(ferry_stream_wait(note->on->stream, done));
  OK(ferry_event_synchronize(done));
  OK(ferry_event_query(done, &complete));
  CHECK(complete == 1);
}

/* Memory that stays the trainer's is told of once, with an event that is valid until the function returns. */
static void test_adopted(void) {
  rig made = make_rig("offload", "256KiB");
  rig owner = make_rig("keep", "1MiB"); /* lends memory of another device's, as a trainer's own would be */
  ferry_key key = key_of(0);
  released note = {NULL, 0, NULL, FERRY_OK};
  ferry_block* memory_of = NULL;
  ferry_lease* lease = NULL;
  void* memory = NULL;
  int wrong = 0;
  int complete = 0;
  note.on = &made;
  OK(ferry_session_allocate(owner.session, item_bytes, owner.stream, "lent", &memory_of, &memory));
  OK(ferry_session_begin_step(made.session));
  launch_fill(&made, memory, item_bytes, 77);
  OK(ferry_session_adopt(made.session, &key, memory, item_bytes, made.stream, note_release, &note, NULL, &lease));
  OK(ferry_lease_end(lease));
  restore_and_expect(&made, &key, 77, &wrong);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "null pointer",
        ferry_session_adopt(made.session, &key, NULL, item_bytes, made.stream, note_release, &note, NULL, &lease));
  CHECK(lease == NULL);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "zero bytes",
        ferry_session_adopt(made.session, &key, memory, 0, made.stream, note_release, &note, NULL, NULL));
  FAILS(FERRY_ERROR_DUPLICATE_KEY, "saved already",
        ferry_session_adopt(made.session, &key, memory, item_bytes, made.stream, note_release, &note, NULL, NULL));
  OK(ferry_session_release(made.session, &key));
  OK(ferry_stream_synchronize(made.stream));
  OK(ferry_session_synchronize(made.session));
  OK(ferry_session_end_step(made.session));
  OK(ferry_session_begin_step(made.session));
  CHECK(note.times == 1 && wrong == 0);
  CHECK(note.asked_session == FERRY_ERROR_BUSY);
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'event' is gone", ferry_event_query(note.event, &complete));

  /* Without a function, nobody is told; when the session goes, whoever waits is. */
  OK(ferry_session_adopt(made.session, &key, memory, item_bytes, made.stream, NULL, NULL, NULL, NULL));
  OK(ferry_session_release(made.session, &key));
  OK(ferry_session_adopt(made.session, &key, memory, item_bytes, made.stream, note_release, &note, NULL, NULL));
  OK(ferry_session_destroy(made.session));
  CHECK(note.times == 2);
  CHECK(note.asked_session == FERRY_ERROR_BUSY || note.asked_session == FERRY_ERROR_INVALID_HANDLE);
  OK(ferry_stream_destroy(made.stream));
  OK(ferry_device_destroy(made.device));
  OK(ferry_block_free(memory_of));
  end_rig(&owner);
}

/* A step without backward: a budget of two items for twelve, of which nothing leaves. */
static void test_evaluation(void) {
  rig made = make_rig("offload", "128KiB");
  ferry_stats stats;
  ferry_lease* lease = NULL;
  void* memory = NULL;
  uint32_t s;
  OK(ferry_session_begin_evaluation(made.session));
  FAILS(FERRY_ERROR_WRONG_STATE, "end_step first", ferry_session_begin_evaluation(made.session));
  for (s = 0; s < segments; ++s) {
    ferry_key key = key_of(s);
    save_filled(&made, &key, (unsigned char)(s + 1));
    FAILS(FERRY_ERROR_UNKNOWN_KEY, "an evaluation saves nothing",
          ferry_session_restore(made.session, &key, made.stream, &lease, &memory));
    OK(ferry_session_release(made.session, &key));
  }
  OK(ferry_stream_synchronize(made.stream));
  OK(ferry_session_end_step(made.session));
  stats.size = sizeof stats;
  OK(ferry_session_stats(made.session, &stats));
  CHECK(stats.steps == 0 && stats.device_to_host.transfers == 0 && stats.device.peak_bytes <= 128 << 10);
  end_rig(&made);
}

/* Blocks and leases outlive their session. */
static void test_outliving(void) {
  rig made = make_rig("keep", "256KiB");
  ferry_key key = key_of(1);
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  void* memory = NULL;
  void* scratch = NULL;
  size_t bytes = 0;
  int wrong = 0;
  ferry_block* saved = NULL;
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_allocate(made.session, item_bytes, made.stream, NULL, &saved, &memory));
  launch_fill(&made, memory, item_bytes, 5);
  OK(ferry_session_save(made.session, &key, saved, made.stream, NULL, &lease));
  OK(ferry_session_allocate(made.session, item_bytes, made.stream, NULL, &block, &scratch));
  OK(ferry_session_destroy(made.session));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'session' is gone", ferry_session_end_step(made.session));
  launch_expect(&made, memory, item_bytes, 5, &wrong);
  launch_fill(&made, scratch, item_bytes, 6);
  launch_expect(&made, scratch, item_bytes, 6, &wrong);
  OK(ferry_block_data(block, &memory, &bytes));
  CHECK(memory == scratch && bytes == item_bytes);
  CHECK(ferry_block_float(block) == scratch);
  OK(ferry_block_data(block, NULL, NULL));
  OK(ferry_lease_data(lease, NULL, NULL));
  FAILS(FERRY_ERROR_IN_USE, "session(s)", ferry_device_destroy(made.device));
  OK(ferry_lease_end(lease));
  OK(ferry_block_free(block));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "gone", ferry_block_data(block, &memory, &bytes));
  CHECK(memory == NULL);
  OK(ferry_stream_synchronize(made.stream));
  CHECK(wrong == 0);
  OK(ferry_stream_destroy(made.stream));
  OK(ferry_device_destroy(made.device));
}

static void test_order_of_calls(void) {
  rig made = make_rig("keep", "1MiB");
  ferry_key key = key_of(2);
  ferry_key unnamed = key_of(2);
  ferry_key long_name = key_of(2);
  ferry_item_state state = FERRY_ITEM_HOSTED;
  ferry_outlook outlook;
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  void* memory = NULL;
  unnamed.name = NULL;
  long_name.name = "a name that is longer than anything anybody has ever called such work";
  FAILS(FERRY_ERROR_WRONG_STATE, "call begin_step first", ferry_session_end_step(made.session));
  FAILS(FERRY_ERROR_WRONG_STATE, "call begin_step first",
        ferry_session_restore(made.session, &key, made.stream, &lease, &memory));
  FAILS(FERRY_ERROR_WRONG_STATE, "call begin_step first", ferry_session_release(made.session, &key));
  OK(ferry_session_allocate(made.session, 4096, made.stream, NULL, &block, &memory));
  FAILS(FERRY_ERROR_WRONG_STATE, "call begin_step first",
        ferry_session_save(made.session, &key, block, made.stream, NULL, NULL));
  OK(ferry_session_begin_step(made.session));
  FAILS(FERRY_ERROR_WRONG_STATE, "call end_step first", ferry_session_begin_step(made.session));
  FAILS(FERRY_ERROR_UNKNOWN_KEY, "was not saved in this step",
        ferry_session_restore(made.session, &key, made.stream, &lease, &memory));
  CHECK(lease == NULL && memory == NULL);
  FAILS(FERRY_ERROR_UNKNOWN_KEY, "h (segment 2", ferry_session_release(made.session, &key));
  FAILS(FERRY_ERROR_UNKNOWN_KEY, "h (segment 2", ferry_session_foresee(made.session, &key, &outlook));
  OK(ferry_session_state(made.session, &key, &state));
  CHECK(state == FERRY_ITEM_UNKNOWN);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'key' is null",
        ferry_session_save(made.session, NULL, block, made.stream, NULL, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "name the item",
        ferry_session_save(made.session, &unnamed, block, made.stream, NULL, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "longer than 63",
        ferry_session_save(made.session, &long_name, block, made.stream, NULL, NULL));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'stream' is null",
        ferry_session_save(made.session, &key, block, NULL, NULL, NULL));
  OK(ferry_session_save(made.session, &key, block, made.stream, NULL, NULL)); /* the block was still ours */
  OK(ferry_session_allocate(made.session, 4096, made.stream, NULL, &block, &memory));
  FAILS(FERRY_ERROR_DUPLICATE_KEY, "saved already",
        ferry_session_save(made.session, &key, block, made.stream, NULL, &lease));
  CHECK(lease == NULL);
  OK(ferry_block_free(block));
  OK(ferry_session_release(made.session, &key));
  FAILS(FERRY_ERROR_UNKNOWN_KEY, "has been released",
        ferry_session_restore(made.session, &key, made.stream, &lease, &memory));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'lease' is null",
        ferry_session_restore(made.session, &key, made.stream, NULL, &memory));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'us' is negative", ferry_session_idle_hint(made.session, -1));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'state' is null", ferry_session_state(made.session, &key, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'outlook' is null", ferry_session_foresee(made.session, &key, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'block' is null",
        ferry_session_allocate(made.session, 4096, made.stream, NULL, NULL, &memory));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "zero bytes",
        ferry_session_allocate(made.session, 0, made.stream, "nothing", &block, &memory));
  CHECK(block == NULL && memory == NULL);
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
}

/* What belongs to one session or device does not work with another. */
static void test_strangers(void) {
  rig one = make_rig("keep", "1MiB");
  rig two = make_rig("keep", "1MiB");
  ferry_key key = key_of(3);
  ferry_block* block = NULL;
  OK(ferry_session_begin_step(one.session));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "another device",
        ferry_session_allocate(one.session, 4096, two.stream, NULL, &block, NULL));
  OK(ferry_session_allocate(two.session, 4096, two.stream, NULL, &block, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "another session",
        ferry_session_save(one.session, &key, block, one.stream, NULL, NULL));
  OK(ferry_block_free(block));
  OK(ferry_session_end_step(one.session));
  end_rig(&two);
  end_rig(&one);
}

void test_items(void) {
  test_round_trip();
  test_adopted();
  test_evaluation();
  test_outliving();
  test_order_of_calls();
  test_strangers();
}
