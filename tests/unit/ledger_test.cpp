// What is added up, and charged to whom; without a session.
#include "observe/ledger.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "support/sim_of.hpp"

namespace ferry::observe {
namespace {

using namespace std::chrono_literals;

class Ledger : public ::testing::Test {
 protected:
  static constexpr std::size_t bytes = 1000;

  Ledger() {
    settings_.log = log_level::off;
    ledger_.emplace(*device_, settings_, log_, store_, clock_);
    clock_.begin_step();
    clock_.entered(pass::forward, {0, 0, "a"}, compute_, store_.events());
    auto region = store_.device_tier().allocate(bytes, "a");
    store_.make_resident(item_, std::move(*region), store_.events().record(compute_));
    item_.record.stats.bytes = bytes;
  }
  ~Ledger() override { store_.release(item_); }
  /// One kernel long.
  void measure(measurement::kind what) {
    auto from = store_.events().record(compute_, event_timing::on);
    device_->launch(compute_, "kernel", {}, [] {});
    ledger_->measure(what, &item_, std::move(from), compute_);
  }
  session_stats stats() { return ledger_->stats(link_, settings_, {}); }

  config settings_;
  support::logger log_{log_level::off};
  std::unique_ptr<sim_device> device_ = testing::make_sim_of(std::size_t{1} << 20, 100us);
  stream compute_{*device_, stream_kind::compute, "compute"};
  store::tiered_store store_{*device_, {std::size_t{1} << 20, std::size_t{1} << 20, std::size_t{1} << 20}};
  decide::step_clock clock_{*device_};
  decide::link_counters out_;
  decide::link_counters back_;
  decide::link_view link_{*device_, out_, back_, true};
  std::optional<ledger> ledger_;
  store::entry& item_ = store_.admit({0, 0, "a"});
};

TEST_F(Ledger, CountsReasonsInAllAndOfAnItem) {
  ledger_->count(reason::deferred_in_flight_full);
  ledger_->count(reason::kept_by_policy, item_);
  ledger_->count(reason::offloaded_by_policy, item_);
  EXPECT_EQ(stats().count(reason::deferred_in_flight_full), 1U);
  EXPECT_EQ(stats().count(reason::offloaded_by_policy), 1U);
  EXPECT_EQ(stats().items.at(0).last, reason::offloaded_by_policy);
}

TEST_F(Ledger, WhatIsTimedIsChargedWhenItIsOver) {
  measure(measurement::kind::exposed);
  ledger_->take_measurements(false);
  EXPECT_FALSE(ledger_->measured_all());
  EXPECT_EQ(stats().exposed_us, 0);
  compute_.synchronize();
  EXPECT_EQ(stats().exposed_us, 100) << "it is over, though nobody has taken it in";
  EXPECT_EQ(stats().items.at(0).exposed_us, 100);
  EXPECT_FALSE(ledger_->measured_all()) << "asking changes nothing";
  ledger_->take_measurements(true);
  EXPECT_TRUE(ledger_->measured_all());
  EXPECT_EQ(stats().exposed_us, 100);
  EXPECT_EQ(stats().items.at(0).exposed_us, 100);
}

TEST_F(Ledger, WaitingForBytesIsExposedToo) {
  measure(measurement::kind::starved);
  ledger_->waited_for_bytes(&item_, 40);
  ledger_->take_measurements(true);
  EXPECT_EQ(stats().exposed_us, 100);
  EXPECT_EQ(stats().waited_for_bytes_us, 100);
  EXPECT_EQ(stats().host_waited_us, 40);
  EXPECT_TRUE(ledger_->effects().room_was_short);
}

TEST_F(Ledger, RecipesTeachHowLongTheyTake) {
  measure(measurement::kind::part_of_recipe);
  ledger_->take_measurements(true);
  EXPECT_LT(item_.rebuild.us, 0) << "of a part nothing follows for the whole";
  measure(measurement::kind::recipe_ahead);
  ledger_->take_measurements(true);
  EXPECT_EQ(item_.rebuild.us, 100);
  EXPECT_EQ(stats().recompute_us, 200);
  EXPECT_EQ(stats().recomputed_ahead_us, 100);
}

TEST_F(Ledger, TransfersAreHiddenAsFarAsNobodyWaited) {
  store::transfer moved(*device_);
  moved.owner.key = item_.key;
  moved.result.moved_us = 250;
  ledger_->transferred(moved);
  measure(measurement::kind::exposed);
  ledger_->take_measurements(true);
  EXPECT_EQ(stats().hidden_us, 150);
  EXPECT_EQ(stats().items.at(0).hidden_us, 150);
}

TEST_F(Ledger, TellsOfTheLink) {
  back_.transfers = 3;
  back_.bytes = 5000;
  back_.bytes_per_us = 12'000;
  EXPECT_EQ(stats().host_to_device.transfers, 3U);
  EXPECT_EQ(stats().host_to_device.bytes, 5000U);
  EXPECT_EQ(stats().host_to_device.gbps, 12);
  EXPECT_EQ(stats().device_to_host.transfers, 0U);
}

}  // namespace
}  // namespace ferry::observe
