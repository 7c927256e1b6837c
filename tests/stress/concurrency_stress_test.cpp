// Many threads at once, for the sanitizers: sessions side by side on one device, items that cross between
// streams, and ends in the middle of everything.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/test_devices.hpp"

namespace ferry::testing {
namespace {

constexpr std::size_t item_bytes = 32 << 10;

config tight_settings() {
  config settings;
  settings.budget = byte_amount::exactly(6 * item_bytes);
  settings.host_budget = byte_amount::exactly(40 * item_bytes);
  settings.chunk_bytes = 4 << 10;
  settings.min_bytes = 0;
  settings.log = log_level::off;
  return settings;
}

void fill(device& on, stream_ref stream, void* address, std::uint32_t value) {
  std::array const accesses{writes(address, item_bytes)};
  on.launch(stream, "fill", accesses,
            [=] { std::fill_n(static_cast<std::uint32_t*>(address), item_bytes / sizeof(value), value); });
}

void check(device& on, stream_ref stream, void const* address, std::uint32_t value, std::atomic<int>& wrong) {
  std::array const accesses{reads(address, item_bytes)};
  on.launch(stream, "check", accesses, [=, &wrong] {
    auto const* const words = static_cast<std::uint32_t const*>(address);
    for (std::size_t i = 0; i < item_bytes / sizeof(value); ++i) wrong += words[i] != value;
  });
}

/// Steps of a chain that is written on one stream and read on another.
void train(device& on, std::uint32_t seed, int steps, std::atomic<int>& wrong) {
  session trainer(on, tight_settings());
  stream const forward(on, stream_kind::compute, "forward");
  stream const backward(on, stream_kind::compute, "backward");
  constexpr std::uint32_t segments = 24;
  for (int step = 0; step < steps; ++step) {
    trainer.begin_step();
    for (std::uint32_t s = 0; s < segments; ++s) {
      auto memory = trainer.allocate(item_bytes, forward);
      fill(on, forward, memory.data(), seed + s);
      trainer.save({0, s, "h"}, std::move(memory), forward);
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      check(on, backward, trainer.restore({0, s, "h"}, backward).data(), seed + s, wrong);
      trainer.release({0, s, "h"});
    }
    trainer.end_step();
  }
  forward.synchronize();
  backward.synchronize();
}

TEST(Stress, SessionsSideBySideOnOneDevice) {
  auto const device = make_checked_host({.device_bytes = 4 << 20, .pinned_bytes = 16 << 20});
  std::atomic<int> wrong{0};
  std::vector<std::thread> trainers;
  for (std::uint32_t t = 0; t < 3; ++t) {
    trainers.emplace_back([&, t] { train(*device, 1000 * (t + 1), 10, wrong); });
  }
  for (auto& trainer : trainers) trainer.join();
  EXPECT_EQ(wrong, 0);
  auto const violations = order_violations(*device);
  EXPECT_TRUE(violations.empty()) << violations.front();
}

TEST(Stress, SessionsEndWithEverythingUnderWay) {
  auto const device = make_checked_host({.device_bytes = 4 << 20, .pinned_bytes = 16 << 20});
  stream const compute(*device, stream_kind::compute, "compute");
  std::atomic<int> wrong{0};
  for (std::uint32_t round = 0; round < 25; ++round) {
    session trainer(*device, tight_settings());
    trainer.begin_step();
    for (std::uint32_t s = 0; s < 5 + round % 20; ++s) {
      auto memory = trainer.allocate(item_bytes, compute);
      fill(*device, compute, memory.data(), s);
      trainer.save({0, s, "h"}, std::move(memory), compute);
    }
    for (std::uint32_t s = 4; s-- > 1;) {
      check(*device, compute, trainer.restore({0, s, "h"}, compute).data(), s, wrong);
    }
  }
  compute.synchronize();
  EXPECT_EQ(wrong, 0);
  auto const violations = order_violations(*device);
  EXPECT_TRUE(violations.empty()) << violations.front();
}

TEST(Stress, LeasesOutliveTheirSession) {
  auto const device = make_checked_host({.device_bytes = 4 << 20, .pinned_bytes = 16 << 20});
  stream const compute(*device, stream_kind::compute, "compute");
  std::atomic<int> wrong{0};
  for (std::uint32_t round = 0; round < 25; ++round) {
    std::vector<lease> leases;
    block scratch;
    {
      session trainer(*device, tight_settings());
      trainer.begin_step();
      scratch = trainer.allocate(item_bytes, compute);
      for (std::uint32_t s = 0; s < 4; ++s) {
        auto memory = trainer.allocate(item_bytes, compute);
        fill(*device, compute, memory.data(), round + s);
        leases.push_back(trainer.save({0, s, "h"}, std::move(memory), compute));
      }
    }
    fill(*device, compute, scratch.data(), round);
    for (std::uint32_t s = 0; s < 4; ++s) check(*device, compute, leases[s].data(), round + s, wrong);
  }
  compute.synchronize();
  EXPECT_EQ(wrong, 0);
  auto const violations = order_violations(*device);
  EXPECT_TRUE(violations.empty()) << violations.front();
}

}  // namespace
}  // namespace ferry::testing
