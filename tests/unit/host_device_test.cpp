// What the host device does beyond the contract: settings, the link's speed, the hook, and the checker's
// view of it.
#include "ferry/host_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "support/gate.hpp"
#include "support/test_devices.hpp"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using testing::gate;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::opens_at_end;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
host_device_options const small{.device_bytes = 4 * mebibyte, .pinned_bytes = 4 * mebibyte};

TEST(HostDevice, OutOfMemoryNamesNeedFreeCapacityAndVariable) {
  auto const dev = testing::make_checked_host(small);
  memory const some(*dev, memory_space::device, mebibyte);
  try {
    static_cast<void>(dev->allocate(memory_space::device, 5 * mebibyte));
    FAIL();
  } catch (out_of_device_memory const& full) {
    for (auto const* const part : {"5.00 MiB", "3.00 MiB", "4.00 MiB", "FERRY_DEVICE_BYTES"}) {
      EXPECT_THAT(full.what(), HasSubstr(part));
    }
  }
  try {
    static_cast<void>(dev->allocate(memory_space::pinned, 5 * mebibyte));
    FAIL();
  } catch (out_of_pinned_memory const& full) {
    EXPECT_THAT(full.what(), HasSubstr("FERRY_PINNED_BYTES"));
  }
}

TEST(HostDevice, NeedsSomeMemory) {
  EXPECT_THROW(static_cast<void>(make_host_device({.device_bytes = 0})), invalid_argument);
  EXPECT_THROW(static_cast<void>(make_host_device({.device_bytes = mebibyte, .pinned_bytes = 0})), invalid_argument);
}

TEST(HostDevice, MemoryMayBeTouchedByTheHost) {
  auto const dev = testing::make_checked_host(small);
  EXPECT_TRUE(dev->capabilities().host_addressable);
  memory const all(*dev, memory_space::device, 4 * mebibyte);
  std::fill_n(all.as<unsigned char>(), all.bytes(), static_cast<unsigned char>(1));
}

TEST(HostDevice, LinkSpeedCanBeChangedPerDirection) {
  auto const dev = testing::make_checked_host(small);
  dev->set_link(copy_direction::device_to_host, {.gbps = 3, .latency_us = 4});
  EXPECT_EQ(dev->link(copy_direction::device_to_host).gbps, 3);
  EXPECT_EQ(dev->link(copy_direction::device_to_host).latency_us, 4);
  EXPECT_EQ(dev->link(copy_direction::host_to_device).gbps, 0);
  EXPECT_THROW(dev->set_link(copy_direction::device_to_host, {.gbps = -3, .latency_us = 0}), invalid_argument);
}

TEST(HostDevice, ACopyTakesNoLessThanTheLinkAllows) {
  auto options = small;
  options.host_to_device = {.gbps = 1, .latency_us = 100};
  auto const dev = testing::make_checked_host(options);
  stream const in(*dev, stream_kind::copy, "in");
  memory const there(*dev, memory_space::device, mebibyte);
  memory const here(*dev, memory_space::pinned, mebibyte);
  gate held;
  opens_at_end const at_end(held);
  // Held back, so that no copy can start before the clock is read.
  dev->launch(in, "hold", {}, [&held] { held.wait(); });
  for (std::size_t at = 0; at < mebibyte; at += mebibyte / 4) {
    dev->copy(in, "chunk", copy_direction::host_to_device, there.as<std::byte>() + at, here.as<std::byte>() + at,
              mebibyte / 4);
  }
  auto const start = std::chrono::steady_clock::now();
  held.open();
  in.synchronize();
  std::chrono::duration<double, std::micro> const taken = std::chrono::steady_clock::now() - start;
  EXPECT_GE(taken.count(), 100 + mebibyte * 1e-3);
}

TEST(HostDevice, ADirectionIsSlowerWhileTheOtherIsAtWork) {
  auto options = small;
  options.device_to_host = options.host_to_device = {.gbps = 0.1};
  options.beside.out_beside_back = 0.5;
  auto const dev = testing::make_checked_host(options);
  stream const out(*dev, stream_kind::copy, "out");
  stream const in(*dev, stream_kind::copy, "in");
  memory const left(*dev, memory_space::device, mebibyte);
  memory const right(*dev, memory_space::device, mebibyte);
  memory const to(*dev, memory_space::pinned, mebibyte);
  memory const from(*dev, memory_space::pinned, mebibyte);
  gate held;
  opens_at_end const at_end(held);
  dev->launch(out, "hold", {}, [&held] { held.wait(); });
  dev->launch(in, "hold", {}, [&held] { held.wait(); });
  // 170 ms in; 52 ms out that take 104, if they begin together, and some of it even if they do not quite.
  for (int i = 0; i < 16; ++i) {
    dev->copy(in, "in", copy_direction::host_to_device, right.data(), from.data(), mebibyte);
  }
  constexpr int chunks = 20;
  event const begin(*dev, event_timing::on);
  event const end(*dev, event_timing::on);
  begin.record(out);
  for (int i = 0; i < chunks; ++i) {
    dev->copy(out, "out", copy_direction::device_to_host, to.data(), left.data(), mebibyte / 4);
  }
  end.record(out);
  held.open();
  end.synchronize();
  in.synchronize();
  double const alone_us = chunks * (mebibyte / 4) / (1e3 * 0.1);
  EXPECT_GT(dev->elapsed_us(begin, end), 1.2 * alone_us);
}

TEST(HostDevice, SharesOfItsLinkMustBeShares) {
  auto options = small;
  options.beside.back_beside_out = 1.5;
  EXPECT_THROW(static_cast<void>(make_host_device(options)), invalid_argument);
}

TEST(HostDevice, TheHookSeesLaunchesAndCopiesAndMayFailThem) {
  std::vector<std::string> seen;  // only the one stream's thread writes
  auto options = small;
  options.before_operation = [&seen](label const& operation) {
    seen.push_back(operation.str());
    if (operation == label("unlucky")) throw std::runtime_error("injected");
  };
  auto const dev = testing::make_checked_host(options);
  stream const one(*dev, stream_kind::compute, "one");
  event const mark(*dev, event_timing::on);
  memory const there(*dev, memory_space::device, 64);
  memory const here(*dev, memory_space::pinned, 64);
  bool ran = false;
  dev->launch(one, "first", {}, [] {});
  mark.record(one);
  dev->copy(one, "second", copy_direction::host_to_device, there.data(), here.data(), 64);
  dev->launch(one, "unlucky", {}, [&ran] { ran = true; });
  try {
    one.synchronize();
    FAIL();
  } catch (stream_error const& failure) {
    EXPECT_EQ(failure.operation(), "unlucky");
    EXPECT_THAT(failure.what(), HasSubstr("injected"));
  }
  EXPECT_FALSE(ran);
  EXPECT_THAT(seen, ElementsAre("first", "second", "unlucky"));
}

TEST(HostDevice, ComputeStreamsRunInsideTheirOwnArena) {
  auto options = small;
  options.compute_threads = 2;
  options.check_order = true;
  auto const dev = make_host_device(options);
  stream const compute(*dev, stream_kind::compute, "compute");
  int threads = 0;
  std::vector<int> squares(1000);
  dev->launch(compute, "squares", {}, [&] {
    threads = tbb::this_task_arena::max_concurrency();
    tbb::parallel_for(0, 1000, [&](int i) { squares[static_cast<std::size_t>(i)] = i * i; });
  });
  compute.synchronize();
  EXPECT_EQ(threads, 2);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(squares[static_cast<std::size_t>(i)], i * i);
}

TEST(HostDevice, ADestroyedStreamTakesNoWork) {
  auto const dev = testing::make_checked_host(small);
  auto const gone = dev->create_stream(stream_kind::compute, "gone");
  event const mark(*dev);
  dev->destroy_stream(gone);
  EXPECT_THROW(dev->launch(gone, "late", {}, [] {}), invalid_argument);
  EXPECT_THROW(mark.record(gone), invalid_argument);
  dev->destroy_stream(gone);
}

TEST(HostDevice, TheCheckerSeesAMissingWait) {
  auto const dev = testing::make_checked_host(small);
  EXPECT_NE(dev->order(), nullptr);
  stream const compute(*dev, stream_kind::compute, "compute");
  stream const out(*dev, stream_kind::copy, "out");
  memory const there(*dev, memory_space::device, 64);
  memory const here(*dev, memory_space::pinned, 64);
  dev->launch(compute, "produce", std::array{writes(there.data(), 64)}, [] {});
  compute.synchronize();
  dev->copy(out, "fine", copy_direction::device_to_host, here.data(), there.data(), 64);
  EXPECT_THAT(dev->order_violations(), IsEmpty());
  dev->launch(compute, "overwrite", std::array{writes(there.data(), 64)}, [] {});
  EXPECT_THAT(dev->order_violations(), ElementsAre(::testing::AllOf(HasSubstr("overwrite"), HasSubstr("fine"))));
  compute.synchronize();
  out.synchronize();
}

TEST(HostDevice, TheCheckerLearnsFromQueryWaitAndDestruction) {
  auto const dev = testing::make_checked_host(small);
  event const mark(*dev);
  {
    memory const there(*dev, memory_space::device, 64);
    memory const here(*dev, memory_space::pinned, 64);
    stream const in(*dev, stream_kind::copy, "in");
    stream const compute(*dev, stream_kind::compute, "compute");
    dev->copy(in, "in", copy_direction::host_to_device, there.data(), here.data(), 64);
    mark.record(in);
    dev->wait(compute, mark);
    dev->launch(compute, "use", std::array{reads(there.data(), 64)}, [] {});
    while (!mark.complete()) std::this_thread::yield();
    dev->order()->host_access(writes(here.data(), 64), "reuse");
  }
  EXPECT_THAT(dev->order_violations(), IsEmpty());
}

TEST(HostDevice, WithoutTheCheckerThereAreNoViolations) {
  auto const dev = make_host_device(small);
  EXPECT_EQ(dev->order(), nullptr);
  EXPECT_THAT(dev->order_violations(), IsEmpty());
}

TEST(MakeDevice, HostAndAutoWithoutAGpuGiveTheHostDevice) {
  for (std::string const name : {"auto", "host"}) {
    if (name == "auto" && find_cuda().why_not.empty()) continue;
    config settings;
    settings.device = name;
    settings.device_bytes = mebibyte;
    settings.pinned_bytes = 2 * mebibyte;
    settings.link_gbps = {1, 2, false};
    settings.link_latency_us = {3, 4, false};
    auto const dev = make_device(settings);
    auto const* const host = dynamic_cast<host_device*>(dev.get());
    ASSERT_NE(host, nullptr);
    EXPECT_EQ(dev->capabilities().pinned_bytes, 2 * mebibyte);
    EXPECT_EQ(host->link(copy_direction::device_to_host).gbps, 1);
    EXPECT_EQ(host->link(copy_direction::host_to_device).gbps, 2);
    EXPECT_EQ(host->link(copy_direction::device_to_host).latency_us, 3);
    EXPECT_EQ(host->link(copy_direction::host_to_device).latency_us, 4);
  }
}

TEST(MakeDevice, SaysWhatToSetWhereThereIsNoGpu) {
  if (find_cuda().why_not.empty()) GTEST_SKIP() << "there is one";
  for (auto const* const name : {"cuda", "cuda:1"}) {
    config settings;
    settings.device = name;
    try {
      static_cast<void>(make_device(settings));
      FAIL() << name;
    } catch (no_cuda const& refused) {
      EXPECT_THAT(refused.what(), HasSubstr("FERRY_DEVICE=host"));
    }
  }
}

TEST(MakeDevice, AnAutomaticLinkFitsTheMachine) {
  config settings;
  settings.link_gbps.automatic = true;
  auto const options = host_options(settings);
  EXPECT_GE(options.device_to_host.gbps, 0.05);
  EXPECT_LE(options.device_to_host.gbps, 50);
  EXPECT_EQ(options.device_to_host.gbps, options.host_to_device.gbps);
}

}  // namespace
}  // namespace ferry
