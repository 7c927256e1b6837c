// Events: order across streams, what a mark is, and elapsed time.
#include <atomic>
#include <thread>

#include "contract/device_contract.hpp"

namespace ferry::testing {

TEST_P(DeviceContract, AnEventOrdersTwoStreams) {
  stream const producer(dev(), stream_kind::compute, "producer");
  stream const consumer(dev(), stream_kind::compute, "consumer");
  event const produced(dev());
  gate held;
  opens_at_end const at_end(held);
  int value = 0;  // plain on purpose: the event alone orders its uses
  int seen = -1;
  hold(producer, held);
  launch(producer, [&value] { value = 42; });
  produced.record(producer);
  dev().wait(consumer, produced);
  launch(consumer, [&] { seen = value; });
  held.open();
  consumer.synchronize();
  EXPECT_EQ(seen, 42);
}

TEST_P(DeviceContract, EventsCarryOrderAlongAChainOfStreams) {
  constexpr int rounds = 200;
  stream const ping(dev(), stream_kind::compute, "ping");
  stream const pong(dev(), stream_kind::copy, "pong");
  event const pinged(dev());
  event const ponged(dev());
  std::vector<int> turns;
  for (int i = 0; i < rounds; ++i) {
    dev().wait(ping, ponged);
    launch(ping, [&turns, i] { turns.push_back(2 * i); });
    pinged.record(ping);
    dev().wait(pong, pinged);
    launch(pong, [&turns, i] { turns.push_back(2 * i + 1); });
    ponged.record(pong);
  }
  ponged.synchronize();
  ASSERT_EQ(turns.size(), 2U * rounds);
  for (int i = 0; i < 2 * rounds; ++i) EXPECT_EQ(turns[static_cast<std::size_t>(i)], i);
}

TEST_P(DeviceContract, WaitingForAnEventNeverRecordedIsNothing) {
  stream const one(dev(), stream_kind::compute, "one");
  event const never(dev());
  bool ran = false;
  dev().wait(one, never);
  launch(one, [&ran] { ran = true; });
  one.synchronize();
  EXPECT_TRUE(ran);
}

TEST_P(DeviceContract, AnEventNeverRecordedIsComplete) {
  event const never(dev());
  EXPECT_EQ(dev().query(never), event_status::complete);
  never.synchronize();
}

TEST_P(DeviceContract, QueryFollowsTheMarkedWork) {
  stream const one(dev(), stream_kind::compute, "one");
  event const before(dev());
  event const after(dev());
  gate held;
  opens_at_end const at_end(held);
  before.record(one);
  hold(one, held);
  after.record(one);
  before.synchronize();
  EXPECT_EQ(dev().query(before), event_status::complete);
  EXPECT_EQ(dev().query(after), event_status::pending);
  held.open();
  after.synchronize();
  EXPECT_EQ(dev().query(after), event_status::complete);
}

TEST_P(DeviceContract, LaterWorkDoesNotDelayAMark) {
  stream const one(dev(), stream_kind::compute, "one");
  event const early(dev());
  gate held;
  opens_at_end const at_end(held);
  launch(one, [] {});
  early.record(one);
  hold(one, held);
  early.synchronize();
  EXPECT_FALSE(held.is_open());
  held.open();
  one.synchronize();
}

TEST_P(DeviceContract, RecordingAgainMovesTheMark) {
  stream const one(dev(), stream_kind::compute, "one");
  event const mark(dev());
  gate held;
  opens_at_end const at_end(held);
  mark.record(one);
  mark.synchronize();
  EXPECT_TRUE(mark.complete());
  hold(one, held);
  mark.record(one);
  EXPECT_EQ(dev().query(mark), event_status::pending);
  held.open();
  mark.synchronize();
  EXPECT_TRUE(mark.complete());
}

TEST_P(DeviceContract, AWaitKeepsTheMarkOfItsCall) {
  if (!functions_overlap) GTEST_SKIP() << "a function that runs may hold up those of other streams";
  stream const producer(dev(), stream_kind::compute, "producer");
  stream const consumer(dev(), stream_kind::compute, "consumer");
  event const mark(dev());
  gate first;
  gate second;
  opens_at_end const first_at_end(first);
  opens_at_end const second_at_end(second);
  bool consumed = false;
  hold(producer, first);
  mark.record(producer);
  dev().wait(consumer, mark);
  hold(producer, second);
  mark.record(producer);  // must not hold up the consumer, which waits for the first mark
  launch(consumer, [&consumed] { consumed = true; });
  first.open();
  consumer.synchronize();
  EXPECT_TRUE(consumed);
  EXPECT_EQ(dev().query(mark), event_status::pending);
  second.open();
  mark.synchronize();
}

TEST_P(DeviceContract, OneEventMayMoveBetweenStreams) {
  stream const left(dev(), stream_kind::compute, "left");
  stream const right(dev(), stream_kind::copy, "right");
  event const mark(dev());
  gate held;
  opens_at_end const at_end(held);
  hold(left, held);
  mark.record(left);
  mark.record(right);
  mark.synchronize();
  EXPECT_FALSE(held.is_open());
  held.open();
  left.synchronize();
}

TEST_P(DeviceContract, AStreamMayWaitForItself) {
  stream const one(dev(), stream_kind::compute, "one");
  event const mark(dev());
  bool ran = false;
  launch(one, [] {});
  mark.record(one);
  dev().wait(one, mark);
  launch(one, [&ran] { ran = true; });
  one.synchronize();
  EXPECT_TRUE(ran);
}

TEST_P(DeviceContract, AnEventMayGoBeforeItsMarkIsReached) {
  stream const producer(dev(), stream_kind::compute, "producer");
  stream const consumer(dev(), stream_kind::compute, "consumer");
  gate held;
  opens_at_end const at_end(held);
  int value = 0;
  int seen = -1;
  hold(producer, held);
  launch(producer, [&value] { value = 1; });
  {
    event const passing(dev(), event_timing::on);
    passing.record(producer);
    dev().wait(consumer, passing);
  }
  event const next(dev(), event_timing::on);  // may live where the first one did
  next.record(consumer);
  launch(consumer, [&] { seen = value; });
  held.open();
  consumer.synchronize();
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(dev().query(next), event_status::complete);
}

TEST_P(DeviceContract, AMarkOutlivesItsStream) {
  event const mark(dev());
  {
    stream const one(dev(), stream_kind::compute, "one");
    launch(one, [] {});
    mark.record(one);
  }
  stream const other(dev(), stream_kind::compute, "other");
  dev().wait(other, mark);
  EXPECT_EQ(dev().query(mark), event_status::complete);
  mark.synchronize();
  other.synchronize();
}

TEST_P(DeviceContract, OneThreadMayRecordWhatAnotherQueries) {
  if (is_for_one_thread()) GTEST_SKIP() << "this device is for one thread";
  stream const one(dev(), stream_kind::compute, "one");
  event const mark(dev());
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) static_cast<void>(dev().query(mark));
  });
  for (int i = 0; i < 500; ++i) {
    launch(one, [] {});
    mark.record(one);
  }
  mark.synchronize();
  stop = true;
  watcher.join();
  EXPECT_TRUE(mark.complete());
}

TEST_P(DeviceContract, ElapsedTimeFollowsTheOrderOfMarks) {
  stream const one(dev(), stream_kind::compute, "one");
  event const start(dev(), event_timing::on);
  event const middle(dev(), event_timing::on);
  event const end(dev(), event_timing::on);
  start.record(one);
  launch(
      one, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }, long_kernel);
  middle.record(one);
  launch(one, [] {});
  end.record(one);
  end.synchronize();
  EXPECT_GE(dev().elapsed_us(start, middle), 1000);
  EXPECT_GE(dev().elapsed_us(middle, end), 0);
  EXPECT_DOUBLE_EQ(dev().elapsed_us(start, start), 0);
  EXPECT_NEAR(dev().elapsed_us(start, end), dev().elapsed_us(start, middle) + dev().elapsed_us(middle, end),
              2 * time_resolution_us);
}

TEST_P(DeviceContract, TheClockFollowsTheWork) {
  stream const one(dev(), stream_kind::compute, "one");
  auto const before = dev().now();
  launch(
      one, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }, long_kernel);
  one.synchronize();
  EXPECT_GE(dev().now() - before, std::chrono::milliseconds(1));
}

TEST_P(DeviceContract, ElapsedTimeNeedsTimingAndCompletion) {
  stream const one(dev(), stream_kind::compute, "one");
  event const plain(dev());
  event const timed(dev(), event_timing::on);
  event const never(dev(), event_timing::on);
  event const pending(dev(), event_timing::on);
  gate held;
  opens_at_end const at_end(held);
  plain.record(one);
  timed.record(one);
  timed.synchronize();
  hold(one, held);
  pending.record(one);
  EXPECT_THROW(static_cast<void>(dev().elapsed_us(timed, plain)), invalid_argument);
  EXPECT_THROW(static_cast<void>(dev().elapsed_us(never, timed)), invalid_argument);
  EXPECT_THROW(static_cast<void>(dev().elapsed_us(timed, pending)), invalid_argument);
  held.open();
  pending.synchronize();
  EXPECT_GE(dev().elapsed_us(timed, pending), 0);
}

}  // namespace ferry::testing
