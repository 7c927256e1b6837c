// The emulation in stepped mode: no threads, one virtual clock, and the same run from the same calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/sim_device.hpp"
#include "seeded.hpp"
#include "world.hpp"

namespace cuda_test {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What has run, and when.
using journal = std::vector<std::pair<std::string, nanoseconds>>;

/// A function with a place in the journal.
struct note {
  journal* in;
  std::string text;
};

void write_note(void* argument) {
  auto const& own = *static_cast<note*>(argument);
  own.in->emplace_back(own.text, cudasim::clock().now());
}

void count_call(void* counter) { ++*static_cast<int*>(counter); }

/// Operations of that kind take so long, all others nothing.
void set_cost(std::string const& kind, nanoseconds cost) {
  cudasim::set_operation_cost(
      [kind, cost](std::string_view asked, std::size_t) { return asked == kind ? cost : nanoseconds(0); });
}

TEST(Stepped, NothingRunsBeforeSomebodyWaits) {
  world const w(stepped);
  int ran = 0;
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  cudaEventRecord(w.events[0], w.compute);
  EXPECT_EQ(cudaStreamQuery(w.compute), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(w.events[0]), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(w.d2h), cudaSuccess);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(cudaEventSynchronize(w.events[0]), cudaSuccess);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(cudaStreamQuery(w.compute), cudaSuccess);
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  cudasim::clock().pass_time();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(cudaStreamQuery(w.compute), cudaSuccess);
}

TEST(Stepped, AWaitingStreamIsNotReady) {
  world const w(stepped);
  w.produce(w.compute, w.device[0]);
  w.order(w.compute, w.d2h);
  EXPECT_EQ(cudaStreamQuery(w.d2h), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(w.d2h), cudaSuccess);
}

TEST(Stepped, WorkOfAStreamRunsInOrder) {
  world const w(stepped);
  for (int i = 0; i < world::count; ++i) w.pinned[0][i] = static_cast<float>(i);
  w.prefetch(w.compute, w.device[0], w.pinned[0]);
  w.consume(w.compute, w.device[1], w.device[0]);
  w.consume(w.compute, w.device[1], w.device[1]);
  w.offload(w.compute, w.pinned[1], w.device[1]);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  for (int i = 0; i < world::count; ++i) EXPECT_EQ(w.pinned[1][i], 4.0F * static_cast<float>(i));
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Stepped, StreamsInterleaveByWhatTheirWorkCosts) {
  world const w(stepped);
  journal log;
  note notes[] = {{&log, "a"}, {&log, "b"}, {&log, "c"}, {&log, "d"}, {&log, "e"}};
  auto const launch = [&](cudaStream_t on, int which, int cost) {
    set_cost("host function", microseconds(cost));
    cudaLaunchHostFunc(on, write_note, &notes[which]);
  };
  launch(w.compute, 0, 4);
  launch(w.compute, 1, 4);
  launch(w.d2h, 2, 3);
  launch(w.d2h, 3, 6);
  launch(w.h2d, 4, 5);
  w.finish();
  EXPECT_EQ(log, (journal{{"c", microseconds(3)},
                          {"a", microseconds(4)},
                          {"e", microseconds(5)},
                          {"b", microseconds(8)},
                          {"d", microseconds(9)}}));
}

TEST(Stepped, WaitsLetNoMoreTimePassThanTheyMust) {
  world const w(stepped);
  set_cost("host function", microseconds(10));
  int ran = 0;
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  cudaEventRecord(w.events[0], w.compute);
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  EXPECT_EQ(cudaEventSynchronize(w.events[0]), cudaSuccess);
  EXPECT_EQ(cudasim::clock().now(), microseconds(10));
  EXPECT_EQ(ran, 1);
  cudasim::clock().pass_time(microseconds(4));
  EXPECT_EQ(cudasim::clock().now(), microseconds(14));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudasim::clock().now(), microseconds(20));
  EXPECT_EQ(ran, 2);
}

TEST(Stepped, AWaitIsForTheLatestMark) {
  world const w(stepped);
  set_cost("kernel", microseconds(10));
  cudaStreamWaitEvent(w.d2h, w.events[0]);  // never recorded: nothing to wait for
  EXPECT_EQ(cudaEventQuery(w.events[0]), cudaSuccess);
  w.produce(w.compute, w.device[0], 1);
  cudaEventRecord(w.events[0], w.compute);
  w.produce(w.compute, w.device[0], 2);
  cudaEventRecord(w.events[0], w.compute);
  cudaStreamWaitEvent(w.d2h, w.events[0]);
  w.offload(w.d2h, w.pinned[0], w.device[0]);
  EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaSuccess);
  EXPECT_EQ(w.pinned[0][0], 2.0F);
  EXPECT_EQ(cudasim::clock().now(), microseconds(20));
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Stepped, ElapsedTimeIsThatOfTheClock) {
  world const w(stepped);
  set_cost("kernel", nanoseconds(1500));
  cudaEvent_t const begin = make_event(cudaEventDefault);
  cudaEvent_t const end = make_event(cudaEventDefault);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle) << "never recorded";
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, w.events[0], end), cudaErrorInvalidResourceHandle) << "without timing";
  cudaEventRecord(begin, w.compute);
  w.produce(w.compute, w.device[0]);
  cudaEventRecord(end, w.compute);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_FLOAT_EQ(milliseconds, 0.0015F);
}

TEST(Stepped, CopiesTakeWhatTheLinkSays) {
  world const w(stepped);
  w.offload(w.d2h, w.pinned[0], w.device[0]);
  EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaSuccess);
  EXPECT_EQ(cudasim::clock().now(), nanoseconds(0)) << "links are not paced unless told";
  cudasim::set_link(0, cudasim::direction::device_to_host, 2, 5);
  w.offload(w.d2h, w.pinned[0], w.device[0]);
  w.prefetch(w.h2d, w.device[1], w.pinned[1]);
  EXPECT_EQ(cudaStreamSynchronize(w.h2d), cudaSuccess);
  EXPECT_EQ(cudasim::clock().now(), nanoseconds(0)) << "the other direction";
  EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaSuccess);
  EXPECT_EQ(cudasim::clock().now(), nanoseconds(5000 + 512));
}

TEST(Stepped, CostsAreAskedForWhenWorkIsEnqueued) {
  world const w(stepped);
  using questions = std::vector<std::pair<std::string, std::size_t>>;
  questions asked;
  cudasim::set_operation_cost([&](std::string kind, std::size_t bytes) {
    asked.emplace_back(std::move(kind), bytes);
    return nanoseconds(-1);  // counts as nothing
  });
  w.produce(w.compute, w.device[0]);
  w.offload(w.compute, w.pinned[0], w.device[0], 64);
  w.prefetch(w.compute, w.device[0], w.pinned[0], 32);
  cudaMemcpyAsync(w.device[1], w.device[0], 16, cudaMemcpyDefault, w.compute);
  cudaMemsetAsync(w.device[1], 0, 8, w.compute);
  int ran = 0;
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(
      asked,
      (questions{
          {"kernel", 0}, {"copy D2H", 64}, {"copy H2D", 32}, {"copy D2D", 16}, {"memset", 0}, {"host function", 0}}));
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(cudasim::clock().now(), nanoseconds(0));
}

TEST(Stepped, DestroyingAStreamLetsNoTimePass) {
  start_anew(stepped);
  cudaStream_t const stream = make_stream();
  int ran = 0;
  set_cost("host function", microseconds(1));
  for (int i = 0; i < 3; ++i) cudaLaunchHostFunc(stream, count_call, &ran);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudasim::live().streams, 0U);
  EXPECT_EQ(ran, 0);
  cudasim::clock().pass_time();
  EXPECT_EQ(ran, 1);
  cudaStreamDestroy(make_stream());
  EXPECT_EQ(ran, 1);
  start_anew(stepped);
  EXPECT_EQ(ran, 3) << "finished by the reset";
}

TEST(Stepped, FreedMemoryAndPageableCopiesWaitAsCudaDoes) {
  world const w(stepped);
  std::vector<float> pageable(world::count);
  w.produce(w.compute, w.device[0], 3);
  w.offload(w.compute, pageable.data(), w.device[0]);
  EXPECT_EQ(pageable[0], 3.0F);
  EXPECT_THAT(cudasim::violations(), ElementsAre(HasSubstr("pageable asynchronous copy")));
  float* const freed = make_device_floats(16);
  int ran = 0;
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  EXPECT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_EQ(ran, 1);
}

TEST(Stepped, CallsAreCountedAndFailAsEver) {
  world const w(stepped);
  cudasim::reset_calls();
  std::vector<std::string> called;
  cudasim::set_before_call([&](char const* function) {
    called.emplace_back(function);
    return cudaSuccess;
  });
  cudasim::fail("cudaMemsetAsync", 2, cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(w.device[0], 0, 8, w.compute), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(w.device[0], 0, 8, w.compute), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_THAT(called, ElementsAre("cudaMemsetAsync", "cudaMemsetAsync", "cudaStreamSynchronize"));
  EXPECT_EQ(cudasim::calls().at("cudaMemsetAsync"), 2U);
  cudasim::set_before_call({});
}

// Host functions.

TEST(Stepped, HostFunctionsAreKnownByTheirStreamAlsoNested) {
  world const w(stepped);
  static cudaError_t before_inner, inside_inner, after_inner;
  cudaLaunchHostFunc(
      w.compute,
      [](void*) {
        before_inner = cudaStreamQuery(nullptr);
        cudasim::clock().pass_time();  // runs the other one
        after_inner = cudaStreamQuery(nullptr);
      },
      nullptr);
  cudaLaunchHostFunc(
      w.d2h, [](void*) { inside_inner = cudaStreamQuery(nullptr); }, nullptr);
  w.produce(w.d2h, w.device[0]);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(before_inner, cudaErrorNotPermitted);
  EXPECT_EQ(inside_inner, cudaErrorNotPermitted);
  EXPECT_EQ(after_inner, cudaErrorNotPermitted);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "theirs, not the caller's";
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess) << "the caller is in none";
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_THAT(cudasim::violations(), ElementsAre(HasSubstr("API call in a host function: cudaStreamQuery")));
}

TEST(Stepped, WorkThatThrowsBreaksTheDeviceAndNotTheClock) {
  world const w(stepped);
  int ran = 0;
  cudasim::set_before_operation([](std::string_view kind) {
    if (kind == "memset") throw std::runtime_error("no");
  });
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  cudaMemsetAsync(w.device[0], 0, 8, w.d2h);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaErrorLaunchFailure);
  cudaLaunchHostFunc(w.compute, count_call, &ran);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaErrorLaunchFailure);
  EXPECT_EQ(ran, 1);
}

TEST(Stepped, AHostFunctionThatThrowsLeavesNobodyInside) {
  world const w(stepped);
  cudaLaunchHostFunc(
      w.compute, [](void*) { throw std::runtime_error("no"); }, nullptr);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaErrorLaunchFailure);
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
}

TEST(Stepped, AgentsActInWhateverWaits) {
  world const w(stepped);
  struct offloader final : ferry::virtual_time::agent {
    explicit offloader(world const& in) : w(in) {}
    bool act() override {
      if (acted || cudaEventQuery(w.events[0]) != cudaSuccess) return false;
      acted = true;
      w.offload(w.d2h, w.pinned[0], w.device[0]);
      cudaEventRecord(w.events[1], w.d2h);
      cudaStreamWaitEvent(w.h2d, w.events[1]);
      return true;
    }
    world const& w;
    bool acted = false;
  } agent(w);
  w.produce(w.compute, w.device[0], 7);
  cudaEventRecord(w.events[0], w.compute);
  cudasim::clock().add(agent);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_TRUE(agent.acted);
  EXPECT_EQ(cudaEventSynchronize(w.events[1]), cudaSuccess);
  cudasim::clock().remove(agent);
  EXPECT_EQ(w.pinned[0][0], 7.0F);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

// Stream order, checked as where streams are threads.

TEST(Stepped, AMissingWaitIsReportedThoughTheRunWentWell) {
  expect_reported(
      "missing event wait: 'cudaMemcpyAsync' on stream 2 of device 0 reads 1024 bytes",
      [](world& w, bool right) {
        w.produce(w.compute, w.device[0]);
        cudasim::clock().pass_time();  // it is over, but nobody knows
        if (right) w.order(w.compute, w.d2h);
        w.offload(w.d2h, w.pinned[0], w.device[0]);
      },
      stepped);
}

TEST(Stepped, OnlyWhoSeesTheEndMayUseTheBytes) {
  expect_reported(
      "missing synchronisation: 'checksum'",
      [](world& w, bool right) {
        w.offload(w.d2h, w.pinned[0], w.device[0]);
        cudaEventRecord(w.events[0], w.d2h);
        cudasim::clock().pass_time();
        if (right) static_cast<void>(cudaEventQuery(w.events[0]));
        cudasim::order().host_access(ferry::reads(w.pinned[0], world::bytes), "checksum");
      },
      stepped);
}

TEST(Stepped, AReusedEventHasNoPast) {
  expect_reported(
      "missing event wait",
      [](world& w, bool right) {
        w.produce(w.compute, w.device[0]);
        cudaEventRecord(w.events[0], w.compute);
        if (!right) {
          cudaEventDestroy(w.events[0]);
          w.events[0] = make_event();
        }
        cudaStreamWaitEvent(w.d2h, w.events[0]);
        w.offload(w.d2h, w.pinned[0], w.device[0]);
      },
      stepped);
}

}  // namespace
}  // namespace cuda_test
