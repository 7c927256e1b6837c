// The transfer engine: chunks, overtaking, abandoning, gates, failures and checksums. Copies are held by a
// gate on their stream, so orders are arranged rather than timed.
#include "path/transfer_engine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <mutex>
#include <thread>

#include "support/gate.hpp"
#include "support/test_devices.hpp"

namespace ferry::path {
namespace {

using testing::gate;

class TransferEngine : public ::testing::Test {
 protected:
  static constexpr auto out = copy_direction::device_to_host;
  static constexpr auto in = copy_direction::host_to_device;
  static constexpr std::size_t chunk = 4096;
  static constexpr std::size_t chunks = 64;
  static constexpr std::size_t bytes = chunks * chunk;

  void start(bool checksum = false) {
    device_ = testing::make_checked_host(
        {.device_bytes = 2 << 20, .pinned_bytes = 2 << 20, .before_operation = [this](label const& name) {
           {
             std::lock_guard const lock(mutex_);
             order_.push_back(name.str());
           }
           if (before_) before_(name);
         }});
    engine_.emplace(*device_, engine_options{chunk, checksum});
    engine_->set_alert(true);
    for (auto* m : {&device_memory_, &pinned_memory_}) {
      auto const space = m == &device_memory_ ? memory_space::device : memory_space::pinned;
      *m = memory(*device_, space, 4 * bytes);
      std::memset(m->data(), m == &device_memory_ ? 1 : 2, 4 * bytes);
    }
  }
  void TearDown() override {
    hold_.open();
    engine_.reset();
    device_memory_ = {};
    pinned_memory_ = {};
    EXPECT_TRUE(testing::order_violations(*device_).empty()) << testing::order_violations(*device_).front();
  }

  transfer& make(std::size_t place, copy_direction direction, label const& name) {
    auto& t = *transfers_.emplace_back(std::make_unique<transfer>(*device_));
    auto* const on_device = device_memory_.as<std::byte>() + place * bytes;
    auto* const pinned = pinned_memory_.as<std::byte>() + place * bytes;
    t.job.direction = direction;
    t.job.to = direction == out ? pinned : on_device;
    t.job.from = direction == out ? on_device : pinned;
    t.job.bytes = bytes;
    t.job.name = name;
    t.job.priority = transfers_.size();
    return t;
  }
  transfer& wait_for_end() {
    for (;;) {
      if (auto* const ended = engine_->next_ended()) return *ended;
      std::this_thread::yield();
    }
  }
  void wait_for_start() {
    for (std::unique_lock lock(mutex_); order_.empty(); lock.lock()) {
      lock.unlock();
      std::this_thread::yield();
    }
  }

  gate hold_;
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::function<void(label const&)> before_;
  std::unique_ptr<host_device> device_;
  memory device_memory_;
  memory pinned_memory_;
  std::vector<std::unique_ptr<transfer>> transfers_;
  std::optional<transfer_engine> engine_;
};

TEST_F(TransferEngine, CopiesInChunks) {
  start();
  auto& t = make(0, out, "a");
  engine_->submit(t);
  EXPECT_EQ(&wait_for_end(), &t);
  EXPECT_EQ(t.phase, transfer_phase::completed);
  EXPECT_EQ(std::memcmp(device_memory_.data(), pinned_memory_.data(), bytes), 0);
  EXPECT_EQ(engine_->counters(out).chunks, chunks);
  EXPECT_EQ(engine_->counters(out).bytes, bytes);
  EXPECT_GT(engine_->counters(out).bytes_per_us, 0);
}

TEST_F(TransferEngine, AnUrgentTransferOvertakes) {
  before_ = [this](label const&) { hold_.wait(); };
  start();
  auto& slow = make(0, in, "slow");
  auto& urgent = make(1, in, "urgent");
  engine_->submit(slow);
  wait_for_start();
  urgent.urgent = true;
  engine_->submit(urgent);
  hold_.open();
  EXPECT_EQ(&wait_for_end(), &urgent);
  EXPECT_EQ(&wait_for_end(), &slow);
}

TEST_F(TransferEngine, IsAbandonedBetweenChunks) {
  before_ = [this](label const&) { hold_.wait(); };
  start();
  auto& t = make(0, out, "a");
  engine_->submit(t);
  wait_for_start();
  t.cancel = true;
  while (t.phase == transfer_phase::queued) std::this_thread::yield();
  EXPECT_EQ(t.phase, transfer_phase::stopped);
  hold_.open();
  EXPECT_EQ(&wait_for_end(), &t);
  EXPECT_EQ(t.phase, transfer_phase::abandoned);
  EXPECT_EQ(order_.size(), transfer_engine::first_chunks_ahead);
  EXPECT_EQ(engine_->counters(out).abandoned, 1);
}

TEST_F(TransferEngine, NothingIsIssuedBeforeItsGate) {
  start();
  stream compute(*device_, stream_kind::compute, "compute");
  store::event_pool events(*device_);
  auto* const target = device_memory_.as<std::byte>();
  std::array const accesses{writes(target, bytes)};
  device_->launch(compute, "produce", accesses, [=, this] {
    hold_.wait();
    std::memset(target, 7, bytes);
  });
  auto& gated = make(0, out, "gated");
  gated.job.gates.push_back(events.record(compute));
  auto& open = make(1, out, "open");
  engine_->submit(gated);
  engine_->submit(open);
  EXPECT_EQ(&wait_for_end(), &open) << "a closed gate holds nobody else up";
  hold_.open();
  EXPECT_EQ(&wait_for_end(), &gated);
  EXPECT_EQ(pinned_memory_.as<std::byte>()[bytes - 1], std::byte{7});
  gated.job.gates.clear();
}

TEST_F(TransferEngine, AFailedProducerFailsTheOffload) {
  start();
  stream compute(*device_, stream_kind::compute, "compute");
  store::event_pool events(*device_);
  device_->launch(compute, "produce", {}, [] { throw std::runtime_error("broken"); });
  auto& t = make(0, out, "a");
  t.job.gates.push_back(events.record(compute));
  engine_->submit(t);
  EXPECT_EQ(&wait_for_end(), &t);
  EXPECT_EQ(t.phase, transfer_phase::failed);
  EXPECT_THROW(compute.synchronize(), stream_error);
  t.job.gates.clear();
}

TEST_F(TransferEngine, AFailedCopyNamesItsCauseAndTheLaneRecovers) {
  std::atomic<bool> fail{true};
  before_ = [&](label const& name) {
    if (name.view() == "a" && fail.exchange(false)) throw std::runtime_error("link down");
  };
  start();
  auto& a = make(0, in, "a");
  engine_->submit(a);
  EXPECT_EQ(&wait_for_end(), &a);
  EXPECT_EQ(a.phase, transfer_phase::failed);
  EXPECT_NE(a.result.failure.find("link down"), std::string::npos) << a.result.failure;
  auto& b = make(1, in, "b");
  engine_->submit(b);
  EXPECT_EQ(&wait_for_end(), &b);
  EXPECT_EQ(b.phase, transfer_phase::completed);
}

TEST_F(TransferEngine, ADamagedHostCopyIsNoticed) {
  start(true);
  auto& away = make(0, out, "a");
  engine_->submit(away);
  EXPECT_EQ(wait_for_end().phase, transfer_phase::completed);
  pinned_memory_.as<std::byte>()[bytes / 2] ^= std::byte{1};
  auto& back = make(0, in, "a");
  back.job.expected_checksum = away.result.checksum;
  engine_->submit(back);
  EXPECT_EQ(&wait_for_end(), &back);
  EXPECT_EQ(back.phase, transfer_phase::failed);
  EXPECT_NE(back.result.failure.find("checksum"), std::string::npos);
}

TEST_F(TransferEngine, EndsWithWorkUnderWay) {
  start();
  for (std::size_t i = 0; i < 3; ++i) engine_->submit(make(i, i % 2 == 0 ? out : in, "a"));
}

}  // namespace
}  // namespace ferry::path
