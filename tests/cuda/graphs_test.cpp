// Stream capture, graphs, and work on a virtual clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "world.hpp"

namespace cuda_test {
namespace {

using std::chrono::microseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::atomic<int> host_calls{0};

/// produce -> offload -> a host function, captured on the compute stream.
cudaGraphExec_t capture_offload(world const& w) {
  EXPECT_EQ(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(w.compute, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  w.consume(w.compute, w.device[0], w.device[0]);
  w.offload(w.compute, w.pinned[0], w.device[0]);
  cudaLaunchHostFunc(
      w.compute, [](void*) { ++host_calls; }, nullptr);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(w.compute, &graph), cudaSuccess);
  cudaGraphExec_t result = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&result, graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return result;
}

TEST(CudasimGraphs, ReplayWhatWasCapturedInOrder) {
  world const w;
  host_calls = 0;
  w.produce(w.compute, w.device[0], 1);
  cudaGraphExec_t const graph = capture_offload(w);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(host_calls, 0) << "captured, not run";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(graph, w.compute), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(host_calls, 3);
  EXPECT_EQ(w.pinned[0][0], 8.0F);
  EXPECT_EQ(cudasim::live().graphs, 1U);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudasim::live().graphs, 0U);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(CudasimGraphs, TheOrderOfReplaysIsChecked) {
  world const w(stepped);  // in one thread: with several, the mistake would be a race, which ThreadSanitizer sees
  cudaGraphExec_t const graph = capture_offload(w);
  w.produce(w.h2d, w.device[0], 1);
  cudaGraphLaunch(graph, w.compute);
  w.finish();
  EXPECT_THAT(cudasim::violations(), Contains(HasSubstr("missing event wait: 'scale'")));
  cudaGraphExecDestroy(graph);
}

TEST(CudasimGraphs, OnlyRelaxedThreadsMayWaitWhileAnotherCaptures) {
  world const w;
  ASSERT_EQ(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] {
    auto mode = cudaStreamCaptureModeRelaxed;
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    EXPECT_EQ(cudaEventQuery(w.events[0]), cudaSuccess);
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(w.events[0]), cudaErrorStreamCaptureUnsupported);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(w.compute, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_THAT(cudasim::violations(), Contains(HasSubstr("forbidden while capturing: cudaEventQuery")));
}

TEST(CudasimGraphs, ACaptureCannotWaitForWorkOutside) {
  world const w;
  cudaEventRecord(w.events[0], w.d2h);
  cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(cudaStreamWaitEvent(w.compute, w.events[0]), cudaErrorStreamCaptureIsolation);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(w.compute, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST(VirtualTime, CopiesShareAnEngineAndOverlapWithKernels) {
  world const w;
  cudasim::use_virtual_time({.device_to_host_gbps = 1, .host_to_device_gbps = 1, .kernels_us = {{"fill", 5}}});
  // 1024 bytes at 1 GB/s: 1.024 us each.
  w.offload(w.d2h, w.pinned[0], w.device[0]);
  w.prefetch(w.h2d, w.device[1], w.pinned[1]);
  EXPECT_EQ(cudasim::makespan(), std::chrono::nanoseconds(1024)) << "two directions, two engines";
  cudaStream_t const other = make_stream();
  w.offload(other, w.pinned[0] + 128, w.device[0] + 128, 512);
  EXPECT_EQ(cudasim::makespan(), std::chrono::nanoseconds(1024 + 512)) << "one engine per direction";
  cudaStreamSynchronize(other);
  cudaStreamSynchronize(w.d2h);
  w.produce(w.compute, w.device[0]);
  EXPECT_EQ(cudasim::makespan(), std::chrono::nanoseconds(1536 + 5000)) << "enqueued when the host had waited";
  cudaStreamDestroy(other);
}

TEST(VirtualTime, EventsCarryItAndWaitsTakeTheLatest) {
  world const w;
  cudasim::use_virtual_time({.kernel_us = 10});
  cudaEvent_t const begin = make_event(cudaEventDefault);
  cudaEvent_t const end = make_event(cudaEventDefault);
  cudaEventRecord(begin, w.compute);
  w.produce(w.compute, w.device[0]);
  w.produce(w.compute, w.device[0]);
  w.order(w.compute, w.h2d);
  w.produce(w.h2d, w.device[0]);
  cudaEventRecord(end, w.h2d);
  EXPECT_EQ(cudasim::virtual_now(), microseconds(0));
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudasim::virtual_now(), microseconds(30));
  float milliseconds = 0;
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_FLOAT_EQ(milliseconds, 0.03F);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

}  // namespace
}  // namespace cuda_test
