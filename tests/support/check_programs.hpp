// rapidcheck properties of programs whose outcome may depend on timing: they say how many programs they want and how
// long these may take, tell what the first failure was (a smaller one may not fail again), and stop shrinking after a
// while.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "support/time_box.hpp"

namespace ferry::testing {

/// What one call of rapidcheck is given: programs grow from the first to the last of them.
inline constexpr int programs_at_once = 50;

/// Checks `property(program) -> problems` for programs drawn by `draw()`; false if it failed.
template <typename Draw, typename Property>
[[nodiscard]] bool check_some_programs(rc::detail::TestParams const& params, Draw const& draw,
                                       Property const& property) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{20};
  auto const* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(test->test_suite_name()) + "/" + test->name();
  metadata.description = test->name();

  std::string first;
  std::string last;
  std::optional<clock::time_point> failed;
  auto const result = rc::detail::checkTestable(
      [&] {
        auto const program = draw();
        if (failed && clock::now() - *failed > patience) return;
        std::string const problems = property(program);
        if (problems.empty()) return;
        last = problems + rc::toString(program);
        if (!failed) {
          failed = clock::now();
          first = last;
        }
        RC_FAIL(problems);
      },
      metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return true;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  ADD_FAILURE() << "RC_PARAMS=\"seed=" << params.seed << " max_success=" << params.maxSuccess << "\"\nfirst failure:\n"
                << first << "\nlast failure, while shrinking:\n"
                << last << "\n"
                << text.str().substr(0, 400);
  return false;
}

/// Checks `property(program) -> problems` for `count` programs drawn by `draw()`, or for as many as the seconds permit.
/// True if it was all of them and none failed. RC_PARAMS in the environment (seed=S max_success=N) says which, and no
/// others.
template <typename Draw, typename Property>
bool check_programs(int count, double everyday_seconds, Draw const& draw, Property const& property) {
  auto params = rc::detail::configuration().testParams;
  if (std::getenv("RC_PARAMS") != nullptr) return check_some_programs(params, draw, property);
  time_box const time(everyday_seconds);
  std::printf("RC_PARAMS=\"seed=%llu max_success=%d\" and the seeds after it\n",
              static_cast<unsigned long long>(params.seed), programs_at_once);
  params.maxSuccess = programs_at_once;
  int checked = 0;
  for (; checked < count && (checked == 0 || !time.is_over()); checked += programs_at_once, ++params.seed) {
    if (!check_some_programs(params, draw, property)) return false;
  }
  return checked >= count;
}

}  // namespace ferry::testing
