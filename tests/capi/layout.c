/* The layout that callers were compiled with: 64-bit, natural alignment. A number here never changes; new members get
   new numbers behind them. */
#include <stddef.h>

#include "check.h"

#define AT(type, member, offset) CHECK(offsetof(type, member) == (offset))

static void test_frozen(void) {
  CHECK(sizeof(ferry_status) == 4 && sizeof(ferry_placement) == 4 && sizeof(ferry_item_state) == 4);
  CHECK(sizeof(ferry_key) == 16 && sizeof(ferry_access) == 24 && sizeof(ferry_outlook) == 16);
  CHECK(sizeof(ferry_tier_stats) == 40 && sizeof(ferry_link_stats) == 56);
  AT(ferry_key, segment, 4);
  AT(ferry_key, name, 8);
  AT(ferry_access, bytes, 8);
  AT(ferry_access, writes, 16);
  AT(ferry_outlook, recipe_us, 8);
  AT(ferry_tier_stats, fragmentation, 32);
  AT(ferry_link_stats, gbps, 48);
}

static void test_growing(void) {
  CHECK(sizeof(ferry_device_info) >= 56 && sizeof(ferry_recipe_context) >= 72 && sizeof(ferry_recipe) >= 56);
  CHECK(sizeof(ferry_item_info) >= 48 && sizeof(ferry_stats) >= 344 && sizeof(ferry_plan_options) >= 56);
  CHECK(sizeof(ferry_plan_summary) >= 136);
  AT(ferry_device_info, name, 8);
  AT(ferry_device_info, host_addressable, 32);
  AT(ferry_device_info, host_to_device_gbps, 48);
  AT(ferry_recipe_context, stream, 8);
  AT(ferry_recipe_context, native_stream, 16);
  AT(ferry_recipe_context, output, 24);
  AT(ferry_recipe_context, bytes, 32);
  AT(ferry_recipe_context, inputs, 40);
  AT(ferry_recipe_context, input_count, 48);
  AT(ferry_recipe_context, first_row, 56);
  AT(ferry_recipe_context, rows, 64);
  AT(ferry_recipe, enqueue, 8);
  AT(ferry_recipe, user, 16);
  AT(ferry_recipe, destroy, 24);
  AT(ferry_recipe, inputs, 32);
  AT(ferry_recipe, input_count, 40);
  AT(ferry_recipe, rows, 48);
  AT(ferry_item_info, key, 8);
  AT(ferry_item_info, bytes, 24);
  AT(ferry_item_info, boundary, 36);
  AT(ferry_item_info, recipe_us, 40);
  AT(ferry_stats, steps, 8);
  AT(ferry_stats, recompute_us, 40);
  AT(ferry_stats, plans, 80);
  AT(ferry_stats, device, 104);
  AT(ferry_stats, in_flight, 184);
  AT(ferry_stats, host_to_device, 280);
  AT(ferry_stats, recipes_checked, 336);
  AT(ferry_plan_options, uninsured, 16);
  AT(ferry_plan_options, seed, 48);
  AT(ferry_plan_summary, insured, 48);
  AT(ferry_plan_summary, overhead, 80);
  AT(ferry_plan_summary, fetched_bytes, 128);
}

static void test_numbers(void) {
  CHECK(FERRY_OK == 0 && FERRY_ERROR_INVALID_ARGUMENT == 1 && FERRY_ERROR_INVALID_HANDLE == 2 && FERRY_ERROR_BUSY == 3);
  CHECK(FERRY_ERROR_IN_USE == 4 && FERRY_ERROR_WRONG_STATE == 5 && FERRY_ERROR_SETTING == 6);
  CHECK(FERRY_ERROR_OUT_OF_DEVICE_MEMORY == 7 && FERRY_ERROR_OUT_OF_PINNED_MEMORY == 8);
  CHECK(FERRY_ERROR_OUT_OF_HOST_MEMORY == 9 && FERRY_ERROR_INFEASIBLE_BUDGET == 10 && FERRY_ERROR_FORMAT == 11);
  CHECK(FERRY_ERROR_PLAN_MISMATCH == 12 && FERRY_ERROR_DUPLICATE_KEY == 13 && FERRY_ERROR_UNKNOWN_KEY == 14);
  CHECK(FERRY_ERROR_RECIPE == 15 && FERRY_ERROR_STREAM == 16 && FERRY_ERROR_TRANSFER == 17);
  CHECK(FERRY_ERROR_DEADLOCK == 18 && FERRY_ERROR_NO_CUDA == 19 && FERRY_ERROR_CUDA == 20);
  CHECK(FERRY_ERROR_NOT_AVAILABLE == 21 && FERRY_ERROR_INTERNAL == 22 && FERRY_ERROR_FUNCTION == 23);
  CHECK(FERRY_KEEP == 0 && FERRY_OFFLOAD == 1 && FERRY_RECOMPUTE == 2);
  CHECK(FERRY_ITEM_UNKNOWN == 0 && FERRY_ITEM_RESIDENT == 1 && FERRY_ITEM_OFFLOADING == 2 && FERRY_ITEM_HOSTED == 3);
  CHECK(FERRY_ITEM_PREFETCHING == 4 && FERRY_ITEM_DROPPED == 5 && FERRY_ITEM_RECOMPUTING == 6);
}

void test_layout(void) {
  test_frozen();
  test_growing();
  test_numbers();
}
