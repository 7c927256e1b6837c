/* A stranger's C program over the installed library: eight tensors under a budget of three come back with every byte, and
   a call that cannot succeed says why. Prints one line; what is not as it should be ends it with 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>
#include <ferry/version.hpp>

enum { bytes = 1 << 16, segments = 8 };

static void require(int right, char const* what) {
  if (right) return;
  fprintf(stderr, "consumer: not as it should be: %s; Ferry says: %s\n", what, ferry_last_error());
  exit(1);
}

#define OK(call) require((call) == FERRY_OK, #call)

struct work {
  unsigned char* data;
  unsigned char value;
  int wrong;
};

static int fill(void* user) {
  struct work const* const work = user;
  memset(work->data, work->value, bytes);
  return 0;
}

static int compare(void* user) {
  struct work* const work = user;
  size_t i;
  for (i = 0; i < bytes; ++i) work->wrong += work->data[i] != work->value;
  return 0;
}

static void step(ferry_session* session, ferry_stream* stream) {
  static struct work works[segments];
  unsigned s;
  OK(ferry_session_begin_step(session));
  for (s = 0; s < segments; ++s) {
    ferry_key const key = {0, s, "h"};
    ferry_block* block = NULL;
    void* data = NULL;
    ferry_access access = {NULL, bytes, 1};
    OK(ferry_session_allocate(session, bytes, stream, "h", &block, &data));
    works[s].data = data;
    works[s].value = (unsigned char)(s + 1);
    access.address = data;
    OK(ferry_stream_launch(stream, "forward", fill, &works[s], &access, 1));
    OK(ferry_session_save(session, &key, block, stream, NULL, NULL));
  }
  for (s = segments; s-- > 0;) {
    ferry_key const key = {0, s, "h"};
    ferry_lease* lease = NULL;
    void* data = NULL;
    ferry_access access = {NULL, bytes, 0};
    OK(ferry_session_restore(session, &key, stream, &lease, &data));
    works[s].data = data;
    access.address = data;
    OK(ferry_stream_launch(stream, "backward", compare, &works[s], &access, 1));
    OK(ferry_lease_end(lease));
    OK(ferry_session_release(session, &key));
  }
  OK(ferry_stream_synchronize(stream));
  OK(ferry_session_end_step(session));
  for (s = 0; s < segments; ++s) require(works[s].wrong == 0, "bytes after restore");
}

int main(void) {
  ferry_settings* settings = NULL;
  ferry_device* device = NULL;
  ferry_stream* stream = NULL;
  ferry_session* session = NULL;
  ferry_stats stats;
  char budget[32];
  snprintf(budget, sizeof budget, "%d", 3 * bytes);
  OK(ferry_settings_create(&settings));
  OK(ferry_settings_set(settings, "FERRY_DEVICE", "host"));
  OK(ferry_settings_set(settings, "FERRY_POLICY", "offload"));
  OK(ferry_settings_set(settings, "FERRY_LINK_GBPS", "0"));
  OK(ferry_settings_set(settings, "FERRY_DEVICE_BYTES", "4MiB"));
  OK(ferry_settings_set(settings, "FERRY_PINNED_BYTES", "4MiB"));
  OK(ferry_settings_set(settings, "FERRY_BUDGET", budget));
  require(ferry_settings_set(settings, "FERRY_BUDGET", "much") == FERRY_ERROR_SETTING, "a bad setting");
  require(strstr(ferry_last_error(), "FERRY_BUDGET") != NULL, "what is said of it");

  OK(ferry_device_create(settings, &device));
  OK(ferry_stream_create(device, "compute", &stream));
  OK(ferry_session_create(device, settings, &session));
  step(session, stream);
  memset(&stats, 0, sizeof stats);
  stats.size = sizeof stats;
  OK(ferry_session_stats(session, &stats));
  require(stats.saves == segments && stats.device.peak_bytes <= 3 * bytes && stats.host_to_device.bytes > 0,
          "statistics");
  require(ferry_session_destroy(NULL) == FERRY_ERROR_INVALID_HANDLE, "a null handle");

  OK(ferry_session_destroy(session));
  OK(ferry_stream_destroy(stream));
  OK(ferry_device_destroy(device));
  OK(ferry_settings_destroy(settings));
  require(FERRY_VERSION_MAJOR == atoi(ferry_version()), "the version");
  printf("consumer: all is right with Ferry %s, in C\n", ferry_version());
  return 0;
}
