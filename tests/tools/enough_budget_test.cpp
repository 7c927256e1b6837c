// The search for a budget that is enough: what it gives has been seen to work.
#include "simulate/enough_budget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "commands.hpp"

namespace ferry::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kib = 1024;

TEST(EnoughBudget, IsFoundToASixtyFourthAndHasBeenSeenToWork) {
  for (std::size_t const least : {1 * kib, 2 * kib, 100 * kib, 12'345 * kib}) {
    for (std::size_t const guess : {std::size_t{0}, 700 * kib, 100'000 * kib}) {
      std::set<std::size_t> worked;
      auto const found = smallest_that_works(20, guess, 1'000'000 * kib, [&](std::size_t budget) {
        if (budget < least) return false;
        worked.insert(budget);
        return true;
      });
      ASSERT_TRUE(found);
      EXPECT_TRUE(worked.contains(*found));
      EXPECT_EQ(*found % kib, 0U);
      EXPECT_LE(*found, least + least / 64 + kib) << least << " from " << guess;
    }
  }
}

TEST(EnoughBudget, AtMostWhatTheDeviceHas) {
  auto const needs = [](std::size_t least) { return [least](std::size_t budget) { return budget >= least; }; };
  EXPECT_EQ(smallest_that_works(10 * kib, 0, 64 * kib + 5, needs(64 * kib)), 64 * kib);
  EXPECT_FALSE(smallest_that_works(10 * kib, 0, 64 * kib + 5, needs(64 * kib + 1)));
  EXPECT_FALSE(smallest_that_works(64 * kib, 0, 64 * kib, needs(0))) << "which is what was too small";
}

/// A step that takes so much.
auto step_of(std::size_t bytes) {
  return [bytes](config const& settings) {
    if (settings.budget.bytes < bytes) throw out_of_device_memory("no room", bytes, settings.budget.bytes);
  };
}

TEST(EnoughBudget, IsNamedByTheErrorOfAStepThatFindsNoRoom) {
  config settings;
  settings.budget = byte_amount::exactly(3 * kib);
  EXPECT_NO_THROW(with_room(settings, "--policy keep", 100 * kib, step_of(3 * kib)));
  try {
    with_room(settings, "--policy keep", 100 * kib, step_of(40 * kib));
    FAIL() << "there was no room";
  } catch (infeasible_budget const& problem) {
    EXPECT_STREQ(problem.what(),
                 "out of device memory: a step with --policy keep does not fit the budget of 3.00 KiB; the smallest "
                 "that works is --budget 40KiB");
    EXPECT_EQ(problem.needed_bytes(), 40 * kib);
  }
  EXPECT_THROW(with_room(settings, "--policy keep", 10 * kib, step_of(40 * kib)), failed) << "no budget helps";
}

}  // namespace
}  // namespace ferry::command
