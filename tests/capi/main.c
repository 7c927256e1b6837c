/* The C interface tested from C: `ferry_capi_c_tests EXAMPLES [GROUP...]` runs these groups of tests, or all. */
#include <stdio.h>
#include <string.h>

#include "check.h"

typedef struct group {
  char const* name;
  void (*run)(void);
} group;

static group const groups[] = {
    {"settings", test_settings},     {"devices", test_devices}, {"items", test_items},   {"recipes", test_recipes},
    {"placements", test_placements}, {"handles", test_handles}, {"memory", test_memory}, {"segments", test_segments},
    {"training", test_training},     {"threads", test_threads}, {"layout", test_layout}, {"fork", test_fork}};

/* Named after the first argument; without names, all are. */
static int wanted(char const* name, int count, char** arguments) {
  int i;
  for (i = 2; i < count; ++i) {
    if (strcmp(arguments[i], name) == 0) return 1;
  }
  return count <= 2;
}

int main(int count, char** arguments) {
  int run = 0;
  size_t i;
  if (count < 2) {
    fprintf(stderr, "usage: %s EXAMPLES [GROUP...]\n", arguments[0]);
    return 2;
  }
  for (i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    if (!wanted(groups[i].name, count, arguments)) continue;
    groups[i].run();
    ++run;
  }
  if (wanted("plans", count, arguments)) {
    test_plans(arguments[1]);
    ++run;
  }
  if (count > 2 && run != count - 2) {
    fprintf(stderr, "%d group(s) named, %d known\n", count - 2, run);
    return 2;
  }
  printf("%d group(s), %d check(s) failed\n", run, checks_failed());
  return checks_failed() == 0 ? 0 : 1;
}
