// Whole programs in stepped mode: they repeat exactly, whatever they are made of, and leave no thread; and what the
// mode cannot do is said.
#include <cublas_v2.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ferry/sim_device.hpp"
#include "world.hpp"

namespace cuda_test {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

/// What a run was like: each operation with its time, when all was over, and a byte that all of it led to.
struct outcome {
  std::vector<std::string> log;
  nanoseconds makespan{0};
  float result = 0;
  friend bool operator==(outcome const&, outcome const&) = default;
};

/// A few steps of produce, offload, prefetch and consume, with costs and waits by chance.
outcome run_by_chance(std::uint64_t seed) {
  world const w(stepped);
  outcome seen;
  std::mt19937_64 random(seed);
  cudasim::set_operation_cost([&](char const*, std::size_t) { return nanoseconds(random() % 5000); });
  cudasim::set_before_operation(
      [&](char const* kind) { seen.log.push_back(std::to_string(cudasim::clock().now().count()) + " " + kind); });
  for (int step = 0; step < 20; ++step) {
    w.produce(w.compute, w.device[0], static_cast<float>(step));
    w.order(w.compute, w.d2h, 0);
    w.offload(w.d2h, w.pinned[0], w.device[0]);
    w.order(w.d2h, w.h2d, 1);
    w.prefetch(w.h2d, w.device[1], w.pinned[0]);
    w.order(w.h2d, w.compute, 2);
    w.consume(w.compute, w.device[0], w.device[1]);
    w.order(w.compute, w.h2d, 3);
    if (random() % 3 == 0) cudasim::clock().pass_time();
    if (random() % 4 == 0) cudaEventSynchronize(w.events[random() % 4]);
  }
  w.finish();
  seen.makespan = cudasim::clock().now();
  seen.result = read_back(w.device[0], 1)[0];
  EXPECT_THAT(cudasim::violations(), IsEmpty());
  return seen;
}

TEST(SteppedRuns, TheSameProgramTwiceIsTheSameRun) {
  outcome const first = run_by_chance(1);
  EXPECT_EQ(first.log.size(), 81U);
  EXPECT_EQ(first.result, 38.0F);
  EXPECT_GT(first.makespan, microseconds(20));
  EXPECT_TRUE(run_by_chance(1) == first);
  EXPECT_FALSE(run_by_chance(2).log == first.log) << "other costs, another order";
}

TEST(SteppedRuns, GraphsAreReplayed) {
  world const w(stepped);
  static int calls;
  calls = 0;
  cudasim::set_operation_cost([](char const*, std::size_t) { return microseconds(1); });
  w.produce(w.compute, w.device[0], 1);
  ASSERT_EQ(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  w.consume(w.compute, w.device[0], w.device[0]);
  w.offload(w.compute, w.pinned[0], w.device[0]);
  cudaLaunchHostFunc(
      w.compute, [](void*) { ++calls; }, nullptr);
  EXPECT_EQ(cudaEventSynchronize(w.events[0]), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(w.compute, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_THAT(cudasim::violations(), ElementsAre(HasSubstr("forbidden while capturing: cudaEventSynchronize")));

  ASSERT_EQ(cudaStreamBeginCapture(w.compute, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  w.consume(w.compute, w.device[0], w.device[0]);
  w.offload(w.compute, w.pinned[0], w.device[0]);
  cudaLaunchHostFunc(
      w.compute, [](void*) { ++calls; }, nullptr);
  ASSERT_EQ(cudaStreamEndCapture(w.compute, &graph), cudaSuccess);
  cudaGraphExec_t replayed = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&replayed, graph), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(calls, 0) << "captured, not run";
  EXPECT_EQ(cudasim::clock().now(), microseconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(replayed, w.compute), cudaSuccess);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(w.pinned[0][0], 8.0F);
  EXPECT_EQ(cudasim::clock().now(), microseconds(10));
  EXPECT_EQ(cudaGraphExecDestroy(replayed), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

/// c = a b, of 2 x 2 matrices on the device.
void multiply(cudaStream_t stream, float* c, float const* a, float const* b) {
  cublasHandle_t handle = nullptr;
  EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  float* const workspace = make_device_floats(256);
  EXPECT_EQ(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetWorkspace(handle, workspace, 1024), CUBLAS_STATUS_SUCCESS);
  float const one = 1;
  float const zero = 0;
  EXPECT_EQ(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, b, CUDA_R_32F, 2, a, CUDA_R_32F, 2, &zero, c,
                         CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaFree(workspace), cudaSuccess);
}

TEST(SteppedRuns, KernelsProductsAndPoolsWorkWithoutAnyThread) {
  for (auto const kernels : {cudasim::mode::fibers, cudasim::mode::serial}) {
    world const w({.kernels = kernels, .stepped = true});
    auto const threads = threads_of_this_process();
    w.produce(w.compute, w.device[0], 3);
    w.consume(w.compute, w.device[1], w.device[0]);
    multiply(w.compute, w.device[0] + 64, w.device[0], w.device[1]);
    void* pooled = nullptr;
    EXPECT_EQ(cudaMallocAsync(&pooled, world::bytes, w.compute), cudaSuccess);
    cudaMemcpyAsync(pooled, w.device[0] + 64, 16, cudaMemcpyDefault, w.compute);
    w.offload(w.compute, w.pinned[0], static_cast<float*>(pooled), 16);
    EXPECT_EQ(cudaFreeAsync(pooled, w.compute), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
    EXPECT_EQ(w.pinned[0][0], 36.0F);
    EXPECT_LE(threads_of_this_process(), threads);
    EXPECT_THAT(cudasim::violations(), IsEmpty());
  }
}

TEST(SteppedRuns, TimeCountedBesideTheWorkIsTheSame) {
  world const w(stepped);
  cudasim::use_virtual_time({.kernel_us = 10});
  w.produce(w.compute, w.device[0]);
  w.produce(w.compute, w.device[0]);
  EXPECT_EQ(cudasim::makespan(), microseconds(20));
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess);
  EXPECT_EQ(cudasim::virtual_now(), microseconds(20));
}

TEST(SteppedRuns, AWaitInVainThrows) {
  world const w(stepped);
  cudasim::clock().slow_down({.from = cudasim::clock().now(), .until = microseconds(1)});
  w.produce(w.compute, w.device[0]);
  EXPECT_EQ(cudaStreamSynchronize(w.compute), cudaSuccess) << "it goes on after a while";
  EXPECT_EQ(cudasim::clock().now(), microseconds(1));
  cudasim::clock().slow_down({.from = microseconds(1)});
  int ran = 0;
  cudaLaunchHostFunc(
      w.compute, [](void* counter) { ++*static_cast<int*>(counter); }, &ran);
  w.order(w.compute, w.d2h);
  EXPECT_THROW(cudaStreamSynchronize(w.compute), ferry::deadlock_error);
  EXPECT_THROW(cudaStreamSynchronize(w.d2h), ferry::deadlock_error);
  EXPECT_THROW(cudaEventSynchronize(w.events[0]), ferry::deadlock_error);
  EXPECT_THROW(cudaDeviceSynchronize(), ferry::deadlock_error);
  start_anew(stepped);  // drops what never ends, and `w` has nothing left to wait for
  EXPECT_EQ(ran, 0);
}

TEST(SteppedRuns, LinksCannotBeStalled) {
  start_anew(stepped);
  EXPECT_THROW(cudasim::stall(0, cudasim::direction::device_to_host), std::logic_error);
  EXPECT_THROW(cudasim::resume(0, cudasim::direction::device_to_host), std::logic_error);
}

TEST(SteppedRuns, AResetGoesFromEitherModeToTheOther) {
  for (int round = 0; round < 3; ++round) {
    for (bool const in_steps : {true, false}) {
      world const w({.stepped = in_steps});
      w.produce(w.compute, w.device[0], 5);
      w.order(w.compute, w.d2h);
      w.offload(w.d2h, w.pinned[0], w.device[0]);
      EXPECT_EQ(cudaStreamSynchronize(w.d2h), cudaSuccess);
      EXPECT_EQ(w.pinned[0][0], 5.0F);
      EXPECT_EQ(cudasim::live().streams, 3U);
      EXPECT_EQ(cudasim::live().events, 4U);
      EXPECT_THAT(cudasim::violations(), IsEmpty());
      if (in_steps) {
        EXPECT_EQ(cudasim::clock().now(), nanoseconds(0));
      } else {
        EXPECT_THROW(static_cast<void>(cudasim::clock()), std::logic_error);
      }
    }
    EXPECT_TRUE(cudasim::live().none()) << cudasim::live().text();
  }
}

TEST(SteppedRuns, ManyResetsInARow) {
  for (int round = 0; round < 500; ++round) {
    cudasim::reset(stepped);
    cudaStream_t const stream = make_stream();
    cudaEvent_t const event = make_event();
    cudaEventRecord(event, stream);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    ASSERT_TRUE(cudasim::live().none());
  }
}

}  // namespace
}  // namespace cuda_test
