// What others do, as plans: placements, the order of fetches, and evictions by hand.
#include "bench/peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "bench/plan_sketch.hpp"
#include "ferry/simulate.hpp"
#include "support/two_item_chain.hpp"

namespace ferry::command {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using testing::gpu_with_link;
using testing::mib;
using testing::two_item_chain;

placement where(plan const& of, std::uint32_t segment, std::string const& name) {
  for (auto const& one : of.items) {
    if (one.item == item_name{segment, name}) return one.where;
  }
  ADD_FAILURE() << name << " of segment " << segment << " is not in the plan";
  return placement::keep;
}

/// "F0 F1 f1h B1": what the host issues, in order; f fetch, d drop.
std::vector<std::string> order_of(plan const& of) {
  std::vector<std::string> words;
  for (auto const& op : of.operations) {
    using kind = plan_operation::kind;
    char const letter = op.what == kind::forward    ? 'F'
                        : op.what == kind::backward ? 'B'
                        : op.what == kind::fetch    ? 'f'
                        : op.what == kind::drop     ? 'd'
                                                    : '?';
    words.push_back(letter + std::to_string(op.segment) + op.item);
  }
  return words;
}

TEST(Peers, OffloadEverythingFetchesOnDemandInTheOrderOfNeed) {
  auto const made = offload_everything(two_item_chain(2));
  for (std::uint32_t i : {0U, 1U}) {
    EXPECT_EQ(where(made, i, "x"), placement::offload);
    EXPECT_EQ(where(made, i, "h"), placement::offload);
  }
  EXPECT_THAT(order_of(made), ElementsAre("F0", "F1", "f1h", "f1x", "B1", "f0h", "f0x", "B0"));
}

TEST(Peers, OffloadEverythingLeavesTinyTensors) {
  auto const made = offload_everything(two_item_chain(2, 512, mib));
  EXPECT_EQ(where(made, 0, "x"), placement::keep);
  EXPECT_THAT(order_of(made), ElementsAre("F0", "F1", "f1h", "B1", "f0h", "B0"));
}

TEST(Peers, FirstLayersComeBackAsManyAheadAsStay) {
  // Of five segments the first two go: segment 1 comes back before the backward of 1 + 4 - 2 = 3, segment 0 before 2.
  auto const made = offload_first(two_item_chain(5), 2);
  EXPECT_EQ(where(made, 1, "h"), placement::offload);
  EXPECT_EQ(where(made, 2, "h"), placement::keep);
  EXPECT_THAT(order_of(made),
              ElementsAre("F0", "F1", "F2", "F3", "F4", "B4", "f1h", "f1x", "B3", "f0h", "f0x", "B2", "B1", "B0"));
}

TEST(Peers, FirstLayersAreNeverFetchedInTheirOwnBackward) {
  // All but the last go: there is nothing to look ahead by, but for one segment.
  EXPECT_THAT(order_of(offload_first(two_item_chain(3), 2)),
              ElementsAre("F0", "F1", "F2", "f1h", "f1x", "B2", "f0h", "f0x", "B1", "B0"));
}

TEST(Peers, GroupsComeBackOneSegmentAhead) {
  auto const made = offload_groups(two_item_chain(3), {"h"});
  EXPECT_EQ(where(made, 0, "x"), placement::keep);
  EXPECT_EQ(where(made, 1, "h"), placement::offload);
  EXPECT_EQ(where(made, 2, "h"), placement::keep) << "the last is needed at once";
  EXPECT_THAT(order_of(made), ElementsAre("F0", "F1", "F2", "f1h", "B2", "f0h", "B1", "B0"));
}

TEST(Peers, InputsGoAndTheRestIsRebuilt) {
  auto const made = offload_inputs(two_item_chain(3));
  EXPECT_EQ(where(made, 1, "x"), placement::offload);
  EXPECT_EQ(where(made, 1, "h"), placement::recompute);
  EXPECT_EQ(where(made, 2, "x"), placement::keep);
  EXPECT_THAT(order_of(made), ElementsAre("F0", "F1", "F2", "f1x", "B2", "f0x", "B1", "B0"));
}

TEST(Peers, InputsBelowTwoMebibytesStay) {
  EXPECT_EQ(where(offload_inputs(two_item_chain(3, mib)), 1, "x"), placement::keep);
}

TEST(Peers, EvictionDropsNothingThatFits) {
  auto const made = evict_and_rebuild(two_item_chain(4), 200 * mib);
  EXPECT_THAT(order_of(made), ElementsAre("F0", "F1", "F2", "F3", "B3", "B2", "B1", "B0"));
}

TEST(Peers, EvictionTakesTheStalestCheapestBytesFirst) {
  // Segments of 20 MiB, and the next one's input of 4: the fourth needs 20 beside 60, in 79 something of the first two
  // has to go. Per byte h is cheaper (600 us for 16 MiB against 400 for 4), and segment 0's is the stalest.
  auto const made = evict_and_rebuild(two_item_chain(4), 79 * mib);
  EXPECT_THAT(order_of(made), ElementsAre("F0", "F1", "F2", "d0h", "F3", "B3", "B2", "B1", "B0"));
}

TEST(Peers, EveryPlanKeepsToTheStepItWasMadeFor) {
  auto const step = two_item_chain(6);
  for (auto const& one : peers(20)) {
    for (auto const& made : one.plans_of(step, gpu_with_link(20), 70 * mib)) {
      EXPECT_NO_THROW(require_match(made.what, step)) << one.name << ' ' << made.knob;
    }
  }
}

/// What a session does under a peer's plan, on the sim device.
simulation run(profile const& step, plan const& made, std::size_t budget) {
  simulation_options how;
  how.settings.budget = byte_amount::exactly(budget);
  how.settings.host_budget = byte_amount::share(1);
  how.planned = made;
  how.steps = 1;
  keep_to_plan(how.settings);
  return simulate(step, gpu_with_link(20), how);
}

TEST(Peers, MoveAndRebuildExactlyWhatTheirRuleSays) {
  auto const step = two_item_chain(4);
  std::size_t const large = 500 * mib;
  auto const everything = run(step, offload_everything(step), large);
  EXPECT_EQ(everything.stats.recomputes, 0U);
  EXPECT_GE(everything.stats.device_to_host.bytes, 3 * 20 * mib);

  auto const inputs = run(step, offload_inputs(step), large);
  EXPECT_EQ(inputs.stats.recomputes, 4U);  // an h for each segment
  EXPECT_EQ(inputs.stats.device_to_host.bytes, 3 * 4 * mib);

  auto const none = run(step, evict_and_rebuild(step, 79 * mib), 79 * mib);
  EXPECT_EQ(none.stats.recomputes, 1U);
  EXPECT_EQ(none.stats.device_to_host.bytes, 0U);
}

TEST(Peers, ARunThatNeededMoreThanItsRuleDoesNotCount) {
  session_stats helped;
  helped.reasons[static_cast<std::size_t>(reason::dropped_for_space)] = 1;
  auto const all = peers(1);
  auto const named = [&](std::string const& name) { return *std::ranges::find(all, name, &peer::name); };
  EXPECT_FALSE(keeps_to_rule(named("first-k"), helped));
  EXPECT_TRUE(keeps_to_rule(named("dtr"), helped)) << "it rebuilds by its own rule";
  EXPECT_TRUE(keeps_to_rule(named("first-k"), {}));
  helped.reasons[static_cast<std::size_t>(reason::recomputed_sooner_than_transfer)] = 1;
  EXPECT_FALSE(keeps_to_rule(named("dtr"), helped));
}

TEST(Peers, RebuildOnlyHasNoPlanWhereItDoesNotFit) {
  auto const all = peers(20);
  auto const found = std::ranges::find(all, "rebuild-only", &peer::name);
  EXPECT_THAT(found->plans_of(two_item_chain(6), gpu_with_link(20), 10 * mib), IsEmpty());
  auto const fits = found->plans_of(two_item_chain(6), gpu_with_link(20), 100 * mib);
  ASSERT_EQ(fits.size(), 1U);
  EXPECT_EQ(fits.front().what.offloaded_bytes, 0U);
}

}  // namespace
}  // namespace ferry::command
