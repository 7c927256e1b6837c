/* Every function that takes a handle refuses one that is null, stale, of another kind, or made up; and does nothing. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

/* The calls, each with `bad` in the place of one handle. */
typedef struct call {
  char const* argument; /* that the words must name */
  ferry_status (*make)(void* bad, rig const* good);
} call;

static ferry_key const key = {0, 0, "h"};
static void* given_pointer;
static char* given_text;
static size_t given_size;

static ferry_settings* any_settings(void) {
  static ferry_settings* settings = NULL;
  if (settings == NULL) settings = host_settings("keep", "1MiB");
  return settings;
}

#define CALL(name, expression)                           \
  static ferry_status name(void* bad, rig const* good) { \
    (void)good;                                          \
    return (expression);                                 \
  }

static ferry_device* device_out;
static ferry_stream* stream_out;
static ferry_event* event_out;
static ferry_session* session_out;
static ferry_settings* settings_out;
static ferry_block* block_out;
static ferry_lease* lease_out;
static ferry_plan* plan_out;
static ferry_stats stats_out;
static ferry_device_info info_out;
static ferry_plan_summary summary_out;
static ferry_item_state state_out;
static ferry_outlook outlook_out;
static int int_out;
static int nothing(void* user) { return user != NULL; }

CALL(settings_set, ferry_settings_set(bad, "FERRY_BUDGET", "1MiB"))
CALL(settings_get, ferry_settings_get(bad, "FERRY_BUDGET", &given_text))
CALL(settings_text, ferry_settings_to_text(bad, &given_text))
CALL(settings_destroy, ferry_settings_destroy(bad))
CALL(device_create, ferry_device_create(bad, &device_out))
CALL(session_create_settings, ferry_session_create(good->device, bad, &session_out))
CALL(device_describe, (info_out.size = sizeof info_out, ferry_device_describe(bad, &info_out)))
CALL(device_order, ferry_device_order_violations(bad, &given_text))
CALL(device_destroy, ferry_device_destroy(bad))
CALL(stream_create, ferry_stream_create(bad, "s", &stream_out))
CALL(stream_from_native, ferry_stream_from_native(bad, &int_out, &stream_out))
CALL(event_create, ferry_event_create(bad, &event_out))
CALL(session_create, ferry_session_create(bad, any_settings(), &session_out))
CALL(stream_native, ferry_stream_native(bad, &given_pointer))
CALL(stream_launch, ferry_stream_launch(bad, "w", nothing, NULL, NULL, 0))
CALL(stream_synchronize, ferry_stream_synchronize(bad))
CALL(stream_destroy, ferry_stream_destroy(bad))
CALL(allocate_stream, ferry_session_allocate(good->session, 256, bad, NULL, &block_out, NULL))
CALL(restore_stream, ferry_session_restore(good->session, &key, bad, &lease_out, NULL))
CALL(adopt_stream, ferry_session_adopt(good->session, &key, &int_out, 4, bad, NULL, NULL, NULL, NULL))
CALL(stream_wait, ferry_stream_wait(good->stream, bad))
CALL(event_record, ferry_event_record(bad, good->stream))
CALL(event_query, ferry_event_query(bad, &int_out))
CALL(event_synchronize, ferry_event_synchronize(bad))
CALL(event_destroy, ferry_event_destroy(bad))
CALL(session_destroy, ferry_session_destroy(bad))
CALL(session_settings, ferry_session_settings(bad, &settings_out))
CALL(begin_step, ferry_session_begin_step(bad))
CALL(begin_evaluation, ferry_session_begin_evaluation(bad))
CALL(end_step, ferry_session_end_step(bad))
CALL(abandon_step, ferry_session_abandon_step(bad))
CALL(enter_segment, ferry_session_enter_segment(bad, 0, 0, 0, good->stream))
CALL(enter_segment_stream, ferry_session_enter_segment(good->session, 0, 0, 0, bad))
CALL(leave_segment, ferry_session_leave_segment(bad))
CALL(allocate, ferry_session_allocate(bad, 256, good->stream, NULL, &block_out, NULL))
CALL(save, ferry_session_save(bad, &key, NULL, good->stream, NULL, NULL))
CALL(adopt, ferry_session_adopt(bad, &key, &int_out, 4, good->stream, NULL, NULL, NULL, NULL))
CALL(restore, ferry_session_restore(bad, &key, good->stream, &lease_out, NULL))
CALL(release, ferry_session_release(bad, &key))
CALL(idle_hint, ferry_session_idle_hint(bad, 1))
CALL(foresee, ferry_session_foresee(bad, &key, &outlook_out))
CALL(state, ferry_session_state(bad, &key, &state_out))
CALL(synchronize, ferry_session_synchronize(bad))
CALL(set_placement, ferry_session_set_placement(bad, NULL, NULL))
CALL(set_budget, ferry_session_set_budget(bad, "1MiB"))
CALL(follow, ferry_session_follow(bad, NULL))
CALL(followed, ferry_session_followed(bad, &plan_out))
CALL(record_profile, ferry_session_record_profile(bad, 1))
CALL(recorded_profile, ferry_session_recorded_profile(bad, &given_text))
CALL(stats, (stats_out.size = sizeof stats_out, ferry_session_stats(bad, &stats_out)))
CALL(stats_json, ferry_session_stats_json(bad, &given_text))
CALL(explain, ferry_session_explain(bad, &given_text))
CALL(save_block, ferry_session_save(good->session, &key, bad, good->stream, NULL, NULL))
CALL(block_data, ferry_block_data(bad, &given_pointer, &given_size))
CALL(block_float, ferry_block_float(bad) == NULL ? FERRY_ERROR_INVALID_HANDLE : FERRY_OK)
CALL(block_free, ferry_block_free(bad))
CALL(lease_data, ferry_lease_data(bad, &given_pointer, &given_size))
CALL(lease_float, ferry_lease_float(bad) == NULL ? FERRY_ERROR_INVALID_HANDLE : FERRY_OK)
CALL(lease_end, ferry_lease_end(bad))
CALL(follow_plan, ferry_session_follow(good->session, bad))
CALL(plan_to_json, ferry_plan_to_json(bad, &given_text))
CALL(plan_summarize, (summary_out.size = sizeof summary_out, ferry_plan_summarize(bad, &summary_out)))
CALL(plan_require_match, ferry_plan_require_match(bad, "{}"))
CALL(plan_destroy, ferry_plan_destroy(bad))

static call const calls[] = {
    {"settings", settings_set},
    {"settings", settings_get},
    {"settings", settings_text},
    {"settings", settings_destroy},
    {"settings", device_create},
    {"settings", session_create_settings},
    {"device", device_describe},
    {"device", device_order},
    {"device", device_destroy},
    {"device", stream_create},
    {"device", stream_from_native},
    {"device", event_create},
    {"device", session_create},
    {"stream", stream_native},
    {"stream", stream_launch},
    {"stream", stream_synchronize},
    {"stream", stream_destroy},
    {"stream", allocate_stream},
    {"stream", restore_stream},
    {"stream", adopt_stream},
    {"event", stream_wait},
    {"event", event_record},
    {"event", event_query},
    {"event", event_synchronize},
    {"event", event_destroy},
    {"session", session_destroy},
    {"session", session_settings},
    {"session", begin_step},
    {"session", begin_evaluation},
    {"session", end_step},
    {"session", abandon_step},
    {"session", enter_segment},
    {"stream", enter_segment_stream},
    {"session", leave_segment},
    {"session", allocate},
    {"session", save},
    {"session", adopt},
    {"session", restore},
    {"session", release},
    {"session", idle_hint},
    {"session", foresee},
    {"session", state},
    {"session", synchronize},
    {"session", set_placement},
    {"session", set_budget},
    {"session", follow},
    {"session", followed},
    {"session", record_profile},
    {"session", recorded_profile},
    {"session", stats},
    {"session", stats_json},
    {"session", explain},
    {"block", save_block},
    {"block", block_data},
    {"block", block_float},
    {"block", block_free},
    {"lease", lease_data},
    {"lease", lease_float},
    {"lease", lease_end},
    {"plan", follow_plan},
    {"plan", plan_to_json},
    {"plan", plan_summarize},
    {"plan", plan_require_match},
    {"plan", plan_destroy},
};
enum { call_count = sizeof calls / sizeof calls[0] };

/* Every call with this value, except where that is a handle of the kind that the call wants. */
static void refused_everywhere(void* bad, char const* kind, char const* words, rig const* good) {
  char named[64];
  size_t i;
  for (i = 0; i < call_count; ++i) {
    if (kind != NULL && strcmp(calls[i].argument, kind) == 0) continue;
    snprintf(named, sizeof named, "'%s' %s", calls[i].argument, words);
    if (!FAILS(FERRY_ERROR_INVALID_HANDLE, named, calls[i].make(bad, good))) {
      check_that(0, calls[i].argument, __FILE__, __LINE__);
    }
  }
}

static void test_wrong_kinds(rig const* good) {
  ferry_event* event = NULL;
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  OK(ferry_event_create(good->device, &event));
  OK(ferry_session_allocate(good->session, 256, good->stream, NULL, &block, NULL));
  refused_everywhere(any_settings(), "settings", "is settings; pass ", good);
  refused_everywhere(good->device, "device", "is a device; pass ", good);
  refused_everywhere(good->stream, "stream", "is a stream; pass ", good);
  refused_everywhere(event, "event", "is an event; pass ", good);
  refused_everywhere(good->session, "session", "is a session; pass ", good);
  refused_everywhere(block, "block", "is a block; pass ", good);
  OK(ferry_session_save(good->session, &key, block, good->stream, NULL, &lease));
  refused_everywhere(lease, "lease", "is a lease; pass ", good);
  OK(ferry_lease_end(lease));
  OK(ferry_session_release(good->session, &key));
  OK(ferry_event_destroy(event));
}

/* Numbers that have a handle's form, and are none: every bit of a real one turned, and a few from anywhere. */
static void test_made_up(rig const* good) {
  uint64_t const real = (uint64_t)(uintptr_t)good->session;
  unsigned bit;
  void* const pointers[] = {&bit, (void*)good, (void*)(uintptr_t)1, (void*)(uintptr_t)-1};
  size_t i;
  for (bit = 0; bit < 64; ++bit) {
    void* const bad = (void*)(uintptr_t)(real ^ ((uint64_t)1 << bit));
    FAILS(FERRY_ERROR_INVALID_HANDLE, "'session'", ferry_session_begin_step(bad));
    FAILS(FERRY_ERROR_INVALID_HANDLE, "'session'", ferry_session_destroy(bad));
  }
  for (i = 0; i < sizeof pointers / sizeof pointers[0]; ++i) {
    refused_everywhere(pointers[i], NULL, "is no handle of Ferry's", good);
  }
}

/* A slot that is used again does not make the old handle valid. */
static void test_reused(rig const* good) {
  ferry_block* old = NULL;
  int i;
  OK(ferry_session_allocate(good->session, 256, good->stream, NULL, &old, NULL));
  OK(ferry_block_free(old));
  for (i = 0; i < 1000; ++i) {
    ferry_block* block = NULL;
    OK(ferry_session_allocate(good->session, 256, good->stream, NULL, &block, NULL));
    CHECK(block != old);
    FAILS(FERRY_ERROR_INVALID_HANDLE, "'block' is gone", ferry_block_free(old));
    OK(ferry_block_free(block));
  }
}

/* Handles of all kinds, after what they stood for has gone. */
static void test_stale(void) {
  rig gone = make_rig("keep", "1MiB");
  rig good = make_rig("keep", "1MiB");
  ferry_settings* settings = host_settings("keep", "1MiB");
  ferry_event* event = NULL;
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  void* handles[7];
  char const* kinds[7] = {"settings", "device", "stream", "event", "session", "block", "lease"};
  size_t i, c;
  OK(ferry_event_create(gone.device, &event));
  OK(ferry_session_begin_step(gone.session));
  OK(ferry_session_allocate(gone.session, 256, gone.stream, NULL, &block, NULL));
  OK(ferry_session_save(gone.session, &key, block, gone.stream, NULL, &lease));
  handles[0] = settings;
  handles[1] = gone.device;
  handles[2] = gone.stream;
  handles[3] = event;
  handles[4] = gone.session;
  handles[5] = block;
  handles[6] = lease;
  OK(ferry_lease_end(lease));
  OK(ferry_event_destroy(event));
  OK(ferry_settings_destroy(settings));
  end_rig(&gone);
  for (i = 0; i < 7; ++i) {
    for (c = 0; c < call_count; ++c) {
      if (strcmp(calls[c].argument, kinds[i]) != 0) continue;
      FAILS(FERRY_ERROR_INVALID_HANDLE, "is gone", calls[c].make(handles[i], &good));
    }
  }
  end_rig(&good);
}

void test_handles(void) {
  rig good = make_rig("keep", "1MiB");
  OK(ferry_session_begin_step(good.session));
  refused_everywhere(NULL, NULL, "is null", &good);
  test_wrong_kinds(&good);
  test_made_up(&good);
  test_reused(&good);
  OK(ferry_session_end_step(good.session));
  end_rig(&good);
  test_stale();
  OK(ferry_settings_destroy(any_settings()));
}
