/* Plans: made from a profile's text for a named or a described GPU, written, read again, followed; and every text that
   is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static char* example(char const* folder, char const* name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return read_whole_file(path);
}

static ferry_plan_summary summary_of(ferry_plan* plan) {
  ferry_plan_summary summary;
  summary.size = sizeof summary;
  OK(ferry_plan_summarize(plan, &summary));
  return summary;
}

static void test_made(char const* profile, char const* hardware) {
  ferry_plan* plan = NULL;
  ferry_plan* same = NULL;
  ferry_plan_options options;
  ferry_plan_summary by_name, by_text;
  char* json = NULL;
  char* again = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.time_limit_ms = 50;
  options.link_derating = 0.8;
  options.fragmentation_margin = 0.01;
  options.uninsured = 1;
  options.seed = 3;
  options.host_budget_bytes = (uint64_t)64 << 30;
  OK(ferry_plan_make(profile, "a100-80", "30%", NULL, &plan));
  by_name = summary_of(plan);
  CHECK(by_name.items > 0 && by_name.device_peak_bytes <= by_name.budget_bytes);
  CHECK(by_name.overhead >= 0 && by_name.step_us > by_name.unlimited_us * 0.999);
  OK(ferry_plan_to_json(plan, &json));
  CHECK(by_name.insured == (strstr(json, "\"insured\": true") != NULL));
  OK(ferry_plan_parse(json, &same));
  OK(ferry_plan_to_json(same, &again));
  CHECK(strcmp(json, again) == 0);
  OK(ferry_plan_require_match(same, profile));
  OK(ferry_string_free(again));
  OK(ferry_plan_destroy(same));
  OK(ferry_plan_destroy(plan));
  OK(ferry_plan_make(profile, hardware, "30%", &options, &plan));
  by_text = summary_of(plan);
  CHECK(by_text.budget_bytes == by_name.budget_bytes && by_text.items == by_name.items);
  OK(ferry_plan_destroy(plan));
  OK(ferry_string_free(json));
}

static void test_infeasible(char const* profile) {
  ferry_plan* plan = NULL;
  uint64_t needed = 0;
  char budget[32];
  FAILS(FERRY_ERROR_INFEASIBLE_BUDGET, "", ferry_plan_make(profile, "a100-80", "1KiB", NULL, &plan));
  CHECK(plan == NULL);
  ferry_last_error_bytes(&needed, NULL);
  CHECK(needed > 1024);
  snprintf(budget, sizeof budget, "%llu", (unsigned long long)needed);
  OK(ferry_plan_make(profile, "a100-80", budget, NULL, &plan)); /* the smallest that works, works */
  OK(ferry_plan_destroy(plan));
}

static void test_bad_texts(char const* profile, char const* other) {
  ferry_plan* plan = NULL;
  ferry_plan_options options;
  char* text = NULL;
  FAILS(FERRY_ERROR_FORMAT, "'profile_json'", ferry_plan_make("", "a100-80", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_FORMAT, "'profile_json'", ferry_plan_make("{", "a100-80", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_FORMAT, "'profile_json'", ferry_plan_make("{\"ferry_plan\": 1}", "a100-80", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_FORMAT, "'hardware'", ferry_plan_make(profile, " {\"ferry_hardware\": 99}", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "a100-8", ferry_plan_make(profile, "a100-8", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_SETTING, "'budget' is 'lots'", ferry_plan_make(profile, "a100-80", "lots", NULL, &plan));
  FAILS(FERRY_ERROR_SETTING, "'budget'", ferry_plan_make(profile, "a100-80", "0", NULL, &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'profile_json' is null", ferry_plan_make(NULL, "a100-80", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'hardware' is null", ferry_plan_make(profile, NULL, "30%", NULL, &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'budget' is null", ferry_plan_make(profile, "a100-80", NULL, NULL, &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'plan' is null", ferry_plan_make(profile, "a100-80", "30%", NULL, NULL));
  memset(&options, 0, sizeof options);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'options'", ferry_plan_make(profile, "a100-80", "30%", &options, &plan));
  options.size = sizeof options;
  options.link_derating = 2;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "link_derating", ferry_plan_make(profile, "a100-80", "30%", &options, &plan));
  options.link_derating = 0;
  options.fragmentation_margin = 1;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "fragmentation", ferry_plan_make(profile, "a100-80", "30%", &options, &plan));
  options.fragmentation_margin = 0;
  options.time_limit_ms = -1;
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "time_limit_ms", ferry_plan_make(profile, "a100-80", "30%", &options, &plan));
  CHECK(plan == NULL);

  FAILS(FERRY_ERROR_FORMAT, "cannot be opened", ferry_plan_load("no such file.json", &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'file' is null", ferry_plan_load(NULL, &plan));
  FAILS(FERRY_ERROR_FORMAT, "'json'", ferry_plan_parse("[]", &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'json' is null", ferry_plan_parse(NULL, &plan));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "nvidia", ferry_hardware_describe("nvidia", &text));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'name' is null", ferry_hardware_describe(NULL, &text));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'names' is null", ferry_hardware_names(NULL));
  CHECK(text == NULL);

  OK(ferry_plan_make(profile, "a100-80", "30%", NULL, &plan));
  FAILS(FERRY_ERROR_PLAN_MISMATCH, "", ferry_plan_require_match(plan, other));
  FAILS(FERRY_ERROR_FORMAT, "'profile_json'", ferry_plan_require_match(plan, "nonsense"));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'summary' is null", ferry_plan_summarize(plan, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'json' is null", ferry_plan_to_json(plan, NULL));
  OK(ferry_plan_destroy(plan));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "'plan' is gone", ferry_plan_to_json(plan, &text));
}

/* A file that was written is read; a plan for another step is refused when that step saves. */
static void test_followed(char const* profile) {
  rig made = make_rig("keep", "1MiB");
  ferry_plan* plan = NULL;
  ferry_plan* none = NULL;
  ferry_block* block = NULL;
  ferry_key key = {0, 0, "not in any plan"};
  char* json = NULL;
  FILE* file = NULL;
  FAILS(FERRY_ERROR_NOT_AVAILABLE, "no plan is followed", ferry_session_followed(made.session, &none));
  FAILS(FERRY_ERROR_NOT_AVAILABLE, "no step was recorded", ferry_session_recorded_profile(made.session, &json));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'plan' is null", ferry_session_followed(made.session, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'json' is null", ferry_session_recorded_profile(made.session, NULL));
  OK(ferry_plan_make(profile, "a100-80", "50%", NULL, &plan));
  OK(ferry_plan_to_json(plan, &json));
  OK(ferry_plan_destroy(plan));
  file = fopen("capi_plan.json", "wb");
  if (CHECK(file != NULL)) {
    CHECK(fputs(json, file) >= 0);
    fclose(file);
  }
  OK(ferry_string_free(json));
  OK(ferry_plan_load("capi_plan.json", &plan));
  remove("capi_plan.json");
  OK(ferry_session_follow(made.session, plan));
  OK(ferry_session_begin_step(made.session));
  FAILS(FERRY_ERROR_WRONG_STATE, "a step is under way", ferry_session_follow(made.session, plan));
  FAILS(FERRY_ERROR_WRONG_STATE, "a step is under way", ferry_session_recorded_profile(made.session, &json));
  OK(ferry_session_allocate(made.session, 8192, made.stream, NULL, &block, NULL));
  FAILS(FERRY_ERROR_PLAN_MISMATCH, "not in any plan",
        ferry_session_save(made.session, &key, block, made.stream, NULL, NULL));
  (void)ferry_block_free(block); /* it is the caller's still, or an item: either way nothing is lost */
  OK(ferry_session_end_step(made.session));
  OK(ferry_plan_destroy(plan));
  end_rig(&made);
}

static int keep_it(ferry_item_info const* item, void* user) {
  (void)item;
  ++*(int*)user;
  return FERRY_KEEP;
}

/* A function decides in spite of a plan, and is not bothered with its mistakes; undone, the plan is followed again. */
static void test_function_before_plan(char const* profile) {
  rig made = make_rig("keep", "1MiB");
  ferry_plan* plan = NULL;
  ferry_plan* none = NULL;
  ferry_block* block = NULL;
  ferry_key key = {0, 0, "not in any plan"};
  int asked = 0;
  OK(ferry_plan_make(profile, "a100-80", "50%", NULL, &plan));
  OK(ferry_session_follow(made.session, plan));
  OK(ferry_plan_destroy(plan));
  OK(ferry_session_set_placement(made.session, keep_it, &asked));
  FAILS(FERRY_ERROR_NOT_AVAILABLE, "no plan is followed", ferry_session_followed(made.session, &none));
  OK(ferry_session_begin_step(made.session));
  OK(ferry_session_allocate(made.session, 8192, made.stream, NULL, &block, NULL));
  OK(ferry_session_save(made.session, &key, block, made.stream, NULL, NULL));
  CHECK(asked == 1);
  OK(ferry_session_end_step(made.session));
  OK(ferry_session_set_placement(made.session, NULL, NULL));
  OK(ferry_session_followed(made.session, &plan));
  OK(ferry_plan_destroy(plan));
  end_rig(&made);
}

void test_plans(char const* examples) {
  char* profile = example(examples, "profiles/chain_of_eight.json");
  char* other = example(examples, "profiles/resnet101_rtx4090.json");
  char* hardware = example(examples, "hardware/a100-80.json");
  char* names = NULL;
  char* json = NULL;
  OK(ferry_hardware_names(&names));
  CHECK(strstr(names, "a100-80\n") != NULL && strstr(names, "rtx4090\n") != NULL);
  OK(ferry_string_free(names));
  OK(ferry_hardware_describe("a100-80", &json));
  CHECK(strstr(json, "\"ferry_hardware\"") != NULL);
  OK(ferry_string_free(json));
  if (profile != NULL && other != NULL && hardware != NULL) {
    test_made(profile, hardware);
    test_infeasible(profile);
    test_bad_texts(profile, other);
    test_followed(profile);
    test_function_before_plan(profile);
  }
  free(profile);
  free(other);
  free(hardware);
}
