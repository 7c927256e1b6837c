// The tape against what one works out on paper, for the plain net of four layers.
//
// x takes 1 MiB, h 2 MiB; every operation of forward 1 ms, a layer's backward 4 ms; the link moves 2.5 MiB in 1 ms.
// Forward makes h1 x2 h2 x3 h3 x4 h4, in this order; F1 to F3 make two of them, F4 one. Backward of a layer needs its h
// and x.
#include "tape/tape_record.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ferry/error.hpp"
#include "tape/tape_net.hpp"
#include "tape/tape_text.hpp"

namespace ferry::command {
namespace {

constexpr double mebibyte = 1 << 20;

simulation_options following(std::string const& policy) {
  simulation_options how;
  how.settings.set("FERRY_POLICY", policy);
  how.settings.budget = byte_amount::share(1.0);
  how.settings.min_bytes = 0;
  how.settings.log = log_level::off;
  return how;
}

tape tape_of(std::string const& policy, plain_net const& net = {}) {
  return record_tape(profile_of(net), hardware_of(net), following(policy), 1);
}

/// "x1 h1> x2", a letter for what is not simply on the device: > out, < in, @ host; dropped and absent ones not at all.
std::string tape_after(tape const& of, tape_step const& step) {
  std::string text;
  for (std::size_t k = 0; k < step.places.size(); ++k) {
    auto const where = step.places[k];
    if (where == tape_place::absent || where == tape_place::dropped) continue;
    text += (text.empty() ? "" : " ") + of.items[k].label;
    if (where == tape_place::leaving) text += '>';
    if (where == tape_place::arriving) text += '<';
    if (where == tape_place::host) text += '@';
  }
  return text;
}

std::string names(tape const& of, std::vector<std::size_t> const& items) {
  std::string text;
  for (std::size_t const k : items) text += (text.empty() ? "" : " ") + of.items[k].label;
  return text;
}

/// A line of the table on paper.
struct line {
  std::string step;
  std::string live;
  double most_mib = 0;
  double after_mib = 0;
  std::string rebuilt{};
};

void expect_lines(tape const& of, std::vector<line> const& paper) {
  ASSERT_EQ(of.steps.size(), paper.size());
  for (std::size_t i = 0; i < paper.size(); ++i) {
    auto const& step = of.steps[i];
    SCOPED_TRACE(step.label);
    EXPECT_EQ(step.label, paper[i].step);
    EXPECT_EQ(tape_after(of, step), paper[i].live);
    EXPECT_DOUBLE_EQ(static_cast<double>(step.most_bytes) / mebibyte, paper[i].most_mib);
    EXPECT_DOUBLE_EQ(static_cast<double>(step.after_bytes) / mebibyte, paper[i].after_mib);
    EXPECT_EQ(names(of, step.rebuilt), paper[i].rebuilt);
  }
}

TEST(TapeRecord, KeepHoldsAllUntilItsBackward) {
  auto const full = tape_of("keep");
  expect_lines(full, {{"F1", "x1 h1 x2", 4, 4},
                      {"F2", "x1 h1 x2 h2 x3", 7, 7},
                      {"F3", "x1 h1 x2 h2 x3 h3 x4", 10, 10},
                      {"F4", "x1 h1 x2 h2 x3 h3 x4 h4", 12, 12},
                      {"B4", "x1 h1 x2 h2 x3 h3 x4 h4", 12, 9},
                      {"B3", "x1 h1 x2 h2 x3 h3", 9, 6},
                      {"B2", "x1 h1 x2 h2", 6, 3},
                      {"B1", "x1 h1", 3, 0}});
  EXPECT_EQ(names(full, full.steps[0].writes), "x1 h1 x2");
  EXPECT_EQ(names(full, full.steps[3].writes), "h4");
  EXPECT_EQ(names(full, full.steps[4].reads), "h4 x4");
  EXPECT_EQ(full.peak_bytes, 12 * mebibyte);
  EXPECT_EQ(full.steps[full.peak_step].label, "F4");
  // Forward's operations with 3, 4, 6, 7, 9, 10 and 12 MiB for 1 ms each, then 12, 9, 6 and 3 for 4 ms each.
  EXPECT_DOUBLE_EQ(full.step_us, 23'000);
  EXPECT_NEAR(full.average_bytes / mebibyte, (51.0 + 4 * 30) / 23, 1e-9);
  EXPECT_EQ(full.forward_operations, 7U);
  EXPECT_TRUE(full.recomputed.empty());
  EXPECT_TRUE(full.rebuilds.empty());
}

TEST(TapeRecord, EverySecondRebuildsTwoLayersAtOnce) {
  auto const second = tape_of("every=2");
  expect_lines(second, {{"F1", "x1 x2", 4, 2},
                        {"F2", "x1 x3", 4, 2},
                        {"F3", "x1 x3 x4", 5, 3},
                        {"F4", "x1 x3", 5, 2},
                        {"B4", "x1 x3 h3 x4 h4", 7, 4, "h3 x4 h4"},
                        {"B3", "x1 x3 h3", 4, 1},
                        {"B2", "x1 h1 x2 h2", 6, 3, "h1 x2 h2"},
                        {"B1", "x1 h1", 3, 0}});
  EXPECT_EQ(second.peak_bytes, 7 * mebibyte);
  EXPECT_EQ(second.steps[second.peak_step].label, "B4");
  // 3, 4, 4, 4, 4, 5 and 5 in forward; what a backward rebuilds has its bytes from that backward's beginning on: 7 for
  // 3 + 4 ms, 4 for 4 ms, 6 for 3 + 4 ms, 3 for 4 ms.
  EXPECT_DOUBLE_EQ(second.step_us, 29'000);
  EXPECT_NEAR(second.average_bytes / mebibyte, (29.0 + 49 + 16 + 42 + 12) / 29, 1e-9);
  EXPECT_EQ(second.recomputed_operations(), 6U);
  ASSERT_EQ(second.recomputed.size(), 2U);
  EXPECT_EQ(second.recomputed[0], (recompute_share{"h", 4, 4000, 0}));
  EXPECT_EQ(second.recomputed[1], (recompute_share{"x", 2, 2000, 0}));
  EXPECT_DOUBLE_EQ(extra_forward(second), 6.0 / 7);
}

TEST(TapeRecord, RecipesAreTimedByTheDevice) {
  auto const second = tape_of("every=2");
  std::vector<std::string> seen;
  for (auto const& one : second.rebuilds) {
    EXPECT_DOUBLE_EQ(one.to_us - one.from_us, 1000);
    seen.push_back(second.items[one.item].label + " " + std::to_string(static_cast<int>(one.from_us)));
  }
  // B4 begins at 7 ms, B2 at 7 + 3 + 4 + 4.
  EXPECT_EQ(seen, (std::vector<std::string>{"h3 7000", "x4 8000", "h4 9000", "h1 18000", "x2 19000", "h2 20000"}));
}

TEST(TapeRecord, EveryLayerRebuildsOneInsideAtATime) {
  auto const each = tape_of("recompute");
  expect_lines(each, {{"F1", "x1 x2", 4, 2},
                      {"F2", "x1 x2 x3", 5, 3},
                      {"F3", "x1 x2 x3 x4", 6, 4},
                      {"F4", "x1 x2 x3 x4", 6, 4},
                      {"B4", "x1 x2 x3 x4 h4", 6, 3, "h4"},
                      {"B3", "x1 x2 x3 h3", 5, 2, "h3"},
                      {"B2", "x1 x2 h2", 4, 1, "h2"},
                      {"B1", "x1 h1", 3, 0, "h1"}});
  // 3, 4, 4, 5, 5, 6 and 6 in forward; then 6, 5, 4 and 3 for 1 + 4 ms each.
  EXPECT_DOUBLE_EQ(each.step_us, 27'000);
  EXPECT_NEAR(each.average_bytes / mebibyte, (33.0 + 5 * 18) / 27, 1e-9);
  EXPECT_EQ(each.recomputed_operations(), 4U);
  EXPECT_DOUBLE_EQ(extra_forward(each), 4.0 / 7);
}

TEST(TapeRecord, OffloadHasTheInsideOfOneLayerOnTheDevice) {
  auto const ferried = tape_of("offload");
  // An x takes 0.4 ms, an h 0.8 ms: each has left when the next operation is over, but for the x that has just been
  // made, and h4, which is needed before it has left. Where memory is unlimited, all is fetched from the turn on: x4 is
  // waited for, the others arrive by 11.0 ms, while B4 computes.
  expect_lines(ferried, {{"F1", "x1@ h1@ x2>", 3, 1},
                         {"F2", "x1@ h1@ x2@ h2@ x3>", 3, 1},
                         {"F3", "x1@ h1@ x2@ h2@ x3@ h3@ x4>", 3, 1},
                         {"F4", "x1@ h1@ x2@ h2@ x3@ h3@ x4@ h4>", 3, 2},
                         {"B4", "x1 h1 x2 h2 x3 h3 x4 h4", 12, 9},
                         {"B3", "x1 h1 x2 h2 x3 h3", 9, 6},
                         {"B2", "x1 h1 x2 h2", 6, 3},
                         {"B1", "x1 h1", 3, 0}});
  EXPECT_EQ(names(ferried, ferried.steps[0].sent), "x1 h1");
  EXPECT_DOUBLE_EQ(ferried.step_us, 23'400);
  EXPECT_NEAR(ferried.average_bytes / mebibyte, (7 * 3 + 4.4 * 12 + 4 * (9 + 6 + 3)) / 23.4, 1e-9);
  EXPECT_EQ(ferried.host_peak_bytes, 12 * mebibyte);
  EXPECT_EQ(ferried.steps[3].host_bytes, 12 * mebibyte);
  EXPECT_EQ(ferried.fetched_bytes, 10 * mebibyte) << "all but h4";
  EXPECT_TRUE(ferried.recomputed.empty());
}

TEST(TapeRecord, SaysWhatWaitingForTheDeviceCosts) {
  EXPECT_DOUBLE_EQ(tape_of("every=2").ahead_us, 29'000) << "nothing";
  auto how = following("offload");
  how.settings.budget = byte_amount::exactly(std::size_t{6} << 20);
  plain_net const net;
  auto const tight = record_tape(profile_of(net), hardware_of(net), how, 1);
  EXPECT_LT(tight.ahead_us, tight.step_us) << "fetches are asked for one layer earlier when the host is ahead";
  EXPECT_NE(tape_text(tight).find("when the host runs ahead"), std::string::npos);
  EXPECT_EQ(tape_text(tape_of("every=2")).find("when the host runs ahead"), std::string::npos);
}

TEST(TapeRecord, WhatAnItemWentThroughHasNoHoles) {
  for (auto const* policy : {"keep", "every=2", "recompute", "offload", "sqrt"}) {
    SCOPED_TRACE(policy);
    auto const shown = tape_of(policy);
    for (std::size_t k = 0; k < shown.items.size(); ++k) {
      double until = -1;
      for (auto const& one : shown.spans) {
        if (one.item != k) continue;
        EXPECT_DOUBLE_EQ(one.from_us, until < 0 ? one.from_us : until) << shown.items[k].label;
        EXPECT_GT(one.to_us, one.from_us);
        until = one.to_us;
      }
      auto const& released = shown.steps[shown.steps.size() - 1 - shown.items[k].segment];
      EXPECT_DOUBLE_EQ(until, released.end_us) << shown.items[k].label;
    }
  }
}

/// On paper: keeping all 3 L; every layer L + 2; every N-th L / N + 2 N + (N - 1): the kept x, and of N layers the h
/// and all x but the kept one. sqrt is every ceil(sqrt(L))-th.
TEST(TapeRecord, PeaksGrowWithTheDepthOrItsRoot) {
  for (std::uint32_t const root : {2U, 4U, 6U, 8U}) {
    SCOPED_TRACE(root);
    plain_net net;
    net.layers = root * root;
    double const depth = net.layers;
    EXPECT_EQ(static_cast<double>(tape_of("keep", net).peak_bytes) / mebibyte, 3 * depth);
    EXPECT_EQ(static_cast<double>(tape_of("recompute", net).peak_bytes) / mebibyte, depth + 2);
    EXPECT_EQ(static_cast<double>(tape_of("every=2", net).peak_bytes) / mebibyte, depth / 2 + 5);
    EXPECT_EQ(static_cast<double>(tape_of("sqrt", net).peak_bytes) / mebibyte, root + 2 * root + root - 1);
  }
}

TEST(TapeRecord, AutoStaysWithinItsBudget) {
  plain_net net;
  net.layers = 8;
  auto const step = profile_of(net);
  for (std::size_t const budget : {6U, 9U, 12U, 18U}) {
    auto how = following("auto");
    how.settings.budget = byte_amount::exactly(budget << 20);
    auto const shown = record_tape(step, hardware_of(net), how, 1);
    EXPECT_LE(shown.peak_bytes, budget << 20);
    EXPECT_EQ(shown.budget_bytes, budget << 20);
    EXPECT_GT(shown.recomputed_operations() + shown.sent_bytes, 0U) << "24 MiB do not fit";
    EXPECT_EQ(shown.steps.back().after_bytes, 0U);
  }
}

TEST(TapeRecord, TheSessionsOwnPeakIsTheTapes) {
  for (auto const* policy : {"keep", "every=2", "every=3", "recompute", "offload"}) {
    SCOPED_TRACE(policy);
    plain_net net;
    net.layers = 7;
    auto const plain = simulate(profile_of(net), hardware_of(net), following(policy));
    EXPECT_EQ(tape_of(policy, net).peak_bytes, plain.stats.device.peak_bytes);
  }
}

TEST(TapeRecord, OneLayerHasNothingToMakeButItsInside) {
  plain_net net;
  net.layers = 1;
  expect_lines(tape_of("recompute", net), {{"F1", "x1", 3, 1}, {"B1", "x1 h1", 3, 0, "h1"}});
}

TEST(TapeRecord, NamesThatEndInADigitAreSetApartFromTheirSegment) {
  plain_net net;
  net.layers = 2;
  auto step = profile_of(net);
  for (auto& segment : step.segments) segment.items[1].name = "ln1";
  step.segments[1].items[0].inputs[0].name = "ln1";
  for (auto& need : step.need_order) need.name = need.name == "h" ? "ln1" : need.name;
  auto const shown = record_tape(step, hardware_of(net), following("keep"), 0);
  EXPECT_EQ(shown.items[3].label, "ln1.1");
  EXPECT_EQ(shown.items[0].label, "x.0");
  EXPECT_EQ(shown.steps[0].label, "F0");
}

TEST(TapeRecord, RefusesWhatNobodyCanLookAt) {
  plain_net net;
  net.layers = most_tape_items / 2 + 1;
  EXPECT_THROW((void)tape_of("keep", net), setting_error);
}

}  // namespace
}  // namespace ferry::command
