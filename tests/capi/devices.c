/* Devices, streams and events. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int fail_with_seven(void* user) {
  (void)user;
  return 7;
}

static int count_up(void* user) {
  ++*(int*)user;
  return 0;
}

static void test_device(void) {
  ferry_settings* settings = host_settings("keep", "1MiB");
  ferry_device* device = NULL;
  ferry_device_info info;
  char* text = NULL;
  OK(ferry_device_create(settings, &device));
  memset(&info, 0xFF, sizeof info);
  info.size = sizeof info;
  OK(ferry_device_describe(device, &info));
  CHECK(strcmp(info.name, "host") == 0 && info.device_bytes == 16u << 20 && info.pinned_bytes == 16u << 20);
  CHECK(info.host_addressable == 1 && info.holds_bytes == 1 && info.size == sizeof info);
  info.size = 3;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "set .size to sizeof", ferry_device_describe(device, &info));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'info' is null", ferry_device_describe(device, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'device' is null", ferry_device_create(settings, NULL));
  OK(ferry_device_destroy(device));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'device' is gone", ferry_device_destroy(device));

  OK(ferry_settings_set(settings, "FERRY_DEVICE", "sim"));
  OK(ferry_device_create(settings, &device));
  FAILS(FERRY_ERROR_NOT_AVAILABLE, "FERRY_DEVICE=host", ferry_device_order_violations(device, &text));
  CHECK(text == NULL);
  OK(ferry_device_destroy(device));
  OK(ferry_settings_set(settings, "FERRY_DEVICE", "cuda:1000"));
  FAILS(FERRY_ERROR_NO_CUDA, "", ferry_device_create(settings, &device));
  CHECK(device == NULL);
  OK(ferry_settings_set(settings, "FERRY_DEVICE", "host"));
  OK(ferry_settings_set(settings, "FERRY_DEVICE_BYTES", "1"));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "FERRY_DEVICE_BYTES", ferry_device_create(settings, &device));
  OK(ferry_settings_destroy(settings));
}

/* What the checker finds is heard of: two streams that write the same bytes, unordered. */
static void test_order_violations(void) {
  rig made = make_rig("keep", "1MiB");
  ferry_stream* other = NULL;
  ferry_block* block = NULL;
  ferry_access touched = {NULL, 256, 1};
  void* memory = NULL;
  char* found = NULL;
  int runs = 0;
  int other_runs = 0;
  OK(ferry_stream_create(made.device, "other", &other));
  OK(ferry_session_allocate(made.session, 256, made.stream, "shared", &block, &memory));
  touched.address = memory;
  OK(ferry_stream_launch(made.stream, "first", count_up, &runs, &touched, 1));
  OK(ferry_stream_launch(other, "second", count_up, &other_runs, &touched, 1));
  OK(ferry_device_order_violations(made.device, &found));
  CHECK(strstr(found, "first") != NULL && strstr(found, "second") != NULL);
  OK(ferry_string_free(found));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'lines' is null", ferry_device_order_violations(made.device, NULL));
  OK(ferry_stream_destroy(other));
  OK(ferry_block_free(block));
  OK(ferry_session_destroy(made.session));
  OK(ferry_stream_destroy(made.stream));
  OK(ferry_device_destroy(made.device));
}

/* A struct of a later version: longer, and zero where this version knows nothing. */
static void test_longer_struct(ferry_device* device) {
  union {
    ferry_device_info info;
    unsigned char bytes[sizeof(ferry_device_info) + 16];
  } longer;
  memset(&longer, 0xFF, sizeof longer);
  longer.info.size = sizeof longer;
  OK(ferry_device_describe(device, &longer.info));
  CHECK(longer.bytes[sizeof(ferry_device_info)] == 0 && longer.bytes[sizeof longer - 1] == 0);
  CHECK(longer.info.size == sizeof longer);
}

static void test_streams(ferry_device* device, ferry_device* other) {
  ferry_stream* stream = NULL;
  ferry_stream* foreign = NULL;
  ferry_event* event = NULL;
  void* native = &native;
  int runs = 0;
  OK(ferry_stream_create(device, "one", &stream));
  OK(ferry_stream_native(stream, &native));
  CHECK(native == NULL);
  OK(ferry_stream_launch(stream, "count", count_up, &runs, NULL, 0));
  OK(ferry_stream_synchronize(stream));
  CHECK(runs == 1);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'work' is null", ferry_stream_launch(stream, "none", NULL, NULL, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'name' is null", ferry_stream_launch(stream, NULL, count_up, &runs, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'accesses' is null",
        ferry_stream_launch(stream, "count", count_up, &runs, NULL, 1));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "longer than 63",
        ferry_stream_launch(stream, "a name that is longer than anything anybody has ever called such work", count_up,
                            &runs, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "has no streams but its own", ferry_stream_from_native(device, &runs, &foreign));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'native' is null", ferry_stream_from_native(device, NULL, &foreign));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'name' is null", ferry_stream_create(device, NULL, &foreign));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'stream' is null", ferry_stream_create(device, "none", NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'native' is null", ferry_stream_native(stream, NULL));
  OK(ferry_stream_synchronize(stream));
  CHECK(runs == 1);

  /* Work that fails is heard of at the next synchronisation, once. */
  OK(ferry_stream_launch(stream, "breaks", fail_with_seven, NULL, NULL, 0));
  OK(ferry_stream_launch(stream, "behind it", count_up, &runs, NULL, 0));
  FAILS(FERRY_ERROR_STREAM, "breaks", ferry_stream_synchronize(stream));
  CHECK(strstr(ferry_last_error(), "returned 7") != NULL);
  CHECK(runs == 1);
  OK(ferry_stream_launch(stream, "after it", count_up, &runs, NULL, 0));
  OK(ferry_stream_synchronize(stream));
  CHECK(runs == 2);

  OK(ferry_stream_create(other, "foreign", &foreign));
  OK(ferry_event_create(device, &event));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "another device", ferry_event_record(event, foreign));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "another device", ferry_stream_wait(foreign, event));
  OK(ferry_event_destroy(event));
  OK(ferry_stream_destroy(foreign));
  OK(ferry_stream_destroy(stream));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "gone", ferry_stream_launch(stream, "count", count_up, &runs, NULL, 0));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "gone", ferry_stream_destroy(stream));
}

/* Work that calls Ferry, on the stream's own thread (host) or on the one that waits for it (sim). */
static int call_from_work(void* user) {
  rig const* on = user;
  ferry_settings* settings = NULL;
  ferry_stats stats;
  stats.size = sizeof stats;
  FAILS(FERRY_ERROR_BUSY, "'stream' is used by work on a stream", ferry_stream_synchronize(on->stream));
  FAILS(FERRY_ERROR_BUSY, "'stream' is used by work on a stream", ferry_stream_destroy(on->stream));
  FAILS(FERRY_ERROR_BUSY, "'stream' is used by work on a stream",
        ferry_stream_launch(on->stream, "more", count_up, NULL, NULL, 0));
  FAILS(FERRY_ERROR_BUSY, "'session' is used by work on a stream", ferry_session_stats(on->session, &stats));
  FAILS(FERRY_ERROR_BUSY, "'device' is used by work on a stream", ferry_device_destroy(on->device));
  OK(ferry_settings_create(&settings));
  OK(ferry_settings_set(settings, "FERRY_BUDGET", "1MiB"));
  OK(ferry_settings_destroy(settings));
  return 0;
}

static void test_calls_from_work(char const* device) {
  ferry_settings* settings = host_settings("keep", "1MiB");
  rig made = {NULL, NULL, NULL};
  OK(ferry_settings_set(settings, "FERRY_DEVICE", device));
  OK(ferry_device_create(settings, &made.device));
  OK(ferry_stream_create(made.device, "compute", &made.stream));
  OK(ferry_session_create(made.device, settings, &made.session));
  OK(ferry_settings_destroy(settings));
  OK(ferry_stream_launch(made.stream, "calls", call_from_work, &made, NULL, 0));
  OK(ferry_stream_synchronize(made.stream));
  OK(ferry_session_destroy(made.session));
  OK(ferry_stream_destroy(made.stream));
  OK(ferry_device_destroy(made.device));
}

/* More accesses than fit the stack. */
static void test_many_accesses(ferry_device* device) {
  ferry_access touched[40];
  char memory[40];
  ferry_stream* stream = NULL;
  int runs = 0;
  size_t i;
  for (i = 0; i < 40; ++i) {
    touched[i].address = memory + i;
    touched[i].bytes = 1;
    touched[i].writes = (int)(i % 2);
  }
  OK(ferry_stream_create(device, "many", &stream));
  OK(ferry_stream_launch(stream, "many", count_up, &runs, touched, 40));
  OK(ferry_stream_synchronize(stream));
  CHECK(runs == 1);
  OK(ferry_stream_destroy(stream));
}

static void test_events(ferry_device* device) {
  ferry_stream* one = NULL;
  ferry_stream* two = NULL;
  ferry_event* event = NULL;
  int complete = -1;
  int runs = 0;
  OK(ferry_stream_create(device, "one", &one));
  OK(ferry_stream_create(device, "two", &two));
  OK(ferry_event_create(device, &event));
  OK(ferry_event_query(event, &complete)); /* never recorded */
  CHECK(complete == 1);
  OK(ferry_stream_launch(one, "count", count_up, &runs, NULL, 0));
  OK(ferry_event_record(event, one));
  OK(ferry_stream_wait(two, event));
  OK(ferry_stream_synchronize(two));
  CHECK(runs == 1);
  OK(ferry_event_synchronize(event));
  OK(ferry_event_query(event, &complete));
  CHECK(complete == 1);

  OK(ferry_stream_launch(one, "breaks", fail_with_seven, NULL, NULL, 0));
  OK(ferry_event_record(event, one));
  FAILS(FERRY_ERROR_STREAM, "breaks", ferry_event_synchronize(event));
  FAILS(FERRY_ERROR_STREAM, "breaks", ferry_event_query(event, &complete));

  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'complete' is null", ferry_event_query(event, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'event' is null", ferry_event_create(device, NULL));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'stream' is null", ferry_event_record(event, NULL));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "no handle of Ferry's", ferry_event_record(event, &runs));
  OK(ferry_event_destroy(event));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "gone", ferry_event_query(event, &complete));
  OK(ferry_stream_destroy(one));
  OK(ferry_stream_destroy(two));
}

/* A device goes last. */
static void test_refuses_to_go(void) {
  rig made = make_rig("keep", "1MiB");
  ferry_event* event = NULL;
  ferry_block* block = NULL;
  OK(ferry_event_create(made.device, &event));
  FAILS(FERRY_ERROR_IN_USE, "1 stream(s), 1 event(s) and 1 session(s)", ferry_device_destroy(made.device));
  OK(ferry_session_allocate(made.session, 256, made.stream, NULL, &block, NULL));
  OK(ferry_session_destroy(made.session));
  OK(ferry_event_destroy(event));
  FAILS(FERRY_ERROR_IN_USE, "1 stream(s), 0 event(s) and 1 session(s)", ferry_device_destroy(made.device));
  OK(ferry_block_free(block));
  OK(ferry_stream_destroy(made.stream));
  OK(ferry_device_destroy(made.device));
}

void test_devices(void) {
  ferry_settings* settings = host_settings("keep", "1MiB");
  ferry_device* device = NULL;
  ferry_device* other = NULL;
  OK(ferry_device_create(settings, &device));
  OK(ferry_device_create(settings, &other));
  OK(ferry_settings_destroy(settings));
  test_device();
  test_longer_struct(device);
  test_streams(device, other);
  test_many_accesses(device);
  test_events(device);
  OK(ferry_device_destroy(other));
  OK(ferry_device_destroy(device));
  test_order_violations();
  test_calls_from_work("host");
  test_calls_from_work("sim");
  test_refuses_to_go();
}
