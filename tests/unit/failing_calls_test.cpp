// Calls to the device that fail, one at a time: whoever calls Ferry again gets every byte, nothing is given back twice
// or never, and a failure on a stream is told to whoever enqueued the work, not swallowed on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "explore/explored_device.hpp"
#include "ferry/ferry.hpp"

namespace ferry::testing {
namespace {

constexpr std::size_t item_bytes = std::size_t{64} << 10;

item_key key(std::uint32_t segment) { return {0, segment, "h"}; }

/// A session on a device whose calls fail when they are told to, and otherwise behave.
class FailingCalls : public ::testing::Test {
 protected:
  void start(std::size_t budget_items, policy_kind policy = policy_kind::offload) {
    auto simulated = make_sim_device({.device_bytes = std::size_t{64} << 20,
                                      .pinned_bytes = std::size_t{64} << 20,
                                      .device_to_host = {.gbps = 1, .latency_us = 1},
                                      .host_to_device = {.gbps = 1, .latency_us = 1},
                                      .kernel_cost = [](label const&, auto) { return std::chrono::microseconds(5); },
                                      .backed = true,
                                      .before_operation = [this](label const&) { before_operation(); }});
    sim_device& clock = *simulated;
    exploration how;
    how.on = true;
    device_ = std::make_unique<explored_device>(std::move(simulated), clock, how, 1);
    one_.emplace(*device_, stream_kind::compute, "one");
    two_.emplace(*device_, stream_kind::compute, "two");
    config settings;
    settings.policy.kind = policy;
    settings.budget = byte_amount::exactly(budget_items * item_bytes);
    settings.host_budget = byte_amount::exactly(32 * item_bytes);
    settings.chunk_bytes = item_bytes;
    settings.min_bytes = 0;
    settings.run_ahead = 32;
    settings.log = log_level::off;
    session_.emplace(*device_, settings);
    session_->begin_step();
  }
  void TearDown() override {
    session_.reset();
    one_.reset();
    two_.reset();
    EXPECT_TRUE(device_->order_violations().empty());
  }
  void before_operation() const {
    if (device_ != nullptr && device_->is_lost()) throw std::runtime_error("the device is lost");
  }

  void write(stream_ref on, void* address, std::byte value) {
    std::array const accesses{writes(address, item_bytes)};
    device_->launch(on, "write", accesses,
                    [at = static_cast<std::byte*>(address), value] { std::fill_n(at, item_bytes, value); });
  }
  void save(std::uint32_t segment, recipe how = {}) {
    auto memory = session_->allocate(item_bytes, *one_);
    write(*one_, memory.data(), static_cast<std::byte>(segment + 1));
    session_->save(key(segment), std::move(memory), *one_, std::move(how)).end();
  }
  /// True if the work ran and the bytes are right.
  bool reads_right(lease const& held, std::uint32_t segment, stream_ref on) {
    bool right = false;
    std::array const accesses{reads(held.data(), item_bytes)};
    device_->launch(on, "read", accesses, [&right, at = held.as<std::byte>(), segment] {
      right = std::all_of(at, at + item_bytes, [=](std::byte b) { return b == static_cast<std::byte>(segment + 1); });
    });
    device_->synchronize(on);
    return right;
  }
  void settle() {
    one_->synchronize();
    session_->synchronize();
  }

  std::unique_ptr<explored_device> device_;
  std::optional<stream> one_;
  std::optional<stream> two_;
  std::optional<session> session_;
};

TEST_F(FailingCalls, AMarkThatCannotBeRecordedSwallowsNoFailure) {
  start(8);
  save(0);
  auto held = session_->restore(key(0), *one_);
  device_->launch(*one_, "bad", {}, [] { throw std::runtime_error("broken"); });
  // The lease's end, or the block's, marks the stream's use of the bytes. That cannot be done, so the stream is waited
  // for; but it is the trainer who has to hear what failed on it.
  auto scratch = session_->allocate(item_bytes, *one_);
  device_->fail("record");
  scratch = {};
  held.end();
  device_->fail("record");
  session_->release(key(0));
  bool ran = false;
  device_->launch(*one_, "built on it", {}, [&ran] { ran = true; });
  EXPECT_THROW(one_->synchronize(), stream_error);
  EXPECT_FALSE(ran);
  session_->end_step();
}

TEST_F(FailingCalls, ASessionThatEndsLeavesFailuresToTheirStreams) {
  start(8);
  auto scratch = session_->allocate(item_bytes, *one_);
  device_->launch(*one_, "bad", {}, [] { throw std::runtime_error("broken"); });
  scratch = {};
  session_.reset();
  bool ran = false;
  device_->launch(*one_, "built on it", {}, [&ran] { ran = true; });
  EXPECT_THROW(one_->synchronize(), stream_error);
  EXPECT_FALSE(ran);
}

TEST_F(FailingCalls, AReleaseIsDoneOrNotButNeverDoneAndRefused) {
  start(8);
  for (std::uint32_t s = 0; s < 6; ++s) {
    save(s);
    settle();  // one transfer at a time
  }
  {
    auto const others = session_->allocate(7 * item_bytes, *one_);
    session_->restore(key(5), *one_).end();
  }
  // There is room again, and others are sent for in the same call, which needs more transfers than there are.
  device_->fail("create_event");
  EXPECT_NO_THROW(session_->release(key(5)));
  EXPECT_FALSE(session_->state(key(5)).has_value());
  for (std::uint32_t s = 5; s-- > 0;) {
    auto const held = session_->restore(key(s), *one_);
    EXPECT_TRUE(reads_right(held, s, *one_)) << s;
    session_->release(key(s));
  }
  session_->end_step();
}

TEST_F(FailingCalls, BytesThatWereFoundAreNotForgottenBecauseTheWaitCouldNotBeTimed) {
  start(4);
  for (int nth = 1; nth < 40; ++nth) {
    for (std::uint32_t s = 0; s < 4; ++s) save(s);
    bool told = false;
    auto const adopted = device_->allocate(memory_space::device, item_bytes);
    device_->fail("record", nth % 8 + 1);
    try {
      session_->save(key(9), device_view{adopted, item_bytes}, *one_, [&told](event_ref) { told = true; }).end();
    } catch (call_failed const&) {
      told = true;  // not saved
    }
    session_->end_step();
    settle();
    session_->synchronize();
    EXPECT_TRUE(told) << nth;
    EXPECT_EQ(session_->stats().adopted_bytes, 0U) << nth;
    EXPECT_EQ(session_->stats().device.now_bytes, 0U) << nth;
    device_->deallocate(memory_space::device, adopted);
    session_->begin_step();
  }
  session_->end_step();
}

TEST_F(FailingCalls, ALinkThatIsBrokenForGoodIsNotTriedForEver) {
  start(8);
  for (std::uint32_t s = 0; s < 6; ++s) save(s);
  settle();
  for (std::uint32_t s = 0; s < 6; ++s) EXPECT_EQ(session_->state(key(s)), item_state::hosted);
  for (int nth = 1; nth < 1000; ++nth) device_->fail("copy", nth);
  // All that are sent for ahead fail, each once; who needs one tries twice, and hears.
  EXPECT_THROW(static_cast<void>(session_->restore(key(5), *one_)), transfer_error);
  for (int i = 0; i < 20; ++i) session_->idle_hint(0);  // each sees to what could be sent for
  EXPECT_LE(session_->stats().host_to_device.failed, 7U);
  session_->end_step();
}

TEST_F(FailingCalls, ALostDeviceEndsInErrorsAndInGivingEverythingBack) {
  start(4);
  for (std::uint32_t s = 0; s < 6; ++s) save(s);
  auto held = session_->restore(key(5), *one_);
  auto scratch = session_->allocate(item_bytes, *two_);
  device_->lose();
  EXPECT_THROW(static_cast<void>(session_->restore(key(0), *one_)), error);
  EXPECT_THROW(save(7), error);
  held.end();
  scratch = {};
  session_.reset();
  one_.reset();
  two_.reset();
}

}  // namespace
}  // namespace ferry::testing
