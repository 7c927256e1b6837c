// The chain planner against what is known: the stored cases, an exhaustive search, the fixed policies, the referee.
#include "plan/chain_solver.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/case_solver.hpp"
#include "plan/exact_search.hpp"
#include "support/baselines.hpp"
#include "support/planner_cases.hpp"
#include "support/random_chains.hpp"
#include "support/referee.hpp"

namespace ferry::planning {
namespace {

using testing::judge;

/// Enough moves for the quality asked for; a count, so that no test depends on the machine's speed.
solve_options patient() {
  solve_options options;
  options.time_limit_ms = 1e6;
  return options;
}

TEST(ChainSolver, IsAsGoodAsTheBestKnownOnTheStoredCases) {
  double short_sum = 0;
  double long_sum = 0;
  int short_count = 0;
  int long_count = 0;
  for (auto const& name : testing::planner_case_names()) {
    SCOPED_TRACE(name);
    auto const known = testing::load_planner_case(name);
    auto const best = known.known("best_combined_makespan");
    chain_solver solver(known.problem);
    auto const found = solve_case(solver, patient());
    ASSERT_EQ(found.feasible, best.has_value());
    EXPECT_EQ(found.floor.bytes, known.derived.at("floor_bytes").get<double>());
    if (!best) continue;
    auto const verdict = judge(known.problem, found.schedule);
    EXPECT_TRUE(verdict.accepted()) << verdict.violation;
    EXPECT_NEAR(verdict.makespan_s, found.seconds, 1e-9 * found.seconds);
    EXPECT_LE(found.lower_bound_s, *best * (1 + 1e-6));
    double const ratio = found.seconds / *best;
    bool const is_short = known.problem.stages() <= 8;
    EXPECT_LE(ratio, is_short ? 1.01 : 1.02);
    (is_short ? short_sum : long_sum) += ratio;
    ++(is_short ? short_count : long_count);
  }
  EXPECT_LE(short_sum / short_count, 1.002);
  EXPECT_LE(long_sum / long_count, 1.005);
}

TEST(ChainSolver, FindsTheOptimumOfShortRandomChains) {
  constexpr int chains = 220;
  int missed_by_search = 0;
  for (std::uint64_t seed = 1; seed <= chains; ++seed) {
    SCOPED_TRACE(seed);
    auto const c = testing::small_random_chain(seed, 2, 4);
    auto const optimum = exact_search(c).solve();
    ASSERT_TRUE(optimum.finished);
    chain_solver solver(c);
    auto const found = solve_case(solver, patient());
    ASSERT_EQ(found.feasible, optimum.feasible);
    if (!found.feasible) continue;
    EXPECT_NEAR(found.seconds, optimum.makespan_s, 1e-9 * optimum.makespan_s);
    EXPECT_TRUE(found.proven);
    auto const by_search = solver.solve(patient());
    bool const missed = !by_search.feasible || by_search.seconds > optimum.makespan_s * (1 + 1e-9);
    missed_by_search += missed ? 1 : 0;
    if (by_search.feasible) {
      EXPECT_GE(by_search.seconds, optimum.makespan_s * (1 - 1e-9));  // so the two check each other
    }
  }
  // The search alone finds nearly all: its form of plans is not what limits it.
  EXPECT_LE(missed_by_search, chains / 25);
}

/// Short chains many times, long ones a few.
void expect_never_worse_than_fixed_policies(std::uint64_t first_seed, std::uint64_t chains, bool only_short) {
  for (std::uint64_t seed = first_seed; seed < first_seed + chains; ++seed) {
    SCOPED_TRACE(seed);
    auto const c = only_short ? testing::small_random_chain(seed, 2, 6) : testing::any_chain(seed);
    chain_solver solver(c);
    solve_options options = patient();
    if (only_short) options.moves = 500;  // with so many chains, a tenth of the search has to do
    auto const found = solve_case(solver, options);
    if (found.feasible) {
      auto const verdict = judge(solver.problem(), found.schedule);
      ASSERT_TRUE(verdict.accepted()) << verdict.violation;
      EXPECT_LE(found.lower_bound_s, found.seconds * (1 + 1e-9));
    }
    for (auto const& fixed : testing::baselines(c)) {
      if (!fixed.feasible()) continue;
      ASSERT_TRUE(found.feasible) << fixed.name;
      EXPECT_LE(found.seconds, fixed.makespan_s * (1 + 1e-9)) << fixed.name;
    }
  }
}

TEST(ChainSolver, IsNeverWorseThanAFixedPolicyOnShortChains) { expect_never_worse_than_fixed_policies(1, 2000, true); }

TEST(ChainSolver, IsNeverWorseThanAFixedPolicyOnAnyChain) { expect_never_worse_than_fixed_policies(1, 60, false); }

TEST(ChainSolver, GivesTheSamePlanForTheSameSeed) {
  auto const c = testing::long_random_chain(7);
  chain_solver one(c);
  chain_solver other(c);
  EXPECT_EQ(one.solve(patient()).plan, other.solve(patient()).plan);
}

TEST(ChainSolver, MoreBudgetIsNeverSlower) {
  for (std::uint64_t seed : {3U, 11U, 20U}) {
    SCOPED_TRACE(seed);
    auto c = testing::small_random_chain(seed, 5, 6);
    c.host_bytes = chain::unlimited;
    double const floor = floor_of(c).bytes;
    double const all = testing::keep_all_bytes(c);
    double before = chain::unlimited;
    for (int step = 0; step <= 40; ++step) {
      c.device_bytes = floor + (all - floor) * step / 40;
      chain_solver solver(c);
      auto const found = solve_case(solver, patient());
      if (!found.feasible) continue;
      EXPECT_LE(found.seconds, before * (1 + 1e-9)) << "at " << c.device_bytes;
      before = found.seconds;
    }
    EXPECT_NEAR(before, c.ideal_s(), 1e-9 * before);
  }
}

TEST(ChainSolver, PlansAgainForAnotherLinkWithTheSameTable) {
  auto c = testing::gpt_chain(3, 24, 24);
  chain_solver solver(c);
  (void)solver.solve(patient());
  solver.set_link(0.5 * c.d2h_bytes_per_s, 0.5 * c.h2d_bytes_per_s);
  auto const again = solve_case(solver, patient());
  c.d2h_bytes_per_s *= 0.5;
  c.h2d_bytes_per_s *= 0.5;
  chain_solver fresh(c);
  EXPECT_EQ(again.plan, fresh.solve(patient()).plan);
  EXPECT_TRUE(judge(c, again.schedule).accepted());
}

TEST(ChainSolver, DoesNotFerryWhatCanStay) {
  auto c = testing::gpt_chain(3, 8, 8);
  c.device_bytes = 2 * testing::keep_all_bytes(c);
  chain_solver solver(c);
  auto const found = solve_case(solver);
  EXPECT_NEAR(found.seconds, c.ideal_s(), 1e-12);
  for (auto const& row : found.schedule) EXPECT_NE(row.op, chain_op::d2h);
}

TEST(ChainSolver, RefusesLessThanTheFloorAndNamesIt) {
  auto c = testing::small_random_chain(5, 4, 6);
  auto const floor = floor_of(c);
  c.device_bytes = floor.bytes - 1;
  chain_solver solver(c);
  auto const found = solve_case(solver);
  EXPECT_FALSE(found.feasible);
  EXPECT_EQ(found.floor.bytes, floor.bytes);
}

TEST(ChainSolver, EqualStagesShareTheirRows) {
  auto c = testing::gpt_chain(2, 40, 40);
  // Its table must not grow with the number of equal stages: a thousand take no more rows than forty.
  auto const longer = [&](std::size_t stages) {
    chain longest = c;
    for (auto* list : {&longest.forward_s, &longest.backward_s, &longest.saved_bytes, &longest.boundary_bytes,
                       &longest.forward_scratch_bytes, &longest.backward_scratch_bytes}) {
      list->insert(list->begin() + 5, stages - c.stages(), (*list)[5]);
    }
    return longest;
  };
  replay_table const some(longer(200));
  replay_table const many(longer(1000));
  EXPECT_LE(many.rows(), some.rows() + 8);
}

}  // namespace
}  // namespace ferry::planning
