/* Recipes: items that are dropped and rebuilt, by rows too; recipes that fail, are malformed, or call what they must
   not; what becomes of their user pointers. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { item_bytes = 32 * 1024 };

typedef struct plus_one {
  rig const* on;
  int result;   /* what the recipe returns */
  int use_dead; /* enqueue on a stream that is gone */
  int runs;
  int destroyed;
  size_t rows_seen;
  ferry_status asked_session;
} plus_one;

typedef struct add_job {
  unsigned char const* from;
  unsigned char* to;
  size_t bytes;
} add_job;

static int run_add(void* user) {
  add_job* job = user;
  size_t i;
  for (i = 0; i < job->bytes; ++i) job->to[i] = (unsigned char)(job->from[i] + 1);
  free(job);
  return 0;
}

static ferry_status enqueue_add(void* stream, void const* from, void* to, size_t bytes) {
  ferry_access touched[2];
  add_job* job = malloc(sizeof *job);
  if (job == NULL) abort();
  job->from = from;
  job->to = to;
  job->bytes = bytes;
  touched[0].address = from;
  touched[0].bytes = bytes;
  touched[0].writes = 0;
  touched[1].address = to;
  touched[1].bytes = bytes;
  touched[1].writes = 1;
  {
    ferry_status const status = ferry_stream_launch(stream, "add", run_add, job, touched, 2);
    if (status != FERRY_OK) free(job);
    return status;
  }
}

static int rebuild(ferry_recipe_context const* context, void* user) {
  plus_one* self = user;
  ferry_stats stats;
  size_t const row_bytes = context->bytes / (context->first_row + context->rows);
  size_t const skipped = context->first_row * row_bytes;
  CHECK(context->size == sizeof *context && context->input_count == 1 && context->native_stream == NULL);
  CHECK(context->bytes == item_bytes);
  ++self->runs;
  self->rows_seen = context->rows;
  stats.size = sizeof stats;
  self->asked_session = ferry_session_stats(self->on->session, &stats);
  if (self->use_dead) return (int)enqueue_add(NULL, context->inputs[0], context->output, context->bytes);
  if (self->result != 0) return self->result;
  CHECK(context->stream == (void*)self->on->stream);
  return (int)enqueue_add(context->stream, (char const*)context->inputs[0] + skipped, (char*)context->output + skipped,
                          context->bytes - skipped);
}

static void note_destroyed(void* user) { ++((plus_one*)user)->destroyed; }

static ferry_key const source = {0, 0, "x"};
static ferry_key const derived = {0, 0, "y"};

static ferry_recipe recipe_of(plus_one* self) {
  ferry_recipe how;
  memset(&how, 0, sizeof how);
  how.size = sizeof how;
  how.enqueue = rebuild;
  how.user = self;
  how.destroy = note_destroyed;
  how.inputs = &source;
  how.input_count = 1;
  return how;
}

static ferry_block* filled(rig const* on, unsigned char value) {
  ferry_block* block = NULL;
  void* memory = NULL;
  OK(ferry_session_allocate(on->session, item_bytes, on->stream, NULL, &block, &memory));
  launch_fill(on, memory, item_bytes, value);
  return block;
}

static void save_both(rig const* on, ferry_recipe const* how) {
  ferry_item_state state = FERRY_ITEM_UNKNOWN;
  OK(ferry_session_save(on->session, &source, filled(on, 10), on->stream, NULL, NULL));
  OK(ferry_session_save(on->session, &derived, filled(on, 11), on->stream, how, NULL));
  OK(ferry_session_state(on->session, &derived, &state));
  CHECK(state == FERRY_ITEM_DROPPED);
}

static void test_rebuilt(size_t rows) {
  rig made = make_rig("recompute", "1MiB");
  plus_one self = {NULL, 0, 0, 0, 0, 0, FERRY_OK};
  ferry_recipe how = recipe_of(&self);
  ferry_lease* lease = NULL;
  ferry_outlook outlook;
  void* memory = NULL;
  int wrong = 0;
  self.on = &made;
  how.rows = rows;
  OK(ferry_session_begin_step(made.session));
  save_both(&made, &how);
  OK(ferry_session_foresee(made.session, &derived, &outlook));
  CHECK(self.runs == 0);
  OK(ferry_session_restore(made.session, &derived, made.stream, &lease, &memory));
  CHECK(self.runs == 1 && self.rows_seen == (rows == 0 ? 1 : rows));
  CHECK(self.asked_session == FERRY_ERROR_BUSY);
  launch_expect(&made, memory, item_bytes, 11, &wrong);
  OK(ferry_lease_end(lease));
  CHECK(self.destroyed == 0);
  OK(ferry_session_release(made.session, &derived));
  OK(ferry_stream_synchronize(made.stream));
  OK(ferry_session_end_step(made.session));
  CHECK(wrong == 0 && self.destroyed == 1);
  end_rig(&made);
  CHECK(self.destroyed == 1);
}

static void test_failing(void) {
  rig made = make_rig("recompute", "1MiB");
  plus_one self = {NULL, 42, 0, 0, 0, 0, FERRY_OK};
  ferry_recipe how = recipe_of(&self);
  ferry_lease* lease = NULL;
  void* memory = NULL;
  int wrong = 0;
  self.on = &made;
  OK(ferry_session_begin_step(made.session));
  save_both(&made, &how);
  FAILS(FERRY_ERROR_RECIPE, "the recipe of y (segment 0",
        ferry_session_restore(made.session, &derived, made.stream, &lease, &memory));
  CHECK(strstr(ferry_last_error(), "returned 42") != NULL);
  CHECK(lease == NULL && memory == NULL);
  self.use_dead = 1; /* the reason of a call that failed inside is passed on */
  FAILS(FERRY_ERROR_RECIPE, "ferry_stream_launch: 'stream' is null",
        ferry_session_restore(made.session, &derived, made.stream, &lease, &memory));
  self.use_dead = 0;
  self.result = 0; /* it may be tried again */
  OK(ferry_session_restore(made.session, &derived, made.stream, &lease, &memory));
  launch_expect(&made, memory, item_bytes, 11, &wrong);
  OK(ferry_lease_end(lease));
  OK(ferry_stream_synchronize(made.stream));
  OK(ferry_session_end_step(made.session));
  CHECK(wrong == 0 && self.runs == 3 && self.destroyed == 1);
  end_rig(&made);
}

/* Its input is released before it is needed. */
static void test_lost_input(void) {
  rig made = make_rig("recompute", "1MiB");
  plus_one self = {NULL, 0, 0, 0, 0, 0, FERRY_OK};
  ferry_recipe how = recipe_of(&self);
  ferry_lease* lease = NULL;
  self.on = &made;
  OK(ferry_session_begin_step(made.session));
  save_both(&made, &how);
  OK(ferry_session_release(made.session, &source));
  FAILS(FERRY_ERROR_RECIPE, "needs x", ferry_session_restore(made.session, &derived, made.stream, &lease, NULL));
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
  CHECK(self.runs == 0 && self.destroyed == 1);
}

/* A save that fails leaves the block to the caller, and ends the recipe's user pointer. */
static void test_malformed(void) {
  rig made = make_rig("recompute", "1MiB");
  plus_one self = {NULL, 0, 0, 0, 0, 0, FERRY_OK};
  ferry_recipe how = recipe_of(&self);
  ferry_block* block = NULL;
  struct {
    ferry_recipe known;
    size_t later[2];
  } longer;
  self.on = &made;
  OK(ferry_session_begin_step(made.session));
  block = filled(&made, 1);
  how.enqueue = NULL;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'recipe.enqueue' is null",
        ferry_session_save(made.session, &source, block, made.stream, &how, NULL));
  how = recipe_of(&self);
  how.inputs = NULL;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'recipe.inputs' is null",
        ferry_session_save(made.session, &source, block, made.stream, &how, NULL));
  how.inputs = &source;
  how.input_count = (size_t)-1;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "at most 4096",
        ferry_session_save(made.session, &source, block, made.stream, &how, NULL));
  how.input_count = 1;
  how.rows = 3;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "not 3 equal rows",
        ferry_session_save(made.session, &source, block, made.stream, &how, NULL));
  how.rows = 0;
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'session' is null",
        ferry_session_save(NULL, &source, block, made.stream, &how, NULL));
  CHECK(self.destroyed == 5);
  how.size = 8; /* nothing of it can be believed then */
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'recipe' says that its size is 8",
        ferry_session_save(made.session, &source, block, made.stream, &how, NULL));
  CHECK(self.destroyed == 5);

  memset(&longer, 0, sizeof longer);
  longer.known = recipe_of(&self);
  longer.known.size = sizeof longer;
  longer.later[1] = 1;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "take a newer library",
        ferry_session_save(made.session, &source, block, made.stream, &longer.known, NULL));
  longer.later[1] = 0;
  longer.known.inputs = &derived;
  OK(ferry_session_save(made.session, &source, block, made.stream, &longer.known, NULL));
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
  CHECK(self.destroyed == 6);
}

/* FERRY_VERIFY=recipes: one that does not give the item's bits fails the save, which leaves the block to the caller. */
static void test_checked(void) {
  rig made = {NULL, NULL, NULL};
  ferry_settings* settings = host_settings("keep", "1MiB");
  plus_one self = {NULL, 0, 0, 0, 0, 0, FERRY_OK};
  ferry_recipe how = recipe_of(&self);
  ferry_block* block = NULL;
  ferry_stats stats;
  char* text = NULL;
  OK(ferry_settings_set(settings, "FERRY_VERIFY", "recipes"));
  OK(ferry_device_create(settings, &made.device));
  OK(ferry_stream_create(made.device, "compute", &made.stream));
  OK(ferry_session_create(made.device, settings, &made.session));
  OK(ferry_settings_destroy(settings));
  self.on = &made;
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_save(made.session, &source, filled(&made, 10), made.stream, NULL, NULL));
  block = filled(&made, 12);
  FAILS(FERRY_ERROR_RECIPE, "the recipe of y (segment 0, micro-batch 0) does not give the item's bits",
        ferry_session_save(made.session, &derived, block, made.stream, &how, NULL));
  CHECK(strstr(ferry_last_error(), "byte 0 of 32768 is 0x0b, the item has 0x0c") != NULL);
  CHECK(self.runs == 1 && self.destroyed == 1);
  OK(ferry_block_free(block));
  OK(ferry_session_save(made.session, &derived, filled(&made, 11), made.stream, &how, NULL));
  CHECK(self.runs == 2 && self.rows_seen == 1);
  stats.size = sizeof stats;
  OK(ferry_session_stats(made.session, &stats));
  CHECK(stats.recipes_checked == 1 && stats.recomputes == 0);
  OK(ferry_session_explain(made.session, &text));
  CHECK(strstr(text, "FERRY_VERIFY=recipes: 1 times a recipe ran again") != NULL);
  OK(ferry_string_free(text));
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
  CHECK(self.destroyed == 2);
}

/* An input that no save of the step has. */
static void test_unknown_input(void) {
  rig made = make_rig("keep", "1MiB");
  plus_one self = {NULL, 0, 0, 0, 0, 0, FERRY_OK};
  ferry_recipe how = recipe_of(&self);
  ferry_lease* lease = NULL;
  self.on = &made;
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_save(made.session, &derived, filled(&made, 1), made.stream, &how, NULL));
  OK(ferry_session_restore(made.session, &derived, made.stream, &lease, NULL));
  OK(ferry_lease_end(lease));
  FAILS(FERRY_ERROR_RECIPE, "the recipe of y (segment 0, micro-batch 0) names x", ferry_session_end_step(made.session));
  OK(ferry_session_abandon_step(made.session));
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_save(made.session, &source, filled(&made, 10), made.stream, NULL, NULL));
  OK(ferry_session_save(made.session, &derived, filled(&made, 11), made.stream, &how, NULL));
  OK(ferry_session_restore(made.session, &derived, made.stream, &lease, NULL));
  OK(ferry_lease_end(lease));
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
  CHECK(self.runs == 0);
}

void test_recipes(void) {
  test_rebuilt(0);
  test_rebuilt(16);
  test_failing();
  test_lost_input();
  test_malformed();
  test_checked();
  test_unknown_input();
}
