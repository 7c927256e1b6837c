/* Out of memory: of the device, of pinned memory, at every place where it can run out, with the bytes that were needed.
 */
#include <string.h>

#include "check.h"

static void test_session_too_large(void) {
  ferry_settings* settings = host_settings("keep", "1GiB");
  ferry_device* device = NULL;
  ferry_session* session = NULL;
  uint64_t needed = 0;
  uint64_t limit = 0;
  OK(ferry_device_create(settings, &device));
  FAILS(FERRY_ERROR_OUT_OF_DEVICE_MEMORY, "FERRY_BUDGET", ferry_session_create(device, settings, &session));
  CHECK(session == NULL);
  ferry_last_error_bytes(&needed, &limit);
  CHECK(needed == 1u << 30 && limit == 16u << 20);
  OK(ferry_settings_set(settings, "FERRY_BUDGET", "1MiB"));
  OK(ferry_settings_set(settings, "FERRY_HOST_BUDGET", "2GiB"));
  FAILS(FERRY_ERROR_OUT_OF_PINNED_MEMORY, "FERRY_HOST_BUDGET", ferry_session_create(device, settings, &session));
  ferry_last_error_bytes(&needed, NULL);
  ferry_last_error_bytes(NULL, NULL);
  CHECK(needed == (uint64_t)2 << 30);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'session' is null", ferry_session_create(device, settings, NULL));
  ferry_last_error_bytes(&needed, &limit);
  CHECK(needed == 0 && limit == 0); /* of the last failure, which was another one */
  OK(ferry_settings_destroy(settings));
  OK(ferry_device_destroy(device)); /* sessions that were not made are not in the way */
}

/* Kept items fill the budget; then what is not there cannot be allocated, and all goes on. */
static void test_full(void) {
  enum { block_bytes = 64 * 1024 };
  rig made = make_rig("keep", "256KiB");
  ferry_key key = {0, 0, "h"};
  ferry_block* block = NULL;
  ferry_lease* lease = NULL;
  void* memory = NULL;
  uint64_t needed = 0;
  uint64_t limit = 0;
  int wrong = 0;
  OK(ferry_session_begin_step(made.session));
  for (key.segment = 0; key.segment < 4; ++key.segment) {
    OK(ferry_session_allocate(made.session, block_bytes, made.stream, "h", &block, &memory));
    launch_fill(&made, memory, block_bytes, (unsigned char)key.segment);
    OK(ferry_session_save(made.session, &key, block, made.stream, NULL, NULL));
  }
  FAILS(FERRY_ERROR_OUT_OF_DEVICE_MEMORY, "FERRY_BUDGET",
        ferry_session_allocate(made.session, block_bytes, made.stream, "one too many", &block, &memory));
  CHECK(block == NULL && memory == NULL && strstr(ferry_last_error(), "one too many") != NULL);
  ferry_last_error_bytes(&needed, &limit);
  CHECK(needed == block_bytes && limit == 256 * 1024);
  FAILS(FERRY_ERROR_OUT_OF_DEVICE_MEMORY, "",
        ferry_session_allocate(made.session, (size_t)-1, made.stream, "everything", &block, &memory));
  for (key.segment = 4; key.segment-- > 0;) {
    OK(ferry_session_restore(made.session, &key, made.stream, &lease, &memory));
    launch_expect(&made, memory, block_bytes, (unsigned char)key.segment, &wrong);
    OK(ferry_lease_end(lease));
  }
  OK(ferry_stream_synchronize(made.stream));
  OK(ferry_session_end_step(made.session));
  CHECK(wrong == 0);
  OK(ferry_session_allocate(made.session, block_bytes, made.stream, "room again", &block, &memory));
  OK(ferry_block_free(block));
  end_rig(&made);
}

void test_memory(void) {
  test_session_too_large();
  test_full();
}
