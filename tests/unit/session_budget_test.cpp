// The budget of a running session: memory really goes back to the device and comes from it, never under anybody's feet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/gate.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SessionBudget : public SessionTest {
 protected:
  static constexpr std::size_t device_items = 64;

  static byte_amount items(std::size_t count) { return byte_amount::exactly(count * item_bytes); }

  /// So many items' bytes, and no more, could be taken from the device now.
  void expect_free(std::size_t count) {
    EXPECT_NO_THROW(memory(*device_, memory_space::device, count * item_bytes)) << count;
    EXPECT_THROW(memory(*device_, memory_space::device, (count + 1) * item_bytes), out_of_device_memory) << count;
  }
  void expect_budget(std::size_t count) {
    EXPECT_EQ(session_->stats().device.limit_bytes, count * item_bytes);
    EXPECT_EQ(session_->settings().budget, items(count));
    expect_free(device_items - count);
  }

  /// A step that keeps or moves so many items, and checks what comes back.
  void step(std::uint32_t segments) {
    session_->begin_step();
    for (std::uint32_t s = 0; s < segments; ++s) save_filled({0, s, "h"}, static_cast<std::byte>(s + 1)).end();
    for (std::uint32_t s = segments; s-- > 0;) restore_and_release({0, s, "h"}, static_cast<std::byte>(s + 1));
    session_->end_step();
  }
};

TEST_F(SessionBudget, ShrinkingGivesMemoryBackAndGrowingTakesIt) {
  start(policy_kind::offload, 32);
  expect_budget(32);
  step(8);
  session_->set_budget(items(4));
  expect_budget(4);
  step(8);
  session_->set_budget(items(20));
  expect_budget(20);
  session_->set_budget(items(60));  // the device has no room for both at once
  expect_budget(60);
  step(16);
  session_->set_budget(byte_amount::share(0.5));
  EXPECT_EQ(session_->stats().device.limit_bytes, 32 * item_bytes);
  EXPECT_EQ(session_->settings().budget, byte_amount::share(0.5));
  step(8);
}

TEST_F(SessionBudget, ABudgetIsHardFromItsStepOn) {
  start(policy_kind::keep, 8);
  step(8);
  session_->set_budget(items(7));
  EXPECT_THROW(step(8), out_of_device_memory);
  session_->end_step();
  session_->set_budget(items(8));
  step(8);
}

TEST_F(SessionBudget, InAStepItIsTheNextOnesBudget) {
  start(policy_kind::keep, 8);
  session_->begin_step();
  session_->set_budget(items(3));
  save_filled({0, 0, "h"}, std::byte{1}).end();
  expect_budget(8);
  session_->end_step();
  expect_budget(8);
  session_->begin_step();
  expect_budget(3);
  session_->end_step();
  session_->begin_step();
  session_->set_budget(items(9));
  session_->set_budget(items(5));  // the last word counts
  session_->end_step();
  step(5);
  expect_budget(5);
  session_->begin_step();
  session_->set_budget(items(9));
  session_->set_budget(items(5));  // nothing changes after all
  session_->end_step();
  step(1);
  expect_budget(5);
}

TEST_F(SessionBudget, WaitsWhileABlockHoldsMemory) {
  config settings;
  start(policy_kind::keep, 8, 64, settings);
  auto held = session_->allocate(item_bytes, *stream_);
  fill(held.data(), std::byte{7});
  session_->set_budget(items(4));
  expect_budget(8);
  step(2);
  expect_budget(8);
  expect(held.data(), std::byte{7});
  held = {};
  expect_budget(8);
  step(2);
  expect_budget(4);
}

TEST_F(SessionBudget, WaitsWhileALeaseHoldsMemory) {
  start(policy_kind::offload, 8);
  session_->begin_step();
  auto held = save_filled({0, 0, "held"}, std::byte{3});
  session_->end_step();
  session_->set_budget(items(16));
  expect_budget(8);
  step(2);
  expect_budget(8);
  expect(held.data(), std::byte{3});
  held.end();
  session_->set_budget(items(16));  // asked again, it need not wait for a step
  expect_budget(16);
}

TEST_F(SessionBudget, SaysOnceWhatItWaitsFor) {
  start(policy_kind::keep, 8);
  config loud = session_->settings();
  loud.log = log_level::warning;
  session_.emplace(*device_, loud);
  session_->begin_step();
  auto lease = save_filled({0, 5, "held"}, std::byte{3});
  ::testing::internal::CaptureStderr();
  session_->set_budget(items(4));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty()) << "in a step that is how it should be";
  ::testing::internal::CaptureStderr();
  session_->end_step();
  ::testing::internal::GetCapturedStderr();  // about the lease
  ::testing::internal::CaptureStderr();
  session_->begin_step();
  auto const said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the budget stays 512 KiB and becomes 256 KiB at the first begin_step"));
  EXPECT_THAT(said, HasSubstr("held (segment 5, micro-batch 0) is leased"));
  session_->end_step();
  lease.end();
  auto const block = session_->allocate(item_bytes, *stream_);
  ::testing::internal::CaptureStderr();
  session_->begin_step();
  session_->end_step();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty()) << "once is enough";
  ::testing::internal::CaptureStderr();
  session_->set_budget(items(3));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("blocks that were not saved hold 64.0 KiB"));
}

TEST_F(SessionBudget, WhatTheDeviceCannotGiveLeavesTheOldOne) {
  start(policy_kind::offload, 16);
  step(4);
  {
    memory const others(*device_, memory_space::device, 40 * item_bytes);
    expect_error<out_of_device_memory>([&] { session_->set_budget(items(32)); }, "the budget cannot become 2.00 MiB",
                                       "stays 1.00 MiB", "out of device memory");
    EXPECT_EQ(session_->settings().budget, items(16));
    step(20);
    session_->begin_step();
    session_->set_budget(items(32));
    session_->end_step();
    EXPECT_THROW(session_->begin_step(), out_of_device_memory);
    step(20);  // asked for once, refused once
    session_->set_budget(items(12));
    step(20);
  }
  expect_budget(12);
  session_->set_budget(items(32));
  expect_budget(32);
}

TEST_F(SessionBudget, RefusesWhatMakesNoSense) {
  start(policy_kind::keep, 8);
  expect_error<invalid_argument>([&] { session_->set_budget({}); }, "set the budget above zero");
  expect_error<out_of_device_memory>([&] { session_->set_budget(items(device_items + 1)); },
                                     "the budget asks for 4.06 MiB, but the device has 4.00 MiB");
  step(8);
  expect_budget(8);
}

TEST_F(SessionBudget, SharesOfItFollow) {
  config settings;
  settings.max_in_flight = byte_amount::share(0.25);
  start(policy_kind::offload, 16, 64, settings);
  EXPECT_EQ(session_->stats().in_flight.limit_bytes, 4 * item_bytes);
  session_->set_budget(items(8));
  EXPECT_EQ(session_->stats().in_flight.limit_bytes, 2 * item_bytes);
  step(12);
  EXPECT_EQ(session_->stats().restores, 12U);
}

TEST_F(SessionBudget, WaitsForWorkThatUsesMemoryGivenBack) {
  start(policy_kind::keep, 8);
  gate open;
  session_->begin_step();
  {
    auto const freed = session_->allocate(item_bytes, *stream_);
    std::array const accesses{writes(freed.data(), item_bytes)};
    device_->launch(*stream_, "late", accesses, [&open, to = freed.as<std::byte>()] {
      open.wait();
      std::fill_n(to, item_bytes, std::byte{9});
    });
  }
  session_->end_step();
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    open.open();
  });
  session_->set_budget(items(2));  // the checker would report memory that goes while it is written
  expect_budget(2);
  opener.join();
}

TEST_F(SessionBudget, AFailureIsStillTheTrainersToHear) {
  start(policy_kind::keep, 8);
  session_->begin_step();
  {
    auto const freed = session_->allocate(item_bytes, *stream_);
    std::array const accesses{writes(freed.data(), item_bytes)};
    device_->launch(*stream_, "broken", accesses, [] { throw std::runtime_error("broken"); });
  }
  session_->end_step();
  session_->set_budget(items(2));
  expect_budget(2);
  expect_error<stream_error>([&] { stream_->synchronize(); }, "broken");
}

TEST_F(SessionBudget, MayChangeAtEveryStep) {
  start(policy_kind::offload, 16);
  for (std::size_t i = 0; i < 40; ++i) {
    session_->set_budget(items(3 + i * 7 % 50));
    step(10);
  }
  EXPECT_EQ(session_->stats().restores, 400U);
}

TEST_F(SessionBudget, SelectiveKeepsWhatFitsTheNewOne) {
  start(policy_kind::selective, 16);
  auto const run = [&] {
    auto const before = session_->stats().recomputes;
    session_->begin_step();
    for (std::uint32_t s = 0; s < 8; ++s) {
      save_filled({0, s, "h"}, static_cast<std::byte>(s + 1), adding(static_cast<std::byte>(s + 1), {})).end();
    }
    for (std::uint32_t s = 8; s-- > 0;) restore_and_release({0, s, "h"}, static_cast<std::byte>(s + 1));
    session_->end_step();
    return session_->stats().recomputes - before;
  };
  EXPECT_EQ(run(), 8U) << "measured";
  EXPECT_EQ(run(), 0U) << "everything fits";
  session_->set_budget(items(4));
  auto const dropped = run();
  EXPECT_GE(dropped, 4U);
  EXPECT_EQ(run(), dropped);
  session_->set_budget(items(16));
  EXPECT_EQ(run(), 0U);
}

/// On a device with more addresses than bytes, and a clock that only waiting moves.
TEST(SimSessionBudget, ResizesForReal) {
  constexpr std::size_t bytes = 64 << 10;
  auto const sim = make_test_sim({.device_bytes = 64 * bytes,
                                  .pinned_bytes = 64 * bytes,
                                  .device_to_host = {.gbps = 20, .latency_us = 5},
                                  .host_to_device = {.gbps = 20, .latency_us = 5}});
  stream const compute(*sim, stream_kind::compute, "compute");
  config settings;
  settings.policy.kind = policy_kind::offload;
  settings.budget = byte_amount::exactly(16 * bytes);
  settings.log = log_level::off;
  session s(*sim, settings);
  for (std::size_t const budget : {16U, 4U, 60U, 3U, 40U}) {
    s.set_budget(byte_amount::exactly(budget * bytes));
    EXPECT_NO_THROW(memory(*sim, memory_space::device, (64 - budget) * bytes));
    EXPECT_THROW(memory(*sim, memory_space::device, (65 - budget) * bytes), out_of_device_memory);
    s.begin_step();
    for (std::uint32_t i = 0; i < 12; ++i) {
      auto memory = s.allocate(bytes, compute);
      sim->launch(compute, "forward", {}, [] {});
      s.save({0, i, "h"}, std::move(memory), compute).end();
    }
    for (std::uint32_t i = 12; i-- > 0;) {
      auto const back = s.restore({0, i, "h"}, compute);
      sim->launch(compute, long_kernel, {}, [] {});
    }
    s.end_step();  // kernels are still to run when the next budget comes
  }
  EXPECT_EQ(s.stats().restores, 60U);
}

}  // namespace
}  // namespace ferry::testing
