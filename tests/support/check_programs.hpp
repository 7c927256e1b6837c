// rapidcheck properties that say how many cases they want, where the default of a hundred is not enough.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>
#include <string>
#include <utility>

namespace ferry::testing {

/// Checks the property `cases` times; RC_PARAMS="max_success=N" overrides the number, and its seed is used too.
template <typename Property>
void check_programs(int cases, Property&& property) {
  auto const* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(test->test_suite_name()) + "/" + test->name();
  metadata.description = test->name();
  auto params = rc::detail::configuration().testParams;
  if (params.maxSuccess == rc::detail::TestParams{}.maxSuccess) params.maxSuccess = cases;
  auto const result = rc::detail::checkTestable(std::forward<Property>(property), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << text.str() << "\n(seed " << params.seed << ")";
}

}  // namespace ferry::testing
