/* The C interface tested from C: `ferry_capi_c_tests EXAMPLES [GROUP]` runs one group of tests, or all. */
#include <stdio.h>
#include <string.h>

#include "check.h"

typedef struct group {
  char const* name;
  void (*run)(void);
} group;

static group const groups[] = {{"settings", test_settings}, {"devices", test_devices},       {"items", test_items},
                               {"recipes", test_recipes},   {"placements", test_placements}, {"handles", test_handles},
                               {"memory", test_memory},     {"training", test_training},     {"threads", test_threads},
                               {"layout", test_layout}};

int main(int count, char** arguments) {
  char const* wanted = count > 2 ? arguments[2] : "all";
  int run = 0;
  size_t i;
  if (count < 2) {
    fprintf(stderr, "usage: %s EXAMPLES [GROUP]\n", arguments[0]);
    return 2;
  }
  for (i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    if (strcmp(wanted, "all") != 0 && strcmp(wanted, groups[i].name) != 0) continue;
    groups[i].run();
    ++run;
  }
  if (strcmp(wanted, "all") == 0 || strcmp(wanted, "plans") == 0) {
    test_plans(arguments[1]);
    ++run;
  }
  if (run == 0) {
    fprintf(stderr, "no group is called '%s'\n", wanted);
    return 2;
  }
  printf("%d group(s), %d check(s) failed\n", run, checks_failed());
  return checks_failed() == 0 ? 0 : 1;
}
