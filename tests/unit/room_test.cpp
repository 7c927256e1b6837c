// Who gives way when device bytes are needed; without a session, whose part is played by hand.
#include "path/room.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/sim_device.hpp"

namespace ferry::path {
namespace {

class Room : public ::testing::Test, private room_path {
 protected:
  static constexpr std::size_t bytes = 1024;
  static constexpr std::size_t items = 4;  // that there is room for

  static std::unique_ptr<sim_device> make_device() {
    sim_device_options options;
    options.device_bytes = options.pinned_bytes = std::size_t{1} << 20;
    options.device_to_host = options.host_to_device = {.gbps = 1, .latency_us = 1};
    return make_sim_device(options);
  }
  static config make_settings() {
    config settings;
    settings.log = log_level::off;
    settings.policy.kind = policy_kind::offload;
    return settings;
  }
  Room() {
    clock_.begin_step();
    order_.begin_step();
  }
  ~Room() override {
    for (auto i = store_.live().begin(); i != store_.live().end();) {
      i->leases = 0;
      store_.release(*i++);
    }
  }

  store::entry& save(std::uint32_t segment, placement where = placement::keep, bool recipe = false) {
    auto& e = store_.admit({0, segment, "h"});
    store_.make_resident(e, room_.make(bytes, "h", stream_), store_.events().record(stream_));
    e.course.where = where;
    e.rebuild.possible = e.course.may_drop = recipe;
    if (recipe) e.rebuild.how = std::make_unique<ferry::recipe>();
    return e;
  }
  void give_host_copy(store::entry& e) {
    e.host.replace(std::move(*store_.pinned_tier().allocate(e.bytes, "copy")));
    e.host.arrived(0);
  }
  /// Takes a block's bytes and gives them back.
  void make() { store_.device_tier().free(room_.make(bytes, "block", stream_), {}); }
  std::uint64_t count(reason why) { return ledger_.totals().count(why); }

  // The path's part.
  void progress() override {
    while (auto* const ended = moving_.next_ended()) {
      store::entry& e = *std::exchange(ended->owner.item, nullptr);
      e.moving = nullptr;
      e.host.arrived(0);
      store_.evict(e);
      moving_.put_back(*ended);
    }
  }
  void offload(store::entry& e) override {
    ++offloads_;
    moving_.reserve();
    e.host.replace(std::move(*store_.pinned_tier().allocate(e.bytes, "copy")));
    auto& t = moving_.begin(e, copy_direction::device_to_host);
    t.job.to = e.host.address();
    t.job.from = e.device.address();
    e.advance(item_state::offloading);
    moving_.submit(t);
  }
  void give_up_device_bytes(store::entry& e) noexcept override {
    if (e.host.is_good()) {
      store_.evict(e);
    } else {
      store_.drop(e);
    }
  }

  config settings_ = make_settings();
  support::logger log_{log_level::off};
  std::unique_ptr<sim_device> device_ = make_device();
  stream stream_{*device_, stream_kind::compute, "compute"};
  store::tiered_store store_{*device_, {items * bytes, 64 * bytes, 64 * bytes}};
  decide::policy policy_{settings_};
  decide::need_order order_{store_};
  decide::step_clock clock_{*device_};
  decide::profile_recorder recorder_{clock_};
  observe::ledger ledger_{*device_, settings_, log_, store_, clock_};
  scratch blocks_;
  transfers moving_{*device_, {bytes, false}};
  decide::forecast forecast_{*device_, store_, moving_.link(), clock_, settings_};
  follow::plan_follower plan_;
  follow::adaptation adaptation_{
      {*device_, settings_, log_, store_, policy_, clock_, recorder_, moving_.link(), plan_}};
  room room_{{*device_, settings_, store_, policy_, order_, clock_, recorder_, forecast_, blocks_, moving_, plan_,
              adaptation_, ledger_},
             *this};
  int offloads_ = 0;
};

TEST_F(Room, WhileThereIsSomeNobodyGivesWay) {
  for (std::uint32_t s = 0; s < items; ++s) save(s, placement::recompute, true);
  for (auto const& e : store_.live()) EXPECT_EQ(e.state(), item_state::resident);
  EXPECT_FALSE(room_.is_being_made());
}

TEST_F(Room, WhatHasAHostCopyGoesFirstAndThatIsNeededLast) {
  for (std::uint32_t s = 0; s < items; ++s) save(s);
  auto& first = *store_.find({0, 0, "h"});
  auto& second = *store_.find({0, 1, "h"});
  give_host_copy(first);
  give_host_copy(second);
  make();
  EXPECT_EQ(first.state(), item_state::hosted) << "saved first, needed last";
  EXPECT_EQ(second.state(), item_state::resident);
  EXPECT_EQ(count(reason::evicted_for_space), 1U);
  EXPECT_EQ(offloads_, 0);
}

TEST_F(Room, ThenWhatIsToBeRebuiltAnyway) {
  save(0);
  save(1, placement::keep, true);
  auto& e = save(2, placement::recompute, true);
  save(3);
  make();
  EXPECT_EQ(e.state(), item_state::dropped);
  EXPECT_EQ(count(reason::dropped_for_space), 1U);
}

TEST_F(Room, AnItemInUseNeverDoes) {
  for (std::uint32_t s = 0; s < items; ++s) {
    auto& e = save(s);
    give_host_copy(e);
    e.leases = s == 2 ? 0 : 1;
  }
  make();
  EXPECT_EQ(store_.find({0, 2, "h"})->state(), item_state::hosted);
}

TEST_F(Room, ItemsThatAreFerriedGoOutOnceMore) {
  for (std::uint32_t s = 0; s < items; ++s) save(s, s == 1 ? placement::offload : placement::keep);
  make();
  EXPECT_EQ(offloads_, 1);
  EXPECT_EQ(store_.find({0, 1, "h"})->state(), item_state::hosted);
  EXPECT_GT(ledger_.totals().host_waited_us, 0) << "until the link had them";
}

TEST_F(Room, WhatAPolicyWouldRatherKeepGoesLast) {
  for (std::uint32_t s = 0; s < items; ++s) save(s, placement::keep, s == 3);
  make();
  EXPECT_EQ(store_.find({0, 3, "h"})->state(), item_state::dropped);
}

TEST_F(Room, SaysWhatToChangeWhereNobodyCan) {
  for (std::uint32_t s = 0; s < items; ++s) save(s).leases = 1;
  try {
    make();
    FAIL() << "there is no room";
  } catch (out_of_device_memory const& e) {
    EXPECT_NE(std::string(e.what()).find("raise FERRY_BUDGET"), std::string::npos) << e.what();
    EXPECT_EQ(e.needed_bytes(), bytes);
  }
  EXPECT_FALSE(room_.is_being_made());
  EXPECT_THROW(static_cast<void>(room_.make(items * bytes + 1, "block", stream_)), out_of_device_memory);
}

TEST_F(Room, AdoptedMemoryCountsToo) {
  for (std::uint32_t s = 0; s < items; ++s) save(s, placement::recompute, true);
  std::vector<std::byte> mine(bytes);
  auto adopted = room_.make_for({0, 0, "mine"}, {mine.data(), mine.size()}, stream_);
  EXPECT_EQ(adopted.address(), mine.data());
  EXPECT_EQ(store_.find({0, 0, "h"})->state(), item_state::dropped);
  store_.device_tier().free(std::move(adopted), {});
}

TEST_F(Room, AnUnsentItemIsDroppedWhenItsTransferHasBeenCalledOff) {
  auto& e = save(0, placement::offload, true);
  offload(e);
  room_.drop_unsent(e);
  EXPECT_TRUE(e.moving->cancel);
  EXPECT_EQ(e.course.where, placement::recompute);
  while (moving_.under_way() > 0) {
    progress();
    if (moving_.under_way() > 0) device_->time()->pass_time();
  }
}

}  // namespace
}  // namespace ferry::path
