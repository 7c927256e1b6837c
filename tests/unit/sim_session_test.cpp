// A session on the sim device: steps whose times can be computed by hand, exactly and again.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/session_fixture.hpp"
#include "support/sim_chain.hpp"

namespace ferry::testing {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

class SimSession : public SimChain {
 protected:
  void start(nanoseconds copy, std::size_t budget_items, policy_kind policy = policy_kind::offload,
             sim_device_options options = {}) {
    SimChain::start(copy, budget_items, with_policy(policy), std::move(options));
  }
};

TEST_F(SimSession, ALinkThatKeepsUpCostsNothing) {
  start(90us, 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(false), segments * (forward + backward)) << "step " << i;
  auto const stats = session_->stats();
  EXPECT_GT(stats.host_to_device.transfers, 0U);
  EXPECT_EQ(stats.exposed_us, 0);
  EXPECT_LE(stats.device.peak_bytes, 4 * item_bytes);
}

TEST_F(SimSession, OffloadPrefetchAndRecomputeRepeatToTheNanosecond) {
  auto const run = [this] {
    observed_.clear();
    start(170us, 5, policy_kind::offload);
    session_->set_placement(
        [](item_info const& item) { return item.key.segment % 3 == 1 ? placement::recompute : placement::offload; });
    std::vector<std::int64_t> times;
    for (int i = 0; i < 4; ++i) times.push_back(step().count());
    for (auto const& each : observed_) {
      times.push_back(each.start.count());
      times.push_back(each.end.count());
    }
    auto const stats = session_->stats();
    EXPECT_GT(stats.recomputes, 0U);
    EXPECT_GT(stats.host_to_device.transfers, 0U);
    EXPECT_GT(stats.device.average_bytes, 0);
    TearDown();
    return std::pair(times, to_json(stats));
  };
  auto const first = run();
  auto const second = run();
  EXPECT_EQ(first.first, second.first);
  EXPECT_EQ(first.second, second.second);
}

TEST_F(SimSession, ARecomputedSegmentAddsItsRecipeExactly) {
  start(90us, segments, policy_kind::keep);
  session_->set_placement([](item_info const& item) {
    return item.key.segment == 4 || item.key.segment == 7 ? placement::recompute : placement::keep;
  });
  EXPECT_EQ(step(), segments * (forward + backward) + 2 * rebuild);
  auto const stats = session_->stats();
  EXPECT_EQ(stats.recomputes, 2U);
  EXPECT_EQ(stats.recompute_us, 60);
}

TEST_F(SimSession, WaitingIsWhatTheLinkIsTooSlowBy) {
  start(400us, 3);
  auto const took = step(false);
  auto const stats = session_->stats();
  // Every microsecond in which no kernel ran was spent waiting, for an item or for bytes.
  nanoseconds busy{0};
  for (auto const& each : observed_) busy += each.where == sim_engine::compute ? each.end - each.start : nanoseconds{0};
  EXPECT_EQ(busy, segments * (forward + backward));
  EXPECT_GT(took, busy);
  EXPECT_NEAR(stats.exposed_us * 1e3, static_cast<double>((took - busy).count()), 1);
}

TEST_F(SimSession, AFailedOffloadLosesNothing) {
  start(90us, 4, policy_kind::offload, {.failures = {{.name = "h", .nth = 6}}});
  step(false);
  step(false);
  EXPECT_EQ(session_->stats().device_to_host.failed, 1U);
  EXPECT_EQ(session_->stats().restores, 2 * segments);
}

TEST_F(SimSession, AStallWithAnEndOnlyCostsTime) {
  start(90us, 4);
  auto const usual = step(false);
  device_->slow_down({.what = sim_engine::host_to_device, .from = device_->now(), .until = device_->now() + 20ms});
  auto const stalled = step(false);
  EXPECT_GT(stalled, 20ms);
  EXPECT_LT(stalled, 20ms + usual);
}

TEST_F(SimSession, AWaitForALinkThatIsGoneIsFoundNotHung) {
  start(90us, 4);
  device_->slow_down({.what = sim_engine::host_to_device});
  expect_error<deadlock_error>([&] { step(false); }, "stands still in the copy 'h' from host to device");
}

TEST_F(SimSession, WhatIsReallyInUseNeverExceedsTheBudget) {
  start(90us, 4);
  stream const beside(*device_, stream_kind::compute, "beside");
  session_->begin_step();
  {
    auto const freed = session_->allocate(3 * item_bytes, *compute_);
    device_->launch(*compute_, "forward", {}, [] {});
  }
  // Free for the host, but in use on the device for another 100 us: what does not fit beside it waits.
  auto const fits = session_->allocate(item_bytes, beside);
  device_->launch(beside, "fits", {}, [] {});
  auto const waits = session_->allocate(2 * item_bytes, beside);
  device_->launch(beside, "waits", {}, [] {});
  beside.synchronize();
  ASSERT_EQ(observed_.size(), 3U);
  EXPECT_EQ(observed_[0].end, rebuild);
  EXPECT_EQ(observed_[2].name, label("waits"));
  EXPECT_EQ(observed_[2].start, forward);
  session_->end_step();
}

TEST_F(SimSession, GapsBetweenItemsCostNothing) {
  start(90us, 4, policy_kind::keep);
  session_->begin_step();
  std::vector<block> held;
  for (int i = 0; i < 8; ++i) held.push_back(session_->allocate(item_bytes / 2, *compute_));
  for (std::size_t i = 0; i < held.size(); i += 2) held[i] = {};
  EXPECT_NO_THROW(static_cast<void>(session_->allocate(2 * item_bytes, *compute_)));
  held.clear();
  session_->end_step();
}

}  // namespace
}  // namespace ferry::testing
