// The CUDA device over the emulation in stepped mode: what it promises, promised without a thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "cuda_fixture.hpp"
#include "ferry/sim_device.hpp"
#include "support/stepped_device.hpp"

namespace ferry::testing {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

class SteppedDevice : public CudaTest {
 protected:
  void SetUp() override {
    cudasim::reset({.protect_device_memory = false, .stepped = true});
    cudasim::set_operation_cost([](std::string_view kind, std::size_t bytes) -> std::chrono::nanoseconds {
      return kind == "host function" ? microseconds(2) : std::chrono::nanoseconds(bytes);
    });
  }
};

TEST_F(SteppedDevice, BytesAreOffloadedAndComeBack) {
  device& dev = make();
  stream const compute(dev, stream_kind::compute, "compute");
  stream const out(dev, stream_kind::copy, "offload");
  stream const in(dev, stream_kind::copy, "prefetch");
  constexpr std::size_t count = 1000;
  memory const there(dev, memory_space::device, count * sizeof(int));
  memory const here(dev, memory_space::pinned, count * sizeof(int));
  event const produced(dev);
  event const offloaded(dev, event_timing::on);
  event const prefetched(dev, event_timing::on);
  memory_access const writes_it[] = {writes(there.data(), there.bytes())};
  auto const fill = [&](int first) {
    dev.launch(compute, "fill", writes_it, [values = there.as<int>(), first] {
      for (int i = 0; i < static_cast<int>(count); ++i) values[i] = first + i;
    });
  };
  fill(7);
  produced.record(compute);
  dev.wait(out, produced);
  dev.copy(out, "offload x", copy_direction::device_to_host, here.data(), there.data(), there.bytes());
  offloaded.record(out);
  dev.wait(compute, offloaded);
  fill(0);
  produced.record(compute);
  dev.wait(in, produced);
  dev.copy(in, "prefetch x", copy_direction::host_to_device, there.data(), here.data(), here.bytes());
  prefetched.record(in);
  EXPECT_EQ(dev.query(prefetched), event_status::pending);
  EXPECT_EQ(cudasim::clock().now(), microseconds(0));
  prefetched.synchronize();
  EXPECT_EQ(cudasim::clock().now(), microseconds(2 + 4 + 2 + 4));
  EXPECT_NEAR(dev.elapsed_us(offloaded, prefetched), 6, 1e-6);
  for (int i = 0; i < static_cast<int>(count); ++i) ASSERT_EQ(there.as<int>()[i], 7 + i);
}

TEST_F(SteppedDevice, ALaunchThatThrowsFailsWhatComesBehind) {
  device& dev = make();
  stream const first(dev, stream_kind::compute, "first");
  stream const second(dev, stream_kind::compute, "second");
  event const behind(dev);
  event const elsewhere(dev);
  bool ran = false;
  dev.launch(first, "bad", {}, [] { throw std::runtime_error("no luck"); });
  dev.launch(first, "skipped", {}, [&] { ran = true; });
  behind.record(first);
  dev.wait(second, behind);
  dev.launch(second, "skipped too", {}, [&] { ran = true; });
  elsewhere.record(second);
  EXPECT_EQ(dev.query(behind), event_status::pending);
  while (dev.query(elsewhere) == event_status::pending) cudasim::clock().pass_time();
  EXPECT_EQ(dev.query(behind), event_status::failed);
  EXPECT_EQ(dev.query(elsewhere), event_status::failed);
  try {
    first.synchronize();
    ADD_FAILURE() << "nothing was reported";
  } catch (stream_error const& failed) {
    EXPECT_EQ(failed.operation(), "bad");
    EXPECT_THAT(failed.what(), HasSubstr("no luck"));
  }
  EXPECT_THROW(elsewhere.synchronize(), stream_error);
  EXPECT_FALSE(ran);
  dev.launch(first, "fine", {}, [&] { ran = true; });
  first.synchronize();
  EXPECT_TRUE(ran) << "usable again";
}

TEST_F(SteppedDevice, AStreamIsDestroyedWithItsWorkDone) {
  device& dev = make();
  int ran = 0;
  {
    stream const compute(dev, stream_kind::compute, "compute");
    for (int i = 0; i < 5; ++i) dev.launch(compute, "count", {}, [&] { ++ran; });
    EXPECT_EQ(ran, 0);
  }
  EXPECT_EQ(ran, 5);
  EXPECT_EQ(cudasim::clock().now(), microseconds(10));
}

TEST_F(SteppedDevice, CopiesAreTimedByTheClock) {
  cudasim::set_operation_cost([](char const*, std::size_t bytes) { return std::chrono::nanoseconds(bytes / 8); });
  device& dev = make();
  stream const copies(dev, stream_kind::copy, "copies");
  memory const there(dev, memory_space::device, std::size_t{1} << 20);
  memory const here(dev, memory_space::pinned, std::size_t{1} << 20);
  event const begin(dev, event_timing::on);
  event const end(dev, event_timing::on);
  begin.record(copies);
  dev.copy(copies, "out", copy_direction::device_to_host, here.data(), there.data(), here.bytes());
  end.record(copies);
  end.synchronize();
  EXPECT_NEAR(dev.elapsed_us(begin, end), static_cast<double>(here.bytes()) / 8e3, 1e-2);
}

/// Forward and backward of a few items that do not fit: how long it takes on the clock.
std::chrono::nanoseconds train_a_step() {
  constexpr std::size_t item_bytes = 64 << 10;
  constexpr std::uint32_t items = 8;
  cudasim::reset({.protect_device_memory = false, .stepped = true});
  stepped_device dev({.device_bytes = 1 << 20, .pinned_bytes = 2 << 20, .order = &cudasim::order()},
                     {[](label const&) { return microseconds(10); },
                      [](std::string_view, std::size_t bytes) { return std::chrono::nanoseconds(bytes / 8); }});
  config settings;
  settings.policy.kind = policy_kind::offload;
  settings.budget = byte_amount::exactly(4 * item_bytes);
  settings.host_budget = byte_amount::exactly(2 * items * item_bytes);
  settings.min_bytes = 0;
  settings.log = log_level::off;
  std::uint32_t right = 0;
  {
    session on(dev, settings);
    stream const compute(dev, stream_kind::compute, "compute");
    on.begin_step();
    for (std::uint32_t i = 0; i < items; ++i) {
      auto item = on.allocate(item_bytes, compute);
      memory_access const written[] = {writes(item.data(), item_bytes)};
      dev.launch(compute, "forward", written, [to = static_cast<std::byte*>(item.data()), i] {
        std::fill_n(to, item_bytes, static_cast<std::byte>(i + 1));
      });
      on.save({0, i, "x"}, std::move(item), compute).end();
    }
    for (std::uint32_t i = items; i-- > 0;) {
      auto item = on.restore({0, i, "x"}, compute);
      memory_access const read[] = {reads(item.data(), item_bytes)};
      dev.launch(compute, "backward", read, [&right, from = static_cast<std::byte const*>(item.data()), i] {
        right += std::all_of(from, from + item_bytes, [&](std::byte b) { return b == static_cast<std::byte>(i + 1); });
      });
      item.end();
    }
    on.end_step();
    compute.synchronize();
  }
  EXPECT_EQ(right, items);
  EXPECT_THAT(cudasim::violations(), ::testing::IsEmpty());
  return dev.now();
}

TEST_F(SteppedDevice, ASessionOverItTakesTheSameTimeAgain) {
  auto const first = train_a_step();
  EXPECT_GT(first, microseconds(160)) << "what does not fit has to travel";
  EXPECT_EQ(train_a_step(), first);
}

}  // namespace
}  // namespace ferry::testing
