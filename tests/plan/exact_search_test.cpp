// The exhaustive search finds what is known to be optimal, its schedules hold, and what makes it fast loses nothing.
#include "plan/exact_search.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "support/planner_cases.hpp"
#include "support/random_chains.hpp"
#include "support/referee.hpp"

namespace ferry::testing {
namespace {

using planning::exact_limits;
using planning::exact_result;
using planning::exact_search;

exact_result optimum(planning::chain const& c, exact_limits limits = {}) {
  exact_result result = exact_search(c, limits).solve();
  if (result.feasible) {
    verdict const v = judge(c, result.schedule);
    EXPECT_EQ(v.violation, "") << c.name;
    EXPECT_DOUBLE_EQ(v.makespan_s, result.makespan_s) << c.name;
  }
  return result;
}

TEST(ExhaustiveSearch, FindsTheKnownOptimumOfEveryShortCase) {
  int checked = 0;
  for (std::string const& name : planner_case_names()) {
    planner_case const c = load_planner_case(name);
    if (c.problem.stages() > 8) continue;
    SCOPED_TRACE(name);
    exact_result const found = optimum(c.problem);
    ASSERT_TRUE(found.finished);
    auto const known = c.known("combined_exact");
    ASSERT_EQ(found.feasible, known.has_value());
    if (known) {
      EXPECT_NEAR(found.makespan_s, *known, 1e-9);
    }
    ++checked;
  }
  EXPECT_GE(checked, 15);
}

TEST(ExhaustiveSearch, FindsTheKnownOptimumWithoutALink) {
  for (std::string const& name : planner_case_names()) {
    planner_case c = load_planner_case(name);
    if (c.problem.stages() > 8 || !c.reference.contains("recompute_only_exact")) continue;
    SCOPED_TRACE(name);
    c.problem.d2h_bytes_per_s = c.problem.h2d_bytes_per_s = 0;
    exact_result const found = optimum(c.problem);
    auto const known = c.known("recompute_only_exact");
    ASSERT_EQ(found.feasible, known.has_value());
    if (known) {
      EXPECT_NEAR(found.makespan_s, *known, 1e-9);
    }
  }
}

TEST(ExhaustiveSearch, LosesNothingByWhatMakesItFast) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    planning::chain const c = seed % 3 == 0 ? edge_chain(seed, 3) : small_random_chain(seed, 2, 3);
    SCOPED_TRACE(c.name);
    exact_result const fast = optimum(c);
    exact_result const plain = optimum(c, {.max_nodes = 3'000'000, .reduced = false});
    ASSERT_TRUE(fast.finished);
    if (!plain.finished) {
      // Without bounds, a budget that nothing fits can keep it going for long.
      EXPECT_GE(fast.makespan_s, plain.lower_bound_s - 1e-12);
      continue;
    }
    ASSERT_EQ(fast.feasible, plain.feasible);
    if (fast.feasible) {
      EXPECT_NEAR(fast.makespan_s, plain.makespan_s, 1e-12);
    }
  }
}

TEST(ExhaustiveSearch, FinishesOnShortRandomChains) {
  std::size_t most_nodes = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    planning::chain const c = seed % 5 == 0 ? edge_chain(seed, 4) : small_random_chain(seed, 3, 4);
    exact_result const found = optimum(c, {.max_nodes = 1'000'000});
    ASSERT_TRUE(found.finished) << c.name;
    if (found.feasible) {
      EXPECT_GE(found.makespan_s, found.lower_bound_s - 1e-12);
    }
    most_nodes = std::max(most_nodes, found.nodes);
  }
  RecordProperty("most_nodes", static_cast<int>(most_nodes));
}

TEST(ExhaustiveSearch, NeedsNoLongerWithMoreOfAnything) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    planning::chain c = small_random_chain(seed, 3, 4);
    double before = std::numeric_limits<double>::infinity();
    double const least = floor_bytes(c) - 1e6;
    for (int step = 0; step <= 8; ++step) {
      c.device_bytes = least + step / 8.0 * (keep_all_bytes(c) - least);
      double const now = optimum(c).makespan_s;
      EXPECT_LE(now, before + 1e-12) << c.name << " with " << c.device_bytes;
      before = now;
    }
    EXPECT_NEAR(before, c.ideal_s(), 1e-12) << c.name;
  }
}

TEST(ExhaustiveSearch, LooksOnlyBelowAGivenBound) {
  planning::chain const c = load_planner_case("a06_rand_L6").problem;
  exact_result const none = optimum(c, {.upper_bound_s = 0.083});
  EXPECT_TRUE(none.finished);
  EXPECT_FALSE(none.feasible);
  EXPECT_EQ(none.lower_bound_s, 0.083);
  EXPECT_TRUE(optimum(c, {.upper_bound_s = 0.0831}).feasible);
}

TEST(ExhaustiveSearch, StopsAtItsLimitWithABound) {
  planner_case const c = load_planner_case("a14_rand_L6_host");
  exact_result const cut = optimum(c.problem, {.max_nodes = 1000});
  EXPECT_FALSE(cut.finished);
  EXPECT_FALSE(cut.feasible);
  EXPECT_GT(cut.lower_bound_s, 0);
  EXPECT_LE(cut.lower_bound_s, *c.known("combined_exact") + 1e-9);
}

TEST(ExhaustiveSearch, RefusesLongChains) {
  EXPECT_THROW(exact_search(long_random_chain(1, 13, 13)), std::invalid_argument);
}

}  // namespace
}  // namespace ferry::testing
