// The exact simulator when the link stands still for a while.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/case_solver.hpp"
#include "plan/chain_simulator.hpp"
#include "plan/chain_solver.hpp"
#include "support/planner_cases.hpp"
#include "support/random_chains.hpp"
#include "support/referee.hpp"

namespace ferry::planning {
namespace {

/// Two stages of a second forward and a second backward; the first one's 4 bytes go out and come back at a byte a
/// second.
chain two_stages() {
  chain c;
  c.name = "two";
  c.forward_s = {1, 1};
  c.backward_s = {1, 1};
  c.boundary_bytes = {1, 1, 0};
  c.saved_bytes = {4, 1};
  c.forward_scratch_bytes = c.backward_scratch_bytes = {0, 0};
  c.device_bytes = 1000;
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = 1;
  return c;
}

chain_plan first_stage_ferried() { return {{ferried_whole, input_mark::kept, 0}, {kept_whole, input_mark::kept, 0}}; }

struct times {
  double out_start, out_end, in_start, in_end, makespan;
};

times run(std::vector<link_stall> stalls) {
  auto c = two_stages();
  c.stalls = std::move(stalls);
  replay_table const replays(c);
  chain_simulator simulator(c, replays);
  double const makespan = simulator.run(first_stage_ferried());
  auto const& out = simulator.outs().at(0);
  auto const& in = simulator.ins().at(0);
  return {out.start_s, out.end_s, in.start_s, in.end_s, makespan};
}

TEST(LinkStall, ATransferMakesNoProgressInsideAWindow) {
  auto const plain = run({});
  EXPECT_EQ(plain.out_start, 1);  // when forward has made it
  EXPECT_EQ(plain.out_end, 5);
  EXPECT_EQ(plain.in_end, plain.in_start + 4);
  auto const stalled = run({{2, 5}});
  EXPECT_EQ(stalled.out_start, 1);
  EXPECT_EQ(stalled.out_end, 8);
  EXPECT_EQ(stalled.makespan, plain.makespan + 3);
}

TEST(LinkStall, BothDirectionsStandStillAndWindowsAddUp) {
  auto const plain = run({});
  auto const stalled = run({{1.5, 2}, {4, 4.5}, {8, 10}});
  EXPECT_EQ(stalled.out_end, plain.out_end + 1);
  EXPECT_EQ(stalled.in_start, plain.in_start + 1);
  EXPECT_EQ(stalled.in_end, plain.in_end + 3);
}

TEST(LinkStall, AWindowThatNothingTouchesCostsNothing) {
  auto const plain = run({});
  EXPECT_EQ(run({{0, 1}}).makespan, plain.makespan);                // over when the first copy starts
  EXPECT_EQ(run({{plain.in_end, 100}}).makespan, plain.makespan);   // begins when the last one ends
  EXPECT_EQ(run({{0.5, 1.25}}).out_end, plain.out_end + 0.25);      // and one that a copy starts in
  EXPECT_EQ(run({{0, 1}, {1, 3}}).out_end, run({{0, 3}}).out_end);  // neighbours are one window
}

double moving_s(double from, double until, std::vector<link_stall> const& stalls) {
  double still = 0;
  for (auto const& each : stalls) {
    still += std::max(0.0, std::min(until, each.until_s) - std::max(from, each.from_s));
  }
  return until - from - still;
}

TEST(LinkStall, TheSearchAvoidsStallsAndItsSchedulesKeepToTheRules) {
  for (auto const& name : {"a06_rand_L6", "b04_gpt_h2048_L24_m15", "e02_resnet50_m15", "f02_rand_L40"}) {
    SCOPED_TRACE(name);
    auto c = testing::load_planner_case(name).problem;
    chain_solver plain(c);
    auto const before = plain.solve({.time_limit_ms = 1e6, .moves = 500});
    double const length = before.seconds;
    c.stalls = {{0.1 * length, 0.3 * length}, {0.5 * length, 0.6 * length}};
    chain_simulator simulator(c, plain.replays());
    double const carried_on = simulator.run(before.plan);
    chain_solver around(c, plain.share_replays());
    auto const found = solve_case(around, {.time_limit_ms = 1e6, .moves = 500, .starts = {before.plan}});
    EXPECT_GE(carried_on, before.seconds * (1 - 1e-12));
    EXPECT_LE(found.seconds, carried_on * (1 + 1e-12));
    auto const verdict = testing::judge(c, found.schedule);
    EXPECT_TRUE(verdict.accepted()) << verdict.violation;
    simulator.run(found.plan);
    for (auto const& out : simulator.outs()) {
      EXPECT_NEAR(moving_s(out.start_s, out.end_s, c.stalls), out.bytes / c.d2h_bytes_per_s, 1e-9 * length);
    }
    for (auto const& in : simulator.ins()) {
      EXPECT_NEAR(moving_s(in.start_s, in.end_s, c.stalls), in.bytes / c.h2d_bytes_per_s, 1e-9 * length);
    }
  }
}

}  // namespace
}  // namespace ferry::planning
