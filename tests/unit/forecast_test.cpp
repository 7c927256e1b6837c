// What the forecast answers, without a session: items in a store, and a link whose figures are written by hand.
#include "decide/forecast.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "support/sim_of.hpp"

namespace ferry::decide {
namespace {

using namespace std::chrono_literals;

constexpr auto out = copy_direction::device_to_host;
constexpr auto back = copy_direction::host_to_device;

class LinkView : public ::testing::Test {
 protected:
  static constexpr double speed = 1000;  // bytes per microsecond
  static constexpr double latency = 10;

  LinkView() {
    for (auto* const one : {&out_, &back_}) {
      one->bytes_per_us = speed;
      one->latency_us = latency;
    }
  }
  void copying(link_counters& direction, std::size_t bytes) {
    direction.copying_since_ns = std::max<std::int64_t>(1, device_->now().count());
    direction.copying_bytes = bytes;
  }
  void pass(std::chrono::microseconds time) { device_->time()->pass_time(time); }

  std::unique_ptr<sim_device> device_ = testing::make_sim_of(std::size_t{1} << 30, 1ms);
  link_counters out_;
  link_counters back_;
  link_view link_{*device_, out_, back_, true};
};

TEST_F(LinkView, BytesTakeTheirTimeAndTheLatency) {
  EXPECT_EQ(link_.us_for(back, 50'000), latency + 50);
  EXPECT_EQ(link_.us_for(out, 0), latency);
}

TEST_F(LinkView, NobodyKnowsTheSpeedOfALinkThatWasNeverUsed) {
  back_.bytes_per_us = 0;
  EXPECT_EQ(link_.us_for(back, 1), unknown_us);
  EXPECT_EQ(link_.standstill_us(back), 0);
  EXPECT_EQ(link_.bytes_per_us(back), 0);
}

TEST_F(LinkView, TheChunkThatIsBeingCopiedHasBeenForAWhile) {
  pass(1us);
  copying(back_, 20'000);
  pass(15us);
  ASSERT_TRUE(link_.chunk_under_way(back));
  EXPECT_EQ(link_.chunk_under_way(back)->so_far_us, 15);
  EXPECT_EQ(link_.us_for(back, 100'000), 100 - 15);
  EXPECT_FALSE(link_.chunk_under_way(out));
}

TEST_F(LinkView, ALinkThatStandsStillIsTakenToDoSoForAsLongAgain) {
  pass(1us);
  copying(back_, 20'000);  // usually 30 us
  pass(60us);
  EXPECT_EQ(link_.standstill_us(back), 0);
  pass(40us);
  EXPECT_EQ(link_.standstill_us(back), 40);
  EXPECT_EQ(link_.us_for(back, 20'000), 40);
  link_view const of_threads(*device_, out_, back_, false);
  EXPECT_EQ(of_threads.standstill_us(back), 0) << "whoever sleeps may have noticed late";
}

class Forecast : public LinkView {
 protected:
  static constexpr std::size_t bytes = 100'000;  // 100 us on the link

  Forecast() {
    settings_.stall_tolerance_us = 5;
    forecast_.emplace(*device_, store_, link_, clock_, settings_);
  }
  ~Forecast() override {
    for (auto i = store_.live().begin(); i != store_.live().end();) store_.release(*i++);
  }
  store::entry& saved(char const* name, double recipe_us = -1, item_list inputs = {}, std::uint32_t segment = 0) {
    auto region = store_.device_tier().allocate(bytes, name);
    auto& e = store_.admit({0, segment, name});
    store_.make_resident(e, std::move(*region), store_.events().record(stream_));
    if (recipe_us >= 0) {
      e.rebuild.possible = true;
      e.rebuild.how = std::make_unique<recipe>();
      e.rebuild.how->inputs = inputs;
      e.rebuild.us = recipe_us;
    }
    return e;
  }
  void host(store::entry& e) {
    e.host.replace(std::move(*store_.pinned_tier().allocate(e.bytes, "copy")));
    e.host.arrived(0);
    store_.evict(e);
  }

  config settings_;
  stream stream_{*device_, stream_kind::compute, "compute"};
  store::tiered_store store_{*device_, {std::size_t{1} << 20, std::size_t{1} << 20, std::size_t{1} << 20}};
  step_clock clock_{*device_};
  std::optional<forecast> forecast_;
};

TEST_F(Forecast, AnItemArrivesBehindWhatIsInFlight) {
  auto& e = saved("a");
  host(e);
  EXPECT_EQ(forecast_->arrival_us(e), latency + 100);
  back_.in_flight_bytes = 50'000;
  EXPECT_EQ(forecast_->arrival_us(e), latency + 150);
}

TEST_F(Forecast, TheRecipeIsTakenIfItIsSoonerByMoreThanTheTolerance) {
  outlook seen;
  auto& shorter = saved("a", 104);
  host(shorter);
  EXPECT_TRUE(forecast_->recipe_is_sooner(shorter, seen));
  EXPECT_EQ(seen.transfer_us, 110);
  EXPECT_EQ(seen.recipe_us, 104);
  EXPECT_TRUE(forecast_->has_weighed());
  shorter.rebuild.us = 105;
  EXPECT_FALSE(forecast_->recipe_is_sooner(shorter, seen));
  auto& none = saved("b");
  host(none);
  EXPECT_FALSE(forecast_->recipe_is_sooner(none, seen));
}

TEST_F(Forecast, InputsComeByLinkOrByTheirOwnRecipeWhicheverIsSooner) {
  auto& input = saved("a", 20);
  auto& e = saved("b", 30, {{0, 0, "a"}});
  EXPECT_EQ(forecast_->rebuild_us(e, unknown_us, 0), 30) << "it is there";
  host(input);
  EXPECT_EQ(forecast_->rebuild_us(e, unknown_us, 0), 50) << "its recipe takes 20, the link 110";
  input.rebuild.us = 500;
  EXPECT_EQ(forecast_->rebuild_us(e, unknown_us, 0), 30 + 110);
  EXPECT_EQ(forecast_->rebuild_us(e, unknown_us, 60), 30 + 50) << "60 of them are hidden";
  EXPECT_EQ(forecast_->rebuild_us(input, unknown_us, 0), 500);
}

TEST_F(Forecast, WhatCannotBeHadCannotBeRebuiltFrom) {
  auto& input = saved("a");
  auto& e = saved("b", 30, {{0, 0, "a"}});
  EXPECT_TRUE(forecast_->can_be_rebuilt(e));
  EXPECT_FALSE(forecast_->can_be_rebuilt(input)) << "it has no recipe";
  store_.release(input);
  EXPECT_FALSE(forecast_->can_be_rebuilt(e));
  EXPECT_EQ(forecast_->rebuild_us(e, unknown_us, 0), unknown_us);
}

TEST_F(Forecast, OnlyADroppedItemWithAllInputsThereCanBeRebuiltAtOnce) {
  auto& input = saved("a");
  auto& e = saved("b", 30, {{0, 0, "a"}});
  EXPECT_FALSE(forecast_->could_be_rebuilt_now(e)) << "it is there";
  store_.drop(e);
  EXPECT_TRUE(forecast_->could_be_rebuilt_now(e));
  host(input);
  EXPECT_FALSE(forecast_->could_be_rebuilt_now(e));
}

TEST_F(Forecast, LaterAnotherSegmentsDroppedInputsCostTheirRecipesToo) {
  auto& input = saved("a", 20, {}, 0);
  auto& e = saved("b", 30, {{0, 0, "a"}}, 1);
  EXPECT_EQ(forecast_->rebuild_later_us(e, unknown_us), 30);
  store_.drop(input);
  EXPECT_EQ(forecast_->rebuild_later_us(e, unknown_us), 50);
}

TEST_F(Forecast, AFetchThatComesLaterThanTheRecipeIsLate) {
  auto& e = saved("a", 40);
  host(e);
  EXPECT_FALSE(forecast_->lateness(e, 100, 0)) << "late by 10 us, and the recipe takes 40";
  auto const late = forecast_->lateness(e, 100, 50'000);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->transfer_us, 60);
  EXPECT_EQ(late->recipe_us, 40);
}

TEST_F(Forecast, WholeRowsNeedNotBeRebuilt) {
  auto& e = saved("a", 40);
  e.rebuild.how->rows = 10;
  EXPECT_EQ(forecast_->whole_rows(e, 35'000), 3U);
  EXPECT_EQ(forecast_->whole_rows(e, bytes), 9U) << "a recipe has something to do";
  EXPECT_EQ(forecast_->part_of_recipe_us(e, 3), 12);
  settings_.verify = verify_mode::checksum;
  EXPECT_EQ(forecast_->whole_rows(e, 35'000), 0U);
}

}  // namespace
}  // namespace ferry::decide
