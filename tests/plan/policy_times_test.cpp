// What policies by hand are predicted to take, against what the session takes under them.
#include "plan/policy_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ferry/model_profile.hpp"
#include "ferry/simulate.hpp"
#include "support/case_step.hpp"

namespace ferry::planning {
namespace {

TEST(PolicyTimes, AreThoseOfTheSession) {
  auto const on = named_hardware("rtx4090");
  auto const step = gpt_profile({.layers = 16, .width = 2048, .heads = 16, .context = 1024, .batch = 4}, on);
  plan_options how;
  how.budget_bytes = testing::bytes_of(step, 0.4);
  auto const found = policy_times(step, on, how);
  ASSERT_GE(found.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(found, {}, &policy_time::step_us));
  for (auto const& one : found) {
    SCOPED_TRACE(static_cast<int>(one.how.kind));
    simulation_options options;
    options.settings.budget = byte_amount::exactly(how.budget_bytes);
    options.settings.host_budget = byte_amount::exactly(on.host_bytes);
    options.settings.policy = one.how;
    options.settings.min_bytes = 0;
    double const takes_us = simulate(step, on, options).step_us;
    if (one.how.kind == policy_kind::offload) {
      EXPECT_GE(takes_us, one.step_us);
    } else {
      // The session keeps inputs it has rebuilt for as long as it can, where the chain rebuilds them again and again.
      EXPECT_NEAR(takes_us, one.step_us, 0.1 * takes_us);
      EXPECT_LE(takes_us, 1.05 * one.step_us);
    }
  }
}

TEST(PolicyTimes, ThoseThatDoNotFitAreLeftOut) {
  auto const on = named_hardware("rtx4090");
  auto const step = gpt_profile({.layers = 16, .width = 2048, .heads = 16, .context = 1024, .batch = 4}, on);
  plan_options how;
  how.budget_bytes = testing::bytes_of(step, 0.01);
  auto const found = policy_times(step, on, how);
  EXPECT_EQ(std::ranges::count(found, policy_choice{policy_kind::recompute}, &policy_time::how), 0);
}

}  // namespace
}  // namespace ferry::planning
