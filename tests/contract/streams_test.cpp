// Streams: order within one, independence of several, capacity, lifetime.
#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <thread>

#include "contract/device_contract.hpp"

namespace ferry::testing {

TEST_P(DeviceContract, RunsOneStreamInOrder) {
  stream const one(dev(), stream_kind::compute, "one");
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) launch(one, [&seen, i] { seen.push_back(i); });
  one.synchronize();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST_P(DeviceContract, DoesNotBlockTheCaller) {
  stream const one(dev(), stream_kind::compute, "one");
  gate held;
  opens_at_end const at_end(held);
  std::atomic<bool> ran{false};
  hold(one, held);
  launch(one, [&ran] { ran = true; });
  EXPECT_FALSE(ran);
  held.open();
  one.synchronize();
  EXPECT_TRUE(ran);
}

TEST_P(DeviceContract, OverlapsIndependentStreams) {
  if (dev().time() != nullptr) GTEST_SKIP() << "functions run one after the other; tests/unit has the times";
  if (!functions_overlap) GTEST_SKIP() << "a function that runs may hold up those of other streams";
  stream const left(dev(), stream_kind::compute, "left");
  stream const right(dev(), stream_kind::copy, "right");
  gate left_runs;
  gate right_runs;
  std::atomic<int> met{0};
  // Each waits for the other to be running: possible only if both run at once.
  launch(left, [&] {
    left_runs.open();
    if (right_runs.wait()) ++met;
  });
  launch(right, [&] {
    right_runs.open();
    if (left_runs.wait()) ++met;
  });
  left.synchronize();
  right.synchronize();
  EXPECT_EQ(met, 2);
}

TEST_P(DeviceContract, OverlapsCopiesWithWork) {
  stream const compute(dev(), stream_kind::compute, "compute");
  stream const transfer(dev(), stream_kind::copy, "transfer");
  memory const on_device(dev(), memory_space::device, 4096);
  memory const on_host(dev(), memory_space::pinned, 4096);
  gate held;
  opens_at_end const at_end(held);
  hold(compute, held);
  dev().copy(transfer, "copy", copy_direction::host_to_device, on_device.data(), on_host.data(), 4096);
  transfer.synchronize();
  EXPECT_FALSE(held.is_open());
  held.open();
  compute.synchronize();
}

TEST_P(DeviceContract, TakesMoreWorkThanAnyQueueHolds) {
  constexpr int operations = 20'000;
  stream const one(dev(), stream_kind::compute, "one");
  int done = 0;
  for (int i = 0; i < operations; ++i) launch(one, [&done] { ++done; });
  one.synchronize();
  EXPECT_EQ(done, operations);
}

TEST_P(DeviceContract, TakesWorkFromSeveralThreads) {
  if (is_for_one_thread()) GTEST_SKIP() << "this device is for one thread";
  constexpr int operations = 3'000;
  stream const one(dev(), stream_kind::compute, "one");
  int done = 0;  // plain on purpose: the stream runs one operation at a time
  auto const enqueue = [&] {
    for (int i = 0; i < operations; ++i) launch(one, [&done] { ++done; });
  };
  std::thread other(enqueue);
  enqueue();
  other.join();
  one.synchronize();
  EXPECT_EQ(done, 2 * operations);
}

TEST_P(DeviceContract, SeveralThreadsMayWaitAtOnce) {
  if (is_for_one_thread()) GTEST_SKIP() << "this device is for one thread";
  constexpr int rounds = 200;
  std::array<int, 4> done{};
  std::vector<std::thread> threads;
  for (auto& mine : done) {
    threads.emplace_back([this, &mine] {
      stream const own(dev(), stream_kind::compute, "own");
      event const mark(dev());
      for (int i = 0; i < rounds; ++i) {
        launch(own, [&mine] { ++mine; });
        mark.record(own);
        mark.synchronize();
        EXPECT_EQ(mine, i + 1);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_THAT(done, ::testing::Each(rounds));
}

TEST_P(DeviceContract, SynchronizesAnIdleStreamAtOnce) {
  stream const one(dev(), stream_kind::copy, "one");
  one.synchronize();
  one.synchronize();
}

TEST_P(DeviceContract, DestroyingAStreamFinishesItsWork) {
  gate held;
  opens_at_end const at_end(held);
  int done = 0;
  event const passed(dev());
  std::thread opener;
  {
    stream const one(dev(), stream_kind::compute, "one");
    hold(one, held);
    for (int i = 0; i < 10; ++i) launch(one, [&done] { ++done; });
    passed.record(one);
    opener = std::thread([&held] { held.open(); });
  }
  opener.join();
  EXPECT_EQ(done, 10);
  EXPECT_TRUE(passed.complete());
}

TEST_P(DeviceContract, DestroyingTheDeviceFinishesItsWork) {
  gate held;
  opens_at_end const at_end(held);
  int done = 0;
  auto doomed = make();
  auto const producer = doomed->create_stream(stream_kind::compute, "producer");
  auto const consumer = doomed->create_stream(stream_kind::copy, "consumer");
  auto const produced = doomed->create_event(event_timing::on);
  doomed->launch(producer, "hold", {}, [&held] { held.wait(); });
  doomed->launch(producer, "produce", {}, [&done] { ++done; });
  doomed->record(produced, producer);
  doomed->wait(consumer, produced);
  doomed->launch(consumer, "consume", {}, [&done] { ++done; });
  std::thread opener([&held] { held.open(); });
  doomed.reset();
  opener.join();
  EXPECT_EQ(done, 2);
}

TEST_P(DeviceContract, DropsWhatAnOperationCapturedOnceItIsDone) {
  stream const one(dev(), stream_kind::compute, "one");
  auto captured = std::make_shared<int>(7);
  std::weak_ptr<int> const watch = captured;
  launch(one, [captured = std::move(captured)] {});
  one.synchronize();
  EXPECT_TRUE(watch.expired());
}

TEST_P(DeviceContract, RejectsStreamsThatAreNotItsOwn) {
  auto const other = make();
  stream const foreign(*other, stream_kind::compute, "foreign");
  event const mine(dev());
  event const foreign_event(*other);
  stream const own(dev(), stream_kind::compute, "own");
  EXPECT_THROW(launch(foreign, [] {}), invalid_argument);
  EXPECT_THROW(launch(stream_ref{}, [] {}), invalid_argument);
  EXPECT_THROW(dev().synchronize(foreign.ref()), invalid_argument);
  EXPECT_THROW(mine.record(foreign), invalid_argument);
  EXPECT_THROW(dev().record(foreign_event, own), invalid_argument);
  EXPECT_THROW(dev().wait(own, foreign_event), invalid_argument);
  EXPECT_THROW(static_cast<void>(dev().query(foreign_event)), invalid_argument);
  EXPECT_THROW(static_cast<void>(dev().query(event_ref{})), invalid_argument);
  EXPECT_THROW(dev().synchronize(foreign_event.ref()), invalid_argument);
}

TEST_P(DeviceContract, RejectsALaunchOfNothing) {
  stream const own(dev(), stream_kind::compute, "own");
  EXPECT_THROW(dev().launch(own, "nothing", {}, nullptr), invalid_argument);
}

}  // namespace ferry::testing
