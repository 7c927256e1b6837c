/* What the C tests share: checks that say where they failed, and go on. Any thread may check. */
#ifndef FERRY_TESTS_CAPI_CHECK_H_
#define FERRY_TESTS_CAPI_CHECK_H_

#include <stddef.h>

#include "ferry/ferry.h"

/* Holds, or is reported and counted. */
#define CHECK(condition) check_that((condition) != 0, #condition, __FILE__, __LINE__)
/* The call succeeds. True if it does, so that what depends on it can be left out. */
#define OK(call) check_status((call), FERRY_OK, "", #call, __FILE__, __LINE__)
/* The call fails with this status, and the words have this text in them. */
#define FAILS(status, text, call) check_status((call), (status), (text), #call, __FILE__, __LINE__)

int check_that(int holds, char const* what, char const* file, int line);
int check_status(ferry_status found, ferry_status wanted, char const* text, char const* call, char const* file,
                 int line);
int checks_failed(void);

/* Settings of a host device that depends on nothing of this machine: an unpaced link, its order checked. */
ferry_settings* host_settings(char const* policy, char const* budget);

/* A device with a stream and a session, made and taken down together. */
typedef struct rig {
  ferry_device* device;
  ferry_stream* stream;
  ferry_session* session;
} rig;
rig make_rig(char const* policy, char const* budget);
void end_rig(rig* of);

/* Launches that fill bytes and that compare them, with what they touch. `fill` writes `value` to all bytes; `expect`
   counts bytes that differ into `*wrong`, which must live until the stream is synchronised. */
void launch_fill(rig const* on, void* memory, size_t bytes, unsigned char value);
void launch_expect(rig const* on, void const* memory, size_t bytes, unsigned char value, int* wrong);

/* The text of a whole file, to be freed with free(); null, reported, if it cannot be read. */
char* read_whole_file(char const* path);

/* The groups of tests. */
void test_settings(void);
void test_devices(void);
void test_items(void);
void test_recipes(void);
void test_placements(void);
void test_handles(void);
void test_memory(void);
void test_segments(void);
void test_plans(char const* examples);
void test_training(void);
void test_threads(void);
void test_layout(void);
void test_fork(void);

#endif
