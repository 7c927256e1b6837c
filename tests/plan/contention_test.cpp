// Copies that disturb each other and the computation: in the exact simulator, and in the plans that are made for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/case_solver.hpp"
#include "plan/chain_simulator.hpp"
#include "plan/chain_solver.hpp"
#include "plan/local_search.hpp"
#include "support/planner_cases.hpp"
#include "support/random_chains.hpp"
#include "support/referee.hpp"

namespace ferry::planning {
namespace {

/// Each way alone, and both together.
constexpr contention pcie4{.out_beside_back = 24 / 24.8, .back_beside_out = 11 / 24.8};
constexpr contention shared_cores{.out_beside_back = 0.8,
                                  .back_beside_out = 0.7,
                                  .compute_beside_out = 0.9,
                                  .compute_beside_back = 0.8,
                                  .compute_beside_both = 0.7};

/// Three stages of 2 s forward and 2 s backward; the first one's 4 bytes go out and come back at a byte a second.
chain three_stages(contention beside) {
  chain c;
  c.forward_s = {2, 2, 2};
  c.backward_s = {2, 2, 2};
  c.boundary_bytes = {1, 1, 1, 0};
  c.saved_bytes = {4, 1, 1};
  c.forward_scratch_bytes = c.backward_scratch_bytes = {0, 0, 0};
  c.device_bytes = 1000;
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = 1;
  c.beside = beside;
  return c;
}

chain_plan first_stage_ferried() {
  return {{ferried_whole, input_mark::kept, 0}, {kept_whole, input_mark::kept, 0}, {kept_whole, input_mark::kept, 0}};
}

TEST(ContendedTimeline, ComputationTakesLongerWhileBytesMove) {
  auto const c = three_stages({.compute_beside_out = 0.5, .compute_beside_back = 0.8});
  replay_table const replays(c);
  chain_simulator simulator(c, replays);
  double const makespan = simulator.run(first_stage_ferried());
  // Alone until 2. 4 s of copying out: half of them done, and 2 of the 4 s of the two other forwards; then in 2 s the
  // rest.
  EXPECT_DOUBLE_EQ(simulator.outs()[0].start_s, 2);
  EXPECT_DOUBLE_EQ(simulator.outs()[0].end_s, 6);
  EXPECT_DOUBLE_EQ(simulator.ops()[1].end_s, 6);
  // The fetch begins as soon as it fits, at 6, and takes until 10: forward goes on at 0.8 from 6 on.
  EXPECT_DOUBLE_EQ(simulator.ops()[2].end_s, 8.5);
  auto const& in = simulator.ins()[0];
  EXPECT_DOUBLE_EQ(in.end_s, in.start_s + 4);
  double slowed = 0;
  for (auto const& op : simulator.ops()) slowed += op.end_s - op.start_s - op.seconds;
  EXPECT_NEAR(makespan, 12 + slowed, 1e-12);
  EXPECT_NEAR(slowed, 2 + 0.2 * 4, 1e-9);
}

TEST(ContendedTimeline, TheTwoDirectionsSlowEachOtherOnlyWhileBothMove) {
  // A second stage goes out while the first one comes back, because backward is at once there.
  auto c = three_stages({.out_beside_back = 0.5, .back_beside_out = 0.25});
  c.forward_s = {1, 1, 1};
  c.saved_bytes = {2, 8, 1};
  replay_table const replays(c);
  chain_simulator simulator(c, replays);
  auto plan = first_stage_ferried();
  plan[1].saving = ferried_whole;
  simulator.run(plan);
  for (auto const& out : simulator.outs()) EXPECT_GE(out.end_s - out.start_s, out.bytes - 1e-12);
  auto const rows = schedule_of(c, simulator);
  auto const verdict = testing::judge(c, rows);
  EXPECT_EQ(verdict.violation, "");
  c.beside = {};  // the same schedule is no longer one that fits the chain, or is slower than need be
  replay_table const same(c);
  chain_simulator undisturbed(c, same);
  EXPECT_LE(undisturbed.run(plan), verdict.makespan_s);
}

TEST(ContendedTimeline, WithoutContentionIsWhatItWas) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    auto c = testing::long_random_chain(seed);
    replay_table const replays(c);
    chain_simulator plain(c, replays);
    auto almost = c;
    almost.beside.compute_beside_both = 1 - 1e-12;  // takes the contended way
    chain_simulator contended(almost, replays);
    for (auto const& plan : fixed_plans(c, replays)) {
      double const expected = plain.run(plan);
      double const got = contended.run(plan);
      if (expected == got) continue;
      EXPECT_NEAR(got, expected, 1e-9 * expected) << seed;
    }
  }
}

TEST(ContendedPlans, AreAcceptedByTheReferee) {
  int judged = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    auto c = seed % 3 == 0   ? testing::small_random_chain(seed)
             : seed % 3 == 1 ? testing::long_random_chain(seed, 6, 20)
                             : testing::gpt_chain(seed, 6, 20);
    c.beside = seed % 2 == 0 ? pcie4 : shared_cores;
    chain_solver solver(c);
    auto const found = solve_case(solver, {.time_limit_ms = solve_options::no_time_limit, .moves = 200});
    if (!found.feasible) continue;
    auto const verdict = testing::judge(c, found.schedule);
    EXPECT_EQ(verdict.violation, "") << c.name;
    EXPECT_NEAR(verdict.makespan_s, found.seconds, 1e-6 * found.seconds);
    EXPECT_LE(found.lower_bound_s, found.seconds * (1 + 1e-9)) << c.name;
    ++judged;
  }
  EXPECT_GT(judged, 80);
}

/// The makespan, on the chain as it is, of the plan that was found for `believed`.
double seconds_of_plan_for(chain const& believed, chain const& real) {
  chain_solver solver(believed);
  auto const found = solver.solve({.time_limit_ms = solve_options::no_time_limit, .moves = 1500});
  if (!found.feasible) return 0;
  chain_simulator simulator(real, solver.replays());
  return simulator.run(found.plan);
}

struct comparison {
  double mean_ratio = 1;  // of what knows to what does not
  double worst = 0;
  int better = 0;
  int cases = 0;
};

/// Plans that know the chain as it is, against plans for what `change` makes of it.
template <typename Change>
comparison against_plans_for(contention beside, Change change) {
  comparison all;
  double sum = 0;
  for (auto const& name : testing::planner_case_names()) {
    auto real = testing::load_planner_case(name).problem;
    if (!real.has_link() || real.stages() > 40) continue;
    real.beside = beside;
    auto believed = real;
    change(believed);
    double const knowing = seconds_of_plan_for(real, real);
    double const ignorant = seconds_of_plan_for(believed, real);
    if (ignorant <= 0 || knowing <= 0) continue;
    double const ratio = knowing / ignorant;
    sum += std::log(ratio);
    all.worst = std::max(all.worst, ratio);
    all.better += ratio < 1 - 1e-6 ? 1 : 0;
    ++all.cases;
  }
  all.mean_ratio = std::exp(sum / all.cases);
  return all;
}

TEST(ContendedPlans, AreBetterThanThoseThatDoNotKnowWhatCopiesCostTheComputation) {
  auto const c = against_plans_for(shared_cores, [](chain& believed) { believed.beside = {}; });
  EXPECT_LT(c.mean_ratio, 0.995) << c.better << " of " << c.cases << " are better";
  EXPECT_LE(c.worst, 1.005);
}

// One rate for each way has to be that of both at once, or one that is not there when both move. No plan of a step has
// bytes move both ways: what still goes out holds the bytes that a fetch would need. So plans that hope for the best
// lose nothing, and those that fear the worst lose what they leave unused.
TEST(ContendedPlans, AreBetterThanThoseThatCountOnTheSlowerRatesOfBothDirections) {
  auto const hoping = against_plans_for(pcie4, [](chain& believed) { believed.beside = {}; });
  EXPECT_LE(hoping.worst, 1 + 1e-9);
  auto const fearing = against_plans_for(pcie4, [](chain& believed) {
    believed.d2h_bytes_per_s *= std::exchange(believed.beside.out_beside_back, 1);
    believed.h2d_bytes_per_s *= std::exchange(believed.beside.back_beside_out, 1);
  });
  EXPECT_LT(fearing.mean_ratio, 0.995) << fearing.better << " of " << fearing.cases << " are better";
  EXPECT_LE(fearing.worst, 1.005);
}

TEST(ContendedReferee, RejectsOperationsThatAreTooShortBesideCopies) {
  auto const c = three_stages({.compute_beside_out = 0.5});
  replay_table const replays(c);
  chain_simulator simulator(c, replays);
  simulator.run(first_stage_ferried());
  auto rows = schedule_of(c, simulator);
  ASSERT_EQ(testing::judge(c, rows).violation, "");
  auto ignorant = c;
  ignorant.beside = {};
  EXPECT_NE(testing::judge(ignorant, rows).violation, "");
  chain_simulator undisturbed(ignorant, replays);
  undisturbed.run(first_stage_ferried());
  EXPECT_NE(testing::judge(c, schedule_of(ignorant, undisturbed)).violation, "");
}

}  // namespace
}  // namespace ferry::planning
