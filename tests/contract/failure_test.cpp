// Failures: they surface where the caller synchronises, with the operation's name, and nothing built on
// failed work runs.
#include <stdexcept>
#include <thread>

#include "contract/device_contract.hpp"

namespace ferry::testing {

namespace {

auto broken() {
  return [] { throw std::runtime_error("the kernel broke"); };
}

/// What `synchronize` throws, or nothing.
template <typename Synchronized>
std::optional<stream_error> failure_of(Synchronized const& waited_for) {
  try {
    waited_for.synchronize();
  } catch (stream_error const& failure) {
    return failure;
  }
  return std::nullopt;
}

}  // namespace

TEST_P(DeviceContract, AFailureSurfacesAtSynchronizeWithItsName) {
  stream const one(dev(), stream_kind::compute, "one");
  launch(one, broken(), "layer norm");
  auto const failure = failure_of(one);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->operation(), "layer norm");
  EXPECT_THAT(failure->what(), ::testing::HasSubstr("layer norm"));
  EXPECT_THAT(failure->what(), ::testing::HasSubstr("the kernel broke"));
}

TEST_P(DeviceContract, AFailureThatIsNoExceptionClassSurfacesToo) {
  stream const one(dev(), stream_kind::compute, "one");
  launch(
      one, [] { throw 42; }, "odd");
  auto const failure = failure_of(one);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->operation(), "odd");
}

TEST_P(DeviceContract, WorkBehindAFailureIsSkipped) {
  stream const one(dev(), stream_kind::compute, "one");
  bool before = false;
  bool after = false;
  launch(one, [&before] { before = true; });
  launch(one, broken());
  launch(one, [&after] { after = true; });
  EXPECT_TRUE(failure_of(one));
  EXPECT_TRUE(before);
  EXPECT_FALSE(after);
}

TEST_P(DeviceContract, AStreamIsUsableOnceItsFailureIsReported) {
  stream const one(dev(), stream_kind::compute, "one");
  event const mark(dev());
  for (int round = 0; round < 3; ++round) {
    launch(one, broken());
    EXPECT_TRUE(failure_of(one));
    EXPECT_FALSE(failure_of(one)) << "reported once";
    mark.record(one);  // nothing new enqueued: still not part of what failed
    EXPECT_FALSE(failure_of(mark));
    bool ran = false;
    launch(one, [&ran] { ran = true; });
    EXPECT_FALSE(failure_of(one));
    EXPECT_TRUE(ran);
  }
}

TEST_P(DeviceContract, MarksBeforeAFailureAreCompleteAndBehindItFailed) {
  stream const one(dev(), stream_kind::compute, "one");
  event const before(dev());
  event const behind(dev());
  event const far_behind(dev(), event_timing::on);
  launch(one, [] {});
  before.record(one);
  launch(one, broken(), "bad");
  behind.record(one);
  launch(one, [] {});
  far_behind.record(one);
  auto const failure = failure_of(behind);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->operation(), "bad");
  EXPECT_FALSE(failure_of(before));
  EXPECT_EQ(dev().query(before), event_status::complete);
  EXPECT_EQ(dev().query(behind), event_status::failed);
  EXPECT_TRUE(failure_of(far_behind)) << "enqueued before the failure was reported";
  EXPECT_EQ(dev().query(far_behind), event_status::failed);
  EXPECT_THROW(static_cast<void>(dev().elapsed_us(far_behind, far_behind)), invalid_argument);
  EXPECT_FALSE(failure_of(one)) << "reported by the event";
}

TEST_P(DeviceContract, AnOldFailureAskedForAgainHidesNoNewOne) {
  stream const one(dev(), stream_kind::compute, "one");
  event const old(dev());
  launch(one, broken(), "first");
  old.record(one);
  EXPECT_TRUE(failure_of(one));
  event const passed(dev());
  launch(one, broken(), "second");
  passed.record(one);
  while (dev().query(passed) == event_status::pending) let_time_pass();
  auto const again = failure_of(old);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->operation(), "first");
  auto const failure = failure_of(one);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->operation(), "second");
}

TEST_P(DeviceContract, AFailureTravelsAlongAWait) {
  stream const producer(dev(), stream_kind::compute, "producer");
  stream const consumer(dev(), stream_kind::compute, "consumer");
  event const produced(dev());
  event const consumed(dev());
  gate held;
  opens_at_end const at_end(held);
  bool ran = false;
  hold(producer, held);
  launch(producer, broken(), "forward");
  produced.record(producer);
  dev().wait(consumer, produced);
  launch(
      consumer, [&ran] { ran = true; }, "backward");
  consumed.record(consumer);
  held.open();
  auto const failure = failure_of(consumer);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->operation(), "forward");
  EXPECT_THAT(failure->what(), ::testing::HasSubstr("producer"));
  EXPECT_THAT(failure->what(), ::testing::HasSubstr("consumer"));
  EXPECT_FALSE(ran);
  EXPECT_EQ(dev().query(consumed), event_status::failed);
  EXPECT_TRUE(failure_of(producer)) << "each stream reports on its own";
}

TEST_P(DeviceContract, AWaitSeesAFailureThatWasReportedBefore) {
  stream const producer(dev(), stream_kind::compute, "producer");
  stream const consumer(dev(), stream_kind::compute, "consumer");
  event const produced(dev());
  bool ran = false;
  launch(producer, broken(), "forward");
  produced.record(producer);
  EXPECT_TRUE(failure_of(producer));
  dev().wait(consumer, produced);
  launch(consumer, [&ran] { ran = true; });
  auto const failure = failure_of(consumer);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->operation(), "forward");
  EXPECT_FALSE(ran);
}

TEST_P(DeviceContract, AnIndependentStreamDoesNotFail) {
  stream const bad(dev(), stream_kind::compute, "bad");
  stream const good(dev(), stream_kind::compute, "good");
  event const before(dev());
  launch(bad, [] {});
  before.record(bad);
  launch(bad, broken());
  dev().wait(good, before);
  bool ran = false;
  launch(good, [&ran] { ran = true; });
  EXPECT_FALSE(failure_of(good));
  EXPECT_TRUE(ran);
  EXPECT_TRUE(failure_of(bad));
}

TEST_P(DeviceContract, SkippedCopiesMoveNothing) {
  if (!dev().capabilities().holds_bytes) GTEST_SKIP() << "this memory is addresses only";
  if (!dev().capabilities().recalls_copies) GTEST_SKIP() << "what is enqueued runs";
  stream const one(dev(), stream_kind::copy, "one");
  memory const there(dev(), memory_space::device, 64);
  memory const here(dev(), memory_space::pinned, 64);
  here.as<unsigned char>()[0] = 7;
  launch(one, broken(), "bad");
  dev().copy(one, "out", copy_direction::device_to_host, here.data(), there.data(), 64);
  EXPECT_TRUE(failure_of(one));
  EXPECT_EQ(here.as<unsigned char>()[0], 7);
}

TEST_P(DeviceContract, CopiesThatCannotBeRecalledRunAndHaveFailedAllTheSame) {
  if (!dev().capabilities().holds_bytes) GTEST_SKIP() << "this memory is addresses only";
  if (dev().capabilities().recalls_copies) GTEST_SKIP() << "copies are recalled";
  stream const one(dev(), stream_kind::copy, "one");
  memory const there(dev(), memory_space::device, 64);
  memory const here(dev(), memory_space::pinned, 64);
  here.as<unsigned char>()[0] = 9;
  dev().copy(one, "in", copy_direction::host_to_device, there.data(), here.data(), 64);
  one.synchronize();
  here.as<unsigned char>()[0] = 7;
  launch(one, broken(), "bad");
  dev().copy(one, "out", copy_direction::device_to_host, here.data(), there.data(), 64);
  event const after(dev());
  after.record(one);
  EXPECT_TRUE(failure_of(one));
  EXPECT_EQ(here.as<unsigned char>()[0], 9);
  EXPECT_EQ(dev().query(after), event_status::failed);
}

TEST_P(DeviceContract, DrainingWaitsAndLeavesTheFailureToBeReported) {
  stream const one(dev(), stream_kind::compute, "one");
  bool ran = false;
  launch(one, [&ran] { ran = true; });
  launch(one, broken(), "bad");
  event const after(dev());
  after.record(one);
  dev().drain(one);
  EXPECT_TRUE(ran);
  EXPECT_EQ(dev().query(after), event_status::failed) << "over";
  bool skipped = true;
  launch(one, [&skipped] { skipped = false; });
  auto const failure = failure_of(one);
  ASSERT_TRUE(failure);
  EXPECT_TRUE(skipped) << "nobody had been told";
  launch(one, [&skipped] { skipped = false; });
  EXPECT_FALSE(failure_of(one));
  EXPECT_FALSE(skipped);
}

TEST_P(DeviceContract, AStreamThatIsGoneIsDrainedAtOnce) {
  auto const gone = dev().create_stream(stream_kind::compute, "gone");
  dev().destroy_stream(gone);
  dev().drain(gone);
  dev().drain({});
}

TEST_P(DeviceContract, AFailureNobodyAskedForDoesNotStopDestruction) {
  auto doomed = make();
  auto const one = doomed->create_stream(stream_kind::compute, "one");
  auto const two = doomed->create_stream(stream_kind::compute, "two");
  auto const mark = doomed->create_event(event_timing::on);
  doomed->launch(one, "bad", {}, broken());
  doomed->record(mark, one);
  doomed->wait(two, mark);
  doomed->launch(two, "skipped", {}, [] {});
  doomed->destroy_stream(two);
  doomed.reset();
}

}  // namespace ferry::testing
