// Device bytes that are reused while work of before still uses them, where addresses say nothing about whose bytes are
// behind them. Without a session, on a virtual clock.
#include "store/device_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ferry/sim_device.hpp"
#include "support/sim_of.hpp"

namespace ferry::store {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t unit = 4096;

class DevicePool : public ::testing::Test {
 protected:
  device_region allocate(std::size_t units, stream_ref user = {}) {
    auto region = pool_.allocate(units * unit, "bytes", user);
    EXPECT_TRUE(region) << units << " units";
    return std::move(*region);
  }
  /// So many bytes are given back that the stream still uses.
  void leave_in_use(std::size_t units, stream_ref user) {
    auto region = allocate(units, user);
    pool_.order_after_uses(region, user);
    device_->launch(user, "kernel", {}, [] {});
    std::array const marks{events_.record(user)};
    pool_.free(std::move(region), marks);
  }
  /// What a transfer into the region would have to wait for.
  std::size_t waits_of(device_region const& region) {
    std::vector<event_handle> marks;
    pool_.pending_uses(region, marks);
    return marks.size();
  }

  std::unique_ptr<sim_device> device_ = testing::make_sim_of(std::size_t{1} << 20, 100us);
  stream compute_{*device_, stream_kind::compute, "compute"};
  stream other_{*device_, stream_kind::compute, "other"};
  event_pool events_{*device_};
  device_pool pool_{*device_, 4 * unit};
};

TEST_F(DevicePool, ATransferTakesIdleBytes) {
  leave_in_use(2, compute_);
  auto const fetched = allocate(2);
  EXPECT_EQ(waits_of(fetched), 0U);
}

TEST_F(DevicePool, ATransferWaitsForWhatItNeedsBeyondThose) {
  leave_in_use(1, compute_);
  leave_in_use(1, other_);
  auto const fetched = allocate(3);
  EXPECT_EQ(waits_of(fetched), 1U) << "for those given back first";
  auto const another = allocate(1);
  EXPECT_EQ(waits_of(another), 2U);
}

TEST_F(DevicePool, AStreamTakesWhatItLeavesItselfAndIdleBytesStayForTransfers) {
  leave_in_use(2, compute_);
  auto const next = allocate(2, compute_);
  auto const fetched = allocate(2);
  EXPECT_EQ(waits_of(fetched), 0U);
  EXPECT_EQ(waits_of(next), 1U) << "if a transfer were to use them after all";
}

TEST_F(DevicePool, AnotherStreamTakesIdleBytesToo) {
  leave_in_use(2, compute_);
  auto const elsewhere = allocate(2, other_);
  EXPECT_EQ(waits_of(elsewhere), 0U);
  auto const last = allocate(2, other_);
  EXPECT_EQ(waits_of(last), 1U);
}

TEST_F(DevicePool, BytesThatNobodyTouchedAreStillTheOthers) {
  leave_in_use(3, compute_);
  auto next = allocate(3, compute_);
  pool_.free(std::move(next), {});
  auto const first = allocate(1);
  EXPECT_EQ(waits_of(first), 0U);
  auto const second = allocate(1);
  EXPECT_EQ(waits_of(second), 1U) << "they are in use as before";
}

TEST_F(DevicePool, WhatWasUsedIsIdleWhenItIsOver) {
  leave_in_use(4, compute_);
  compute_.synchronize();
  auto const fetched = allocate(4);
  EXPECT_EQ(waits_of(fetched), 0U);
}

/// When each region was in use: from its first operation to its last one.
class uses_in_time {
 public:
  void add(sim_operation const& ran) {
    auto const [at, first] = spans_.try_emplace(std::string(ran.name.view()), ran.start, ran.end);
    if (!first) at->second.second = std::max(at->second.second, ran.end);
  }
  void is_of(std::string const& name, std::size_t bytes) { bytes_[name] = bytes; }
  [[nodiscard]] std::size_t most_at_once() const {
    std::vector<std::pair<std::chrono::nanoseconds, std::ptrdiff_t>> changes;
    for (auto const& [name, span] : spans_) {
      changes.emplace_back(span.first, bytes_.at(name));
      changes.emplace_back(span.second, -static_cast<std::ptrdiff_t>(bytes_.at(name)));
    }
    std::ranges::sort(changes);  // at the same time what ends comes first
    std::ptrdiff_t now = 0;
    std::ptrdiff_t most = 0;
    for (auto const& [when, change] : changes) most = std::max(most, now += change);
    return static_cast<std::size_t>(most);
  }

 private:
  std::map<std::string, std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds>> spans_;
  std::map<std::string, std::size_t> bytes_;
};

/// Streams and transfers take bytes, use them, or do not, and give them back while their work is queued.
std::size_t most_in_use(std::uint32_t seed, std::size_t limit) {
  std::mt19937 random(seed);
  auto const below = [&](std::size_t n) { return random() % n; };
  uses_in_time uses;
  sim_device_options options;
  options.device_bytes = options.pinned_bytes = std::size_t{1} << 20;
  options.kernel_cost = [&](label const&, auto) { return 10us * (1 + below(20)); };
  options.observe = [&](sim_operation const& ran) { uses.add(ran); };
  auto const device = make_sim_device(options);
  std::array const streams{stream(*device, stream_kind::compute, "a"), stream(*device, stream_kind::compute, "b"),
                           stream(*device, stream_kind::copy, "link")};
  event_pool events(*device);
  device_pool pool(*device, limit);
  struct held_region {
    device_region region;
    std::vector<event_handle> marks;
  };
  std::vector<held_region> held;
  auto const free_one = [&] {
    std::swap(held[below(held.size())], held.back());
    pool.free(std::move(held.back().region), held.back().marks);
    held.pop_back();
  };
  for (int step = 0; step < 300; ++step) {
    std::size_t const which = below(streams.size());
    bool const by_link = which == 2;
    auto region = pool.allocate((1 + below(6)) * 256, "bytes", by_link ? stream_ref() : stream_ref(streams[which]));
    if (!region) {
      free_one();
      continue;
    }
    auto const name = "r" + std::to_string(step);
    uses.is_of(name, region->piece.counted_bytes());
    std::vector<event_handle> marks;
    if (by_link) {
      pool.pending_uses(*region, marks);
      for (auto const& mark : marks) device->wait(streams[which], mark.ref());
      marks.clear();
    } else {
      pool.order_after_uses(*region, streams[which]);
    }
    if (below(5) > 0) {
      device->launch(streams[which], label(name), {}, [] {});
      marks.push_back(events.record(streams[which]));
    }
    held.push_back({std::move(*region), std::move(marks)});
    if (below(3) == 0) free_one();
    if (below(40) == 0) device->time()->pass_time(50us);
  }
  while (!held.empty()) free_one();
  pool.wait_for_uses();
  return uses.most_at_once();
}

TEST(DevicePoolInTime, WhatIsReallyInUseNeverExceedsTheBudget) {
  constexpr std::size_t limit = std::size_t{20} * 256;
  std::size_t most = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::size_t const in_use = most_in_use(seed, limit);
    ASSERT_LE(in_use, limit) << "seed " << seed;
    most = std::max(most, in_use);
  }
  EXPECT_GT(most, limit / 2);
}

}  // namespace
}  // namespace ferry::store
