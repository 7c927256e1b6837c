// The sim device: exact virtual times, what slows it down or fails, and waits that can never end.
#include "ferry/sim_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "support/pause.hpp"
#include "support/session_fixture.hpp"

namespace ferry {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto out = copy_direction::device_to_host;
constexpr auto in = copy_direction::host_to_device;
constexpr std::size_t megabyte = 1'000'000;

/// Kernels cost as many microseconds as their name's length times ten; links carry 1 MB in 100 us, with 7 us latency.
sim_device_options plain() {
  sim_device_options options{.device_bytes = std::size_t{80} << 30, .pinned_bytes = std::size_t{80} << 30};
  options.device_to_host = options.host_to_device = {.gbps = 10, .latency_us = 7};
  options.kernel_cost = [](label const& name, auto) -> nanoseconds { return 10us * name.view().size(); };
  return options;
}

class calling_agent final : public virtual_time::agent {
 public:
  explicit calling_agent(std::function<bool()> act) : act_(std::move(act)) {}
  bool act() override { return act_(); }

 private:
  std::function<bool()> act_;
};

class SimDevice : public ::testing::Test {
 protected:
  void start(sim_device_options options = plain()) {
    options.observe = [this](sim_operation const& over) { trace_.push_back(over); };
    device_ = make_sim_device(std::move(options));
    compute_.emplace(*device_, stream_kind::compute, "compute");
    other_.emplace(*device_, stream_kind::compute, "other");
    copies_.emplace(*device_, stream_kind::copy, "copies");
    on_device_ = memory(*device_, memory_space::device, megabyte);
    pinned_ = memory(*device_, memory_space::pinned, megabyte);
  }
  void TearDown() override {
    compute_.reset();
    other_.reset();
    copies_.reset();
    on_device_ = {};
    pinned_ = {};
  }

  void launch(stream_ref on, label const& name) {
    device_->launch(on, name, {}, [] {});
  }
  void copy(stream_ref on, label const& name, copy_direction direction, std::size_t bytes = megabyte) {
    bool const away = direction == out;
    device_->copy(on, name, direction, away ? pinned_.data() : on_device_.data(),
                  away ? on_device_.data() : pinned_.data(), bytes);
  }
  /// "name start-end", in microseconds, in the order they ended.
  [[nodiscard]] std::vector<std::string> trace() const {
    std::vector<std::string> lines;
    auto const us = [](nanoseconds time) { return std::to_string(time.count() / 1000); };
    for (auto const& each : trace_) {
      lines.push_back(each.name.str() + " " + us(each.start) + "-" + us(each.end) + (each.failed ? " failed" : ""));
    }
    return lines;
  }

  std::vector<sim_operation> trace_;
  std::unique_ptr<sim_device> device_;
  std::optional<stream> compute_;
  std::optional<stream> other_;
  std::optional<stream> copies_;
  memory on_device_;
  memory pinned_;
};

TEST_F(SimDevice, TimeStandsStillUntilSomebodyWaits) {
  start();
  launch(*compute_, "abc");
  EXPECT_EQ(device_->now(), 0ns);
  compute_->synchronize();
  EXPECT_EQ(device_->now(), 30us);
  compute_->synchronize();
  EXPECT_EQ(device_->now(), 30us);
}

TEST_F(SimDevice, CopiesSlowKernelsDown) {
  auto options = plain();
  options.beside = {.compute_beside_out = 0.5};
  start(options);
  launch(*compute_, "0123456789abcdefghij");  // 200 us, of which 107 beside the copy
  copy(*copies_, "out", out);
  compute_->synchronize();
  EXPECT_THAT(trace(), ElementsAre("out 0-107", "0123456789abcdefghij 0-253"));
}

TEST_F(SimDevice, TheTwoDirectionsDisturbEachOther) {
  auto options = plain();
  options.device_to_host.latency_us = options.host_to_device.latency_us = 0;
  options.beside = {.out_beside_back = 0.8, .back_beside_out = 0.5};
  start(options);
  copy(*copies_, "out", out);
  copy(*other_, "back", in);
  device_->synchronize(*copies_);
  device_->synchronize(*other_);
  // Out takes 100 us at 0.8; of what comes back half as much has moved by then.
  EXPECT_THAT(trace(), ElementsAre("out 0-125", "back 0-162"));
}

TEST_F(SimDevice, ContentionAndSlowDownsMultiply) {
  auto options = plain();
  options.device_to_host.latency_us = 0;
  options.beside = {.compute_beside_out = 0.5};
  options.slow_downs = {{sim_engine::compute, 2, 0ns, 60us}};
  start(options);
  launch(*compute_, "0123456789");  // 100 us: a quarter of the speed until 60, half until 100, all of it then
  copy(*copies_, "out", out);
  compute_->synchronize();
  EXPECT_THAT(trace(), ElementsAre("out 0-100", "0123456789 0-165"));
}

TEST_F(SimDevice, RejectsSharesThatAreNone) {
  for (double const share : {0.0, -1.0, 1.5}) {
    auto options = plain();
    options.beside.compute_beside_back = share;
    EXPECT_THROW(start(options), invalid_argument);
  }
}

TEST_F(SimDevice, KernelsOfTwoStreamsOverlap) {
  start();
  launch(*compute_, "abcde");
  launch(*other_, "ab");
  launch(*other_, "a");
  launch(*compute_, "abcd");
  compute_->synchronize();
  EXPECT_THAT(trace(), ElementsAre("ab 0-20", "a 20-30", "abcde 0-50", "abcd 50-90"));
}

TEST_F(SimDevice, EventsCarryTimesFromStreamToStream) {
  start();
  event const produced(*device_);
  launch(*compute_, "abc");
  produced.record(*compute_);
  launch(*compute_, "abcdef");
  device_->wait(*other_, produced);
  launch(*other_, "a");
  event const begin(*device_, event_timing::on);
  event const end(*device_, event_timing::on);
  begin.record(*other_);
  launch(*other_, "ab");
  end.record(*other_);
  end.synchronize();
  EXPECT_EQ(device_->now(), 60us);
  EXPECT_EQ(device_->elapsed_us(begin, end), 20);
  EXPECT_THAT(trace(), ElementsAre("abc 0-30", "a 30-40", "ab 40-60"));
}

TEST_F(SimDevice, AnIdleLinkAddsItsLatencyAndAQueueHidesIt) {
  start();
  for (int i = 0; i < 4; ++i) copy(*copies_, "c", out, megabyte / 4);
  copies_->synchronize();
  EXPECT_EQ(device_->now(), 107us) << "in chunks as fast as whole";
  copy(*copies_, "d", out);
  copies_->synchronize();
  EXPECT_EQ(device_->now(), 207us) << "ready the moment the link is free";
  launch(*compute_, "a");
  compute_->synchronize();
  copy(*copies_, "e", out);
  copies_->synchronize();
  EXPECT_EQ(device_->now(), (207us + 10us) + (7us + 100us));
}

TEST_F(SimDevice, DirectionsCopySideBySideAndStreamsShareADirection) {
  start();
  stream const more(*device_, stream_kind::copy, "more");
  copy(*copies_, "a", out);
  copy(more, "b", out);
  copy(*other_, "c", in);
  launch(*compute_, "abcde");
  for (stream_ref const each : {copies_->ref(), more.ref(), other_->ref(), compute_->ref()}) device_->synchronize(each);
  EXPECT_THAT(trace(), ElementsAre("abcde 0-50", "a 0-107", "c 0-107", "b 107-207"));
}

TEST_F(SimDevice, CopiesQueueInTheOrderTheyBecomeReady) {
  start();
  stream const more(*device_, stream_kind::copy, "more");
  launch(*copies_, "ab");  // enqueued first, ready last
  copy(*copies_, "late", out);
  launch(more, "a");
  copy(more, "early", out);
  copies_->synchronize();
  EXPECT_THAT(trace(), ElementsAre("a 0-10", "ab 0-20", "early 10-117", "late 117-217"));
}

TEST_F(SimDevice, AFunctionRunsWhenItsKernelIsOver) {
  start();
  nanoseconds seen{-1};
  device_->launch(*compute_, "abc", {}, [&] { seen = device_->now(); });
  EXPECT_EQ(seen, -1ns);
  compute_->synchronize();
  EXPECT_EQ(seen, 30us);
}

TEST_F(SimDevice, PassesTimeToTheNextThingThatHappens) {
  start();
  launch(*compute_, "abc");
  launch(*other_, "a");
  device_->pass_time();
  EXPECT_EQ(device_->now(), 10us);
  device_->pass_time();
  EXPECT_EQ(device_->now(), 30us);
  EXPECT_THROW(device_->pass_time(), deadlock_error);
}

TEST_F(SimDevice, PassesNoMoreTimeThanAsked) {
  start();
  device_->pass_time(25us);
  EXPECT_EQ(device_->now(), 25us) << "nothing need happen";
  launch(*compute_, "1234");
  device_->pass_time(15us);
  EXPECT_EQ(device_->now(), 25us + 15us);
  EXPECT_TRUE(trace_.empty());
  device_->pass_time(1ms);
  EXPECT_EQ(device_->now(), 25us + 40us) << "something happens before";
  EXPECT_EQ(trace_.size(), 1U);
  launch(*compute_, "1234");
  device_->pass_time(40us);
  EXPECT_EQ(trace_.size(), 2U) << "what happens at that very instant has happened";
  EXPECT_EQ(device_->now(), 25us + 80us);
}

TEST_F(SimDevice, ABoundedWaitForWhatNeverHappensEnds) {
  auto options = plain();
  options.slow_downs = {{.what = sim_engine::compute}};
  start(std::move(options));
  launch(*compute_, "never");
  EXPECT_THROW(device_->pass_time(), deadlock_error);
  device_->pass_time(3ms);
  EXPECT_EQ(device_->now(), 3ms);
}

TEST_F(SimDevice, ABoundedWaitIsNoneIfAnAgentHasSomethingToDo) {
  start();
  int left = 1;
  calling_agent agent([&] { return left-- > 0; });
  device_->add(agent);
  device_->pass_time(5us);
  EXPECT_EQ(device_->now(), 0us);
  device_->pass_time(5us);
  EXPECT_EQ(device_->now(), 5us);
  device_->remove(agent);
}

TEST_F(SimDevice, PatienceLooksAsOftenAsItIsTold) {
  start();
  launch(*compute_, "1234");
  patience waiting(*device_);
  waiting.wait_or_look(12.5);
  EXPECT_EQ(waiting.waited_us(), 12.5);
  waiting.wait_or_look(0);
  EXPECT_EQ(waiting.waited_us(), 13.5) << "time always passes";
  waiting.wait_or_look(0.0001 + 1);
  EXPECT_EQ(waiting.waited_us(), 13.5 + 1.001) << "whole nanoseconds, rounded up";
  waiting.wait_or_look(1000);
  EXPECT_EQ(waiting.waited_us(), 40) << "something happened";
  waiting.wait_or_look(7);
  EXPECT_EQ(waiting.waited_us(), 47) << "with nothing under way it does not wait for ever";
  EXPECT_THROW(waiting.wait(), deadlock_error);
}

TEST(Patience, InRealTimeALookIsNeverFar) {
  auto const host = make_host_device({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  patience waiting(*host);
  for (double const longest_us : {0.0, 100.0, 1e9}) {
    double const before_us = waiting.waited_us();
    waiting.wait_or_look(longest_us);
    double const took_us = waiting.waited_us() - before_us;
    EXPECT_GE(took_us, 25);
    EXPECT_LT(took_us, 1e6) << "though it was told it may be long";
  }
}

TEST_F(SimDevice, WithoutACostFunctionAKernelCostsItsAccesses) {
  auto options = plain();
  options.kernel_cost = nullptr;
  options.memory_gbps = 2000;
  start(std::move(options));
  std::array const accesses{reads(on_device_.data(), megabyte), writes(on_device_.data(), megabyte)};
  device_->launch(*compute_, "k", accesses, [] {});
  compute_->synchronize();
  EXPECT_EQ(device_->now(), 1us);
}

TEST_F(SimDevice, ACostBelowZeroIsRefused) {
  auto options = plain();
  options.kernel_cost = [](label const&, auto) { return -1ns; };
  start(std::move(options));
  EXPECT_THROW(launch(*compute_, "k"), invalid_argument);
}

TEST_F(SimDevice, ASlowDownCountsForItsWindowOnly) {
  start();
  // Of 107 us, 50 pass at full speed, 20 at a third of it (in 60), the other 37 at full speed again.
  device_->slow_down({.what = sim_engine::device_to_host, .factor = 3, .from = 50us, .until = 110us});
  copy(*copies_, "a", out);
  copy(*copies_, "b", out);
  copy(*other_, "c", in);
  copies_->synchronize();
  EXPECT_THAT(trace(), ElementsAre("c 0-107", "a 0-147", "b 147-247"));
}

TEST_F(SimDevice, AStallHoldsWhatIsUnderWay) {
  start();
  device_->slow_down({.what = sim_engine::host_to_device, .from = 57us, .until = 1057us});
  copy(*copies_, "a", in);
  copies_->synchronize();
  EXPECT_EQ(device_->now(), 1107us);
}

TEST_F(SimDevice, KernelsSlowDownTooAndFactorsMultiply) {
  auto options = plain();
  options.slow_downs = {{.what = sim_engine::compute, .factor = 2}, {.what = sim_engine::compute, .factor = 1.5}};
  start(std::move(options));
  launch(*compute_, "ab");
  copy(*copies_, "a", in);
  copies_->synchronize();
  compute_->synchronize();
  EXPECT_THAT(trace(), ElementsAre("ab 0-60", "a 0-107"));
  EXPECT_THROW(device_->slow_down({.factor = 0}), invalid_argument);
}

TEST_F(SimDevice, TheNthOfANameFails) {
  auto options = plain();
  options.failures = {{.name = "b", .nth = 2}};
  start(std::move(options));
  for (auto const* const name : {"a", "b", "c", "b", "d"}) launch(*compute_, name);
  try {
    compute_->synchronize();
    FAIL() << "no failure";
  } catch (stream_error const& failure) {
    EXPECT_EQ(failure.operation(), "b");
    EXPECT_THAT(failure.what(), HasSubstr("told to fail"));
  }
  EXPECT_THAT(trace(), ElementsAre("a 0-10", "b 10-20", "c 20-30", "b 30-40 failed")) << "what is behind it is skipped";
  launch(*compute_, "b");
  compute_->synchronize();
  EXPECT_EQ(device_->now(), 50us);
}

TEST_F(SimDevice, AnyNthFailsAndCopiesToo) {
  start();
  device_->fail({.name = {}, .nth = 2});
  launch(*compute_, "a");
  copy(*copies_, "c", out);
  EXPECT_NO_THROW(compute_->synchronize());
  EXPECT_THROW(copies_->synchronize(), stream_error);
  EXPECT_THROW(device_->fail({.name = "a", .nth = 0}), invalid_argument);
}

TEST_F(SimDevice, AWaitThatNeverEndsSaysWhoWaitsForWhat) {
  start();
  device_->slow_down({.what = sim_engine::host_to_device, .from = 50us});
  event const arrived(*device_);
  stream const more(*device_, stream_kind::copy, "more");
  copy(*copies_, "item", in);
  arrived.record(*copies_);
  copy(more, "next", in);
  device_->wait(*compute_, arrived);
  launch(*compute_, "abc");
  launch(*other_, "a");
  for (int i = 0; i < 2; ++i) {
    testing::expect_error<deadlock_error>([&] { compute_->synchronize(); },
                                          "the stream 'compute' waits for the stream 'copies', up to 'item'",
                                          "the stream 'copies' stands still in the copy 'item' from host to device",
                                          "the stream 'more' waits with the copy 'next' for the link");
  }
  EXPECT_EQ(device_->now(), 10us) << "all that could happen has";
  other_->synchronize();
}

TEST_F(SimDevice, AStreamThatNeverEndsIsDroppedWithWhatItCaptured) {
  start();
  auto captured = std::make_shared<int>(1);
  std::weak_ptr<int> const watch = captured;
  event const mark(*device_);
  {
    stream const stuck(*device_, stream_kind::compute, "stuck");
    device_->slow_down({.what = sim_engine::compute, .until = 1s});
    launch(stuck, "abc");
    device_->slow_down({.what = sim_engine::host_to_device});
    copy(stuck, "never", in);
    device_->launch(stuck, "k", {}, [captured = std::move(captured)] {});
    mark.record(stuck);
  }
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(device_->query(mark), event_status::failed);
  EXPECT_EQ(device_->now(), 1s + 30us);
}

TEST_F(SimDevice, AgentsActOnWhatHappens) {
  start();
  // Keeps one copy under way as long as there are any, as a thread of its own would.
  event const done(*device_);
  int left = 3;
  calling_agent agent([&] {
    if (left == 0 || device_->query(done) == event_status::pending) return false;
    copy(*copies_, "c", out);
    done.record(*copies_);
    --left;
    return true;
  });
  device_->add(agent);
  EXPECT_TRUE(device_->settle());
  EXPECT_FALSE(device_->settle());
  EXPECT_EQ(left, 2);
  while (left > 0) device_->pass_time();
  copies_->synchronize();
  EXPECT_EQ(device_->now(), 307us);
  device_->remove(agent);
}

TEST_F(SimDevice, MemoryIsBoundedAndCostsNothing) {
  start();
  memory const most(*device_, memory_space::device, std::size_t{79} << 30);
  EXPECT_THROW(memory(*device_, memory_space::device, std::size_t{1} << 30), out_of_device_memory);
  EXPECT_FALSE(device_->capabilities().holds_bytes);
  EXPECT_FALSE(device_->capabilities().host_addressable);
  EXPECT_GT(device_->capabilities().addresses_per_byte, 1U);
}

TEST_F(SimDevice, RefusesAnImpossibleLink) {
  auto options = plain();
  options.host_to_device.gbps = -1;
  EXPECT_THROW(static_cast<void>(make_sim_device(options)), invalid_argument);
  start();
  EXPECT_THROW(device_->set_link(in, {.gbps = 1, .latency_us = -1}), invalid_argument);
  device_->set_link(in, {.gbps = 20, .latency_us = 0});
  copy(*copies_, "a", in);
  copies_->synchronize();
  EXPECT_EQ(device_->now(), 50us);
}

TEST_F(SimDevice, TheSameCallsGiveTheSameTimes) {
  auto const run = [this] {
    start();
    trace_.clear();
    device_->slow_down({.what = sim_engine::device_to_host, .factor = 1.7, .from = 33us, .until = 777us});
    event const mark(*device_);
    for (int i = 0; i < 50; ++i) {
      launch(*compute_, std::string(static_cast<std::size_t>(1 + i * 7 % 5), 'k'));
      mark.record(*compute_);
      device_->wait(*copies_, mark);
      copy(*copies_, "c", i % 3 == 0 ? in : out, 1000 + static_cast<std::size_t>(i) * 12'345 % megabyte);
    }
    copies_->synchronize();
    auto lines = trace();
    lines.push_back(std::to_string(device_->now().count()));
    TearDown();
    return lines;
  };
  EXPECT_EQ(run(), run());
}

TEST(MakeDevice, SimTakesTheHostDevicesSettings) {
  config settings;
  settings.device = "sim";
  settings.device_bytes = 1 << 20;
  settings.pinned_bytes = 2 << 20;
  settings.link_latency_us = {3, 4, false};
  auto const automatic = make_device(settings);
  auto const* sim = dynamic_cast<sim_device*>(automatic.get());
  ASSERT_NE(sim, nullptr);
  EXPECT_EQ(sim->capabilities().device_bytes, std::size_t{1} << 20);
  EXPECT_EQ(sim->capabilities().pinned_bytes, std::size_t{2} << 20);
  EXPECT_TRUE(sim->capabilities().host_addressable);
  EXPECT_EQ(sim->link(out).gbps, 25);
  EXPECT_EQ(sim->link(in).latency_us, 4);
  settings.link_gbps = {1, 2, false};
  auto const set = make_device(settings);
  EXPECT_EQ(dynamic_cast<sim_device&>(*set).link(in).gbps, 2);
}

}  // namespace
}  // namespace ferry
