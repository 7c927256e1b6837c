/* Placement functions, budgets, and the settings of a session. */
#include <string.h>

#include "check.h"

enum { item_bytes = 32 * 1024 };

typedef struct chooser {
  int answer;
  int asked;
  uint32_t segment;
  size_t bytes;
} chooser;

static int choose(ferry_item_info const* item, void* user) {
  chooser* self = user;
  ++self->asked;
  self->segment = item->key.segment;
  self->bytes = item->bytes;
  CHECK(item->size == sizeof *item && strcmp(item->key.name, "exactly thirty-one characters..") == 0);
  CHECK(item->has_recipe == 0 && item->boundary == 1 && item->recipe_us == 0);
  return self->answer;
}

static ferry_block* scratch(rig const* on) {
  ferry_block* block = NULL;
  void* memory = NULL;
  OK(ferry_session_allocate(on->session, item_bytes, on->stream, NULL, &block, &memory));
  launch_fill(on, memory, item_bytes, 1);
  return block;
}

static void test_function(void) {
  rig made = make_rig("keep", "1MiB");
  chooser self = {FERRY_OFFLOAD, 0, 0, 0};
  ferry_key key = {0, 5, "exactly thirty-one characters.."};
  ferry_item_state state = FERRY_ITEM_UNKNOWN;
  ferry_lease* lease = NULL;
  ferry_block* block = NULL;
  OK(ferry_session_set_placement(made.session, choose, &self));
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_save(made.session, &key, scratch(&made), made.stream, NULL, NULL));
  CHECK(self.asked == 1 && self.segment == 5 && self.bytes == item_bytes);
  OK(ferry_session_synchronize(made.session));
  OK(ferry_session_state(made.session, &key, &state));
  CHECK(state == FERRY_ITEM_HOSTED);

  self.answer = FERRY_KEEP;
  key.segment = 6;
  OK(ferry_session_save(made.session, &key, scratch(&made), made.stream, NULL, NULL));
  OK(ferry_session_synchronize(made.session));
  OK(ferry_session_state(made.session, &key, &state));
  CHECK(state == FERRY_ITEM_RESIDENT);

  /* An answer that is none: the item is saved and kept, and the caller hears of it. */
  self.answer = 17;
  key.segment = 7;
  block = scratch(&made);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "returned 17",
        ferry_session_save(made.session, &key, block, made.stream, NULL, &lease));
  CHECK(lease == NULL);
  FAILS(FERRY_ERROR_INVALID_HANDLE, "used up", ferry_block_free(block));
  OK(ferry_session_state(made.session, &key, &state));
  CHECK(state == FERRY_ITEM_RESIDENT);
  OK(ferry_session_restore(made.session, &key, made.stream, &lease, NULL));
  OK(ferry_lease_end(lease));

  /* Where the trainer says that it is. */
  OK(ferry_session_enter_segment(made.session, 1, 0, 7, made.stream));
  FAILS(FERRY_ERROR_WRONG_STATE, "leave that one first",
        ferry_session_enter_segment(made.session, 1, 0, 6, made.stream));
  OK(ferry_session_leave_segment(made.session));
  OK(ferry_session_leave_segment(made.session));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'stream' is null", ferry_session_enter_segment(made.session, 0, 0, 6, NULL));

  /* A step that cannot be gone on with: its keys are free again. */
  OK(ferry_session_abandon_step(made.session));
  OK(ferry_session_abandon_step(made.session));
  FAILS(FERRY_ERROR_WRONG_STATE, "no step has begun", ferry_session_release(made.session, &key));
  FAILS(FERRY_ERROR_WRONG_STATE, "no step has begun",
        ferry_session_enter_segment(made.session, 0, 0, 0, made.stream));
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_set_placement(made.session, NULL, NULL));
  key.segment = 8;
  OK(ferry_session_save(made.session, &key, scratch(&made), made.stream, NULL, NULL));
  CHECK(self.asked == 3);
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
}

static void test_budget(void) {
  rig made = make_rig("keep", "256KiB");
  ferry_settings* settings = NULL;
  ferry_stats stats;
  char* value = NULL;
  stats.size = sizeof stats;
  OK(ferry_session_set_budget(made.session, "512KiB"));
  OK(ferry_session_stats(made.session, &stats));
  CHECK(stats.device.limit_bytes == 512 * 1024);
  FAILS(FERRY_ERROR_SETTING, "FERRY_BUDGET='much'", ferry_session_set_budget(made.session, "much"));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'budget' is null", ferry_session_set_budget(made.session, NULL));
  FAILS(FERRY_ERROR_OUT_OF_DEVICE_MEMORY, "the budget asks for 1.00 GiB",
        ferry_session_set_budget(made.session, "1GiB"));
  OK(ferry_session_stats(made.session, &stats));
  CHECK(stats.device.limit_bytes == 512 * 1024);
  stats.size = 1;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'stats' says that its size is 1", ferry_session_stats(made.session, &stats));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'stats' is null", ferry_session_stats(made.session, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'json' is null", ferry_session_stats_json(made.session, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'text' is null", ferry_session_explain(made.session, NULL));
  OK(ferry_session_settings(made.session, &settings));
  OK(ferry_settings_get(settings, "FERRY_POLICY", &value));
  CHECK(strcmp(value, "keep") == 0);
  OK(ferry_string_free(value));
  OK(ferry_settings_destroy(settings));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'settings' is null", ferry_session_settings(made.session, NULL));
  end_rig(&made);
}

void test_placements(void) {
  test_function();
  test_budget();
}
