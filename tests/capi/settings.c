/* Settings: defaults, the environment, by name, as text; and every way to get one wrong. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void get_is(ferry_settings* settings, char const* variable, char const* wanted) {
  char* value = NULL;
  if (OK(ferry_settings_get(settings, variable, &value))) CHECK(strcmp(value, wanted) == 0);
  OK(ferry_string_free(value));
}

static void test_values(void) {
  ferry_settings* settings = NULL;
  char* text = NULL;
  OK(ferry_settings_create(&settings));
  get_is(settings, "FERRY_BUDGET", "70%");
  OK(ferry_settings_set(settings, "FERRY_BUDGET", "12GiB"));
  get_is(settings, "FERRY_BUDGET", "12GiB");
  OK(ferry_settings_to_text(settings, &text));
  CHECK(strstr(text, "FERRY_BUDGET=12GiB\n") != NULL);
  CHECK(strstr(text, "FERRY_POLICY=auto\n") != NULL);
  OK(ferry_string_free(text));
  OK(ferry_settings_destroy(settings));
}

static void test_environment(void) {
  ferry_settings* settings = NULL;
  setenv("FERRY_POLICY", "every=3", 1);
  OK(ferry_settings_from_env(&settings));
  get_is(settings, "FERRY_POLICY", "every=3");
  OK(ferry_settings_destroy(settings));
  settings = (ferry_settings*)&settings;
  setenv("FERRY_POLICY", "evry=3", 1);
  FAILS(FERRY_ERROR_SETTING, "FERRY_POLICY", ferry_settings_from_env(&settings));
  CHECK(settings == NULL);
  unsetenv("FERRY_POLICY");
  setenv("FERRY_BUGDET", "1GiB", 1);
  FAILS(FERRY_ERROR_SETTING, "did you mean FERRY_BUDGET?", ferry_settings_from_env(&settings));
  unsetenv("FERRY_BUGDET");
}

static void test_names(void) {
  size_t count = ferry_setting_count();
  size_t i;
  char* text = NULL;
  CHECK(count > 15);
  for (i = 0; i < count; ++i) {
    char const* name = ferry_setting_name(i);
    CHECK(name != NULL && strncmp(name, "FERRY_", 6) == 0);
    OK(ferry_setting_describe(name, &text));
    CHECK(strstr(text, "accepted: ") != NULL && strstr(text, "default: ") != NULL);
    OK(ferry_string_free(text));
  }
  CHECK(ferry_setting_name(count) == NULL);
  CHECK(ferry_setting_name((size_t)-1) == NULL);
  FAILS(FERRY_ERROR_SETTING, "FERRY_NOTHING is not a setting", ferry_setting_describe("FERRY_NOTHING", &text));
  CHECK(text == NULL);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'variable' is null", ferry_setting_describe(NULL, &text));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'text' is null", ferry_setting_describe("FERRY_BUDGET", NULL));
}

static void test_mistakes(void) {
  ferry_settings* settings = NULL;
  char* value = NULL;
  OK(ferry_settings_create(&settings));
  FAILS(FERRY_ERROR_SETTING, "FERRY_BUDGET='lots'", ferry_settings_set(settings, "FERRY_BUDGET", "lots"));
  FAILS(FERRY_ERROR_SETTING, "accepted: ", ferry_settings_set(settings, "FERRY_RUN_AHEAD", "100"));
  FAILS(FERRY_ERROR_SETTING, "is not a setting", ferry_settings_set(settings, "BUDGET", "1GiB"));
  FAILS(FERRY_ERROR_SETTING, "is not a setting", ferry_settings_get(settings, "BUDGET", &value));
  CHECK(value == NULL);
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'value' is null", ferry_settings_set(settings, "FERRY_BUDGET", NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'variable' is null", ferry_settings_set(settings, NULL, "1GiB"));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'variable' is null", ferry_settings_get(settings, NULL, &value));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'value' is null", ferry_settings_get(settings, "FERRY_BUDGET", NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'text' is null", ferry_settings_to_text(settings, NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'settings' is null", ferry_settings_create(NULL));
  FAILS(FERRY_ERROR_INVALID_ARGUMENT, "'settings' is null", ferry_settings_from_env(NULL));
  get_is(settings, "FERRY_BUDGET", "70%"); /* nothing of that changed anything */
  OK(ferry_settings_destroy(settings));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "is gone", ferry_settings_destroy(settings));
}

static void test_strings(void) {
  char mine[] = "mine";
  char* text = NULL;
  OK(ferry_string_free(NULL));
  OK(ferry_setting_describe("FERRY_BUDGET", &text));
  OK(ferry_string_free(text));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "freed before", ferry_string_free(text));
  FAILS(FERRY_ERROR_INVALID_HANDLE, "no string that Ferry gave out", ferry_string_free(mine));
}

static void test_statuses(void) {
  int i;
  CHECK(strcmp(ferry_status_name(FERRY_OK), "FERRY_OK") == 0);
  for (i = FERRY_ERROR_INVALID_ARGUMENT; i <= FERRY_ERROR_FUNCTION; ++i) {
    CHECK(strncmp(ferry_status_name(i), "FERRY_ERROR_", 12) == 0);
  }
  CHECK(strcmp(ferry_status_name(FERRY_ERROR_FUNCTION + 1), "unknown status") == 0);
  CHECK(strcmp(ferry_status_name(-1), "unknown status") == 0);
  CHECK(strchr(ferry_version(), '.') != NULL);
}

void test_settings(void) {
  test_values();
  test_environment();
  test_names();
  test_mistakes();
  test_strings();
  test_statuses();
}
