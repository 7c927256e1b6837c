// The records of transfers, without a session: an item's bytes go out and come back on the sim device.
#include "path/transfers.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "ferry/sim_device.hpp"

namespace ferry::path {
namespace {

class Transfers : public ::testing::Test {
 protected:
  static constexpr auto out = copy_direction::device_to_host;
  static constexpr auto in = copy_direction::host_to_device;
  static constexpr std::size_t bytes = std::size_t{1} << 20;

  static std::unique_ptr<sim_device> make_device() {
    sim_device_options options;
    options.device_bytes = options.pinned_bytes = 16 * bytes;
    options.device_to_host = options.host_to_device = {.gbps = 1, .latency_us = 10};
    return make_sim_device(options);
  }
  transfer& begin(store::entry& e, copy_direction direction) {
    moving_.reserve();
    e.bytes = bytes;
    auto& t = moving_.begin(e, direction);
    t.job.to = direction == out ? pinned_.data() : device_memory_.data();
    t.job.from = direction == out ? device_memory_.data() : pinned_.data();
    return t;
  }
  transfer& wait_for_end() {
    for (;;) {
      if (auto* const ended = moving_.next_ended()) return *ended;
      device_->time()->pass_time();
    }
  }

  std::unique_ptr<sim_device> device_ = make_device();
  memory device_memory_{*device_, memory_space::device, bytes};
  memory pinned_{*device_, memory_space::pinned, bytes};
  transfers moving_{*device_, {bytes / 4, false}};
  store::entry a_{{0, 0, "a"}};
  store::entry b_{{0, 1, "b"}};
};

TEST_F(Transfers, ARecordKnowsItsItem) {
  a_.saved_in_step = 7;
  a_.record.log_line = 3;
  auto& t = begin(a_, out);
  EXPECT_EQ(t.owner.item, &a_);
  EXPECT_EQ(a_.moving, &t);
  EXPECT_EQ(t.owner.key, a_.key);
  EXPECT_EQ(t.owner.saved_in_step, 7U);
  EXPECT_EQ(t.owner.log_line, 3U);
  EXPECT_EQ(moving_.under_way(), 1U);
  moving_.submit(t);
  EXPECT_EQ(&wait_for_end(), &t);
}

TEST_F(Transfers, AnEndGivesBackGatesAndBudgetAndTheRecordWhenItIsPutBack) {
  store::budget in_flight(*device_, 4 * bytes);
  auto& t = begin(a_, out);
  t.in_flight = *in_flight.reserve(bytes);
  moving_.submit(t);
  auto& ended = wait_for_end();
  EXPECT_EQ(moving_.under_way(), 0U);
  EXPECT_FALSE(ended.submitted);
  EXPECT_EQ(in_flight.used_bytes(), 0U);
  EXPECT_EQ(ended.phase, transfer_phase::completed);
  moving_.reserve();
  EXPECT_EQ(moving_.records().size(), 2U) << "the first one is still being looked at";
  moving_.put_back(ended);
  moving_.reserve();
  EXPECT_EQ(moving_.records().size(), 2U);
}

TEST_F(Transfers, CountsWhatIsComing) {
  EXPECT_EQ(moving_.coming_bytes(), 0U);
  auto& fetch = begin(a_, in);
  EXPECT_EQ(moving_.coming_bytes(), bytes);
  auto& offload = begin(b_, out);
  EXPECT_EQ(moving_.coming_bytes(), bytes) << "what goes out does not come";
  fetch.cancel = true;
  EXPECT_EQ(moving_.coming_bytes(), 0U);
  moving_.submit(fetch);
  moving_.submit(offload);
  moving_.put_back(wait_for_end());
  moving_.put_back(wait_for_end());
}

TEST_F(Transfers, WhoeverWaitsForBytesInFlightGoesInTurn) {
  a_.bytes = 100;
  b_.bytes = 10;
  moving_.defer(a_);
  moving_.defer(b_);
  EXPECT_TRUE(moving_.any_deferred());
  EXPECT_EQ(moving_.next_deferred(50), nullptr) << "nobody overtakes";
  EXPECT_EQ(moving_.next_deferred(100), &a_);
  EXPECT_EQ(moving_.next_deferred(100), &b_);
  EXPECT_EQ(moving_.next_deferred(100), nullptr);
  moving_.defer(a_);
  moving_.forget_deferred();
  EXPECT_FALSE(a_.awaiting_offload.is_linked());
}

}  // namespace
}  // namespace ferry::path
