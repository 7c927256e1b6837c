/* A child of fork() has no threads of Ferry's: what was made before says so, and can be let go. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* The number of checks that failed here. */
static int run_child(rig const* before, ferry_lease* lease) {
  ferry_key const key = {0, 0, "h"};
  ferry_settings* settings = NULL;
  ferry_lease* other = NULL;
  ferry_block* block = NULL;
  int const failed = checks_failed();
  FAILS(FERRY_ERROR_WRONG_STATE, "fork", ferry_session_restore(before->session, &key, before->stream, &other, NULL));
  FAILS(FERRY_ERROR_WRONG_STATE, "fork", ferry_session_end_step(before->session));
  FAILS(FERRY_ERROR_WRONG_STATE, "fork",
        ferry_session_allocate(before->session, 256, before->stream, NULL, &block, NULL));
  FAILS(FERRY_ERROR_WRONG_STATE, "fork", ferry_stream_synchronize(before->stream));
  OK(ferry_lease_end(lease));
  OK(ferry_session_destroy(before->session));
  OK(ferry_stream_destroy(before->stream));
  OK(ferry_device_destroy(before->device));
  OK(ferry_settings_create(&settings)); /* what needs no thread is as ever */
  OK(ferry_settings_destroy(settings));
  return checks_failed() - failed;
}

/* A program that asks to be ended when something goes wrong. */
static void test_require(void) {
  pid_t child;
  int status = 0;
  ferry_require(FERRY_OK);
  child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stderr) == NULL) _exit(9);
    ferry_require(ferry_settings_destroy(NULL));
    _exit(8);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

void test_fork(void) {
  rig made = make_rig("keep", "1MiB");
  ferry_key const key = {0, 0, "h"};
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  pid_t child;
  int status = 0;
  test_require();
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_allocate(made.session, 8192, made.stream, NULL, &block, NULL));
  OK(ferry_session_save(made.session, &key, block, made.stream, NULL, &lease));
  child = fork();
  if (!CHECK(child >= 0)) return;
  if (child == 0) _exit(run_child(&made, lease) == 0 ? 0 : 1);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(ferry_lease_end(lease)); /* nothing has changed here */
  OK(ferry_session_restore(made.session, &key, made.stream, &lease, NULL));
  OK(ferry_lease_end(lease));
  OK(ferry_session_end_step(made.session));
  end_rig(&made);
}
