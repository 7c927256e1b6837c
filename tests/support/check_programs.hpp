// rapidcheck properties of programs whose outcome may depend on timing: they say how many cases they want, tell
// what the first failure was (a smaller one may not fail again), and stop shrinking after a while.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace ferry::testing {

/// Checks `property(program) -> problems` for `cases` programs drawn by `draw()`. The environment overrides the
/// number (RC_PARAMS="max_success=N") and the seed.
template <typename Draw, typename Property>
void check_programs(int cases, Draw const& draw, Property const& property) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds patience{20};
  auto const* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(test->test_suite_name()) + "/" + test->name();
  metadata.description = test->name();
  auto params = rc::detail::configuration().testParams;
  if (params.maxSuccess == rc::detail::TestParams{}.maxSuccess) params.maxSuccess = cases;

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
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << "seed " << params.seed << "\nfirst failure:\n"
         << first << "\nlast failure, while shrinking:\n"
         << last << "\n"
         << text.str().substr(0, 400);
}

}  // namespace ferry::testing
