// The baselines reproduce what is known of the fixed policies, and every schedule of theirs holds.
#include "support/baselines.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "plan/exact_search.hpp"
#include "support/planner_cases.hpp"
#include "support/random_chains.hpp"
#include "support/referee.hpp"

namespace ferry::testing {
namespace {

void expect_accepted(planning::chain const& c, baseline const& b) {
  if (!b.feasible()) return;
  verdict const v = judge(c, b.schedule);
  EXPECT_EQ(v.violation, "") << b.name << " on " << c.name;
  EXPECT_DOUBLE_EQ(v.makespan_s, b.makespan_s) << b.name << " on " << c.name;
}

/// As good as what is known, or better; `slack` for numbers that were found with more effort.
void expect_as_known(planner_case const& c, char const* key, baseline const& b, double slack = 1e-9) {
  expect_accepted(c.problem, b);
  auto const known = c.known(key);
  if (known) {
    EXPECT_LE(b.makespan_s, *known * (1 + slack)) << b.name << " on " << c.problem.name;
  }
}

TEST(Baselines, MatchWhatIsKnownOfTheCases) {
  for (std::string const& name : planner_case_names()) {
    planner_case const c = load_planner_case(name);
    SCOPED_TRACE(name);
    baseline const recompute = recompute_only_baseline(c.problem);
    expect_accepted(c.problem, recompute);
    auto const known = c.known("rotor_persistent_makespan");
    ASSERT_EQ(recompute.feasible(), known.has_value());
    if (known) {
      EXPECT_NEAR(recompute.makespan_s, *known, 1e-9);
    }
    expect_as_known(c, "knapsack_keep_boundaries", knapsack_baseline(c.problem));
    expect_as_known(c, "recompute_all_offload_boundaries", ferried_inputs_baseline(c.problem));
    expect_as_known(c, "offload_only_best_found", offload_only_baseline(c.problem), 0.04);
  }
}

TEST(Baselines, OffloadOnlyIsAboutOptimalOnShortChains) {
  for (std::string const& name : planner_case_names()) {
    planner_case const c = load_planner_case(name);
    auto const known = c.known("offload_only_exact");
    if (!known || c.problem.stages() > 8) continue;
    double const found = offload_only_baseline(c.problem).makespan_s;
    EXPECT_GE(found, *known * (1 - 1e-6)) << name;
    EXPECT_LE(found, *known * 1.01) << name;
  }
}

TEST(Baselines, AreAcceptedOnChainsOfEveryFamily) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    planning::chain const c = any_chain(seed);
    for (baseline const& b : baselines(c)) {
      expect_accepted(c, b);
      feasible += b.feasible() ? 1 : 0;
    }
  }
  EXPECT_GT(feasible, 1000);
}

TEST(Baselines, NeverBeatTheOptimum) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    planning::chain const c = small_random_chain(seed, 3, 4);
    double const optimum_s = planning::exact_search(c).solve().makespan_s;
    for (baseline const& b : baselines(c)) EXPECT_GE(b.makespan_s, optimum_s - 1e-12) << b.name << " on " << c.name;
  }
}

TEST(Baselines, RecomputeOnlyIsTheBestPersistentSchedule) {
  // No worse than any fixed policy without a link, and no better than the best schedule of any kind.
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    planning::chain c = small_random_chain(seed, 3, 5);
    c.d2h_bytes_per_s = c.h2d_bytes_per_s = 0;
    double const best = recompute_only_baseline(c).makespan_s;
    EXPECT_GE(best, planning::exact_search(c).solve().makespan_s - 1e-12) << c.name;
    for (baseline const& b : baselines(c)) EXPECT_LE(best, b.makespan_s + 1e-12) << b.name << " on " << c.name;
  }
}

TEST(RandomChains, DependOnTheirSeedAlone) {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    planning::chain const a = any_chain(seed);
    planning::chain const b = any_chain(seed);
    EXPECT_EQ(a.forward_s, b.forward_s);
    EXPECT_EQ(a.saved_bytes, b.saved_bytes);
    EXPECT_EQ(a.device_bytes, b.device_bytes);
    EXPECT_EQ(a.boundary_bytes.size(), a.stages() + 1);
    for (std::size_t i = 0; i < a.stages(); ++i) EXPECT_GE(a.saved_bytes[i], a.boundary_bytes[i + 1]) << a.name;
  }
}

TEST(RandomChains, KnowTheFloorAndThePeakOfKeepingAll) {
  for (std::string const& name : planner_case_names()) {
    planner_case const c = load_planner_case(name);
    EXPECT_DOUBLE_EQ(floor_bytes(c.problem), c.derived.at("floor_bytes").get<double>()) << name;
    EXPECT_DOUBLE_EQ(keep_all_bytes(c.problem), c.derived.at("keep_all_peak_bytes").get<double>()) << name;
  }
}

}  // namespace
}  // namespace ferry::testing
