// Wrong kernels: each is reported with a text that names its mistake, in whatever order its threads run, and is silent
// once it is put right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "world.hpp"

namespace cuda_test {

/// out (threads) = the neighbour's number. `right`: with a barrier between writing and reading.
__global__ void pass_to_neighbour(float* out, int right) {
  FERRY_SHARED_ARRAY(float, slots, 64);
  int const own = static_cast<int>(threadIdx.x);
  int const count = static_cast<int>(blockDim.x);
  slots[own] = static_cast<float>(own);
  if (right != 0) __syncthreads();
  out[own] = slots[(own + 1) % count];
}

/// The array is used again. `right`: with a barrier between reading and writing anew.
__global__ void pass_twice(float* out, int right) {
  FERRY_SHARED_ARRAY(float, slots, 64);
  int const own = static_cast<int>(threadIdx.x);
  int const count = static_cast<int>(blockDim.x);
  for (int round = 0; round < 2; ++round) {
    if (round > 0 && right != 0) __syncthreads();
    slots[own] = static_cast<float>(own + round);
    __syncthreads();
    out[own] = slots[(own + 1) % count];
  }
}

/// `right`: every thread reaches the barrier, though only some have work.
__global__ void leave_early(float* out, int count, int right) {
  int const own = static_cast<int>(threadIdx.x);
  if (right == 0 && own >= count) return;
  if (own < count) out[own] = 1;
  __syncthreads();
}

/// `right`: one barrier for both branches.
__global__ void barrier_in_branches(float* out, int right) {
  int const own = static_cast<int>(threadIdx.x);
  if (right != 0) {
    __syncthreads();
  } else if (own < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[own] = 1;
}

/// `right`: all lanes of the mask take part.
__global__ void shuffle_in_a_branch(float* out, int right) {
  int const own = static_cast<int>(threadIdx.x);
  float value = static_cast<float>(own);
  if (right != 0 || own % 32 < 16) value = __shfl_down_sync(0xFFFFFFFFU, value, 1);
  out[own] = value;
}

/// `right`: the shuffled lanes are in the mask.
__global__ void shuffle_beyond_the_mask(float* out, int right) {
  int const own = static_cast<int>(threadIdx.x);
  if (own % 32 < 16) out[own] = __shfl_xor_sync(0x0000FFFFU, static_cast<float>(own), right != 0 ? 8 : 16);
}

/// `right`: the array is large enough.
__global__ void run_over_shared_memory(float* out, int right) {
  FERRY_SHARED_ARRAY(float, slots, 48);
  int const own = static_cast<int>(threadIdx.x);
  int const place = right != 0 ? own % 48 : own;
  if (right == 0 || own < 48) slots[place] = 1;
  out[own] = 1;
}

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename... Arguments>
std::vector<std::string> violations_of(cudasim::thread_order order, void (*kernel)(float*, Arguments...),
                                       Arguments... arguments) {
  world const w;
  cudasim::set_thread_order(order, 7);
  auto const config = on(w.compute, 2, 64);
  cudaLaunchKernelEx(&config, kernel, w.device[0], arguments...);
  w.finish();
  return cudasim::violations();
}

void expect_reported(std::string const& text,
                     std::function<std::vector<std::string>(cudasim::thread_order, int right)> const& run) {
  using enum cudasim::thread_order;
  for (auto const order : {forward, reverse, shuffled}) {
    EXPECT_THAT(run(order, 1), IsEmpty());
    EXPECT_THAT(run(order, 0), Contains(HasSubstr(text)));
  }
}

TEST(SeededKernelMistakes, ReadWithoutABarrier) {
  expect_reported("missing __syncthreads",
                  [](auto order, int right) { return violations_of(order, pass_to_neighbour, right); });
}

TEST(SeededKernelMistakes, SharedMemoryReusedWithoutABarrier) {
  expect_reported("missing __syncthreads",
                  [](auto order, int right) { return violations_of(order, pass_twice, right); });
}

TEST(SeededKernelMistakes, ThreadsThatLeaveBeforeABarrier) {
  expect_reported("divergent barrier: 40 threads wait at",
                  [](auto order, int right) { return violations_of(order, leave_early, 40, right); });
}

TEST(SeededKernelMistakes, BarriersInTwoBranches) {
  expect_reported("divergent barrier: thread",
                  [](auto order, int right) { return violations_of(order, barrier_in_branches, right); });
}

TEST(SeededKernelMistakes, ShuffleThatNotAllLanesReach) {
  expect_reported("shuffle with absent lanes: the mask 0xffffffff names lanes 0xffff0000",
                  [](auto order, int right) { return violations_of(order, shuffle_in_a_branch, right); });
}

TEST(SeededKernelMistakes, ShuffleFromALaneOutsideOfTheMask) {
  expect_reported("which is not in the mask 0xffff",
                  [](auto order, int right) { return violations_of(order, shuffle_beyond_the_mask, right); });
}

TEST(SeededKernelMistakes, SharedMemoryOverrun) {
  expect_reported("out of range: thread",
                  [](auto order, int right) { return violations_of(order, run_over_shared_memory, right); });
}

TEST(SeededKernelMistakes, ImpossibleLaunches) {
  world const w;
  auto const launch = [&](unsigned blocks, unsigned threads) {
    auto const config = on(w.compute, blocks, threads);
    return cudaLaunchKernelEx(&config, fill, w.device[0], 16, 1.0F);
  };
  EXPECT_EQ(launch(1, 32), cudaSuccess);
  w.finish();
  EXPECT_THAT(cudasim::violations(), IsEmpty());
  EXPECT_EQ(launch(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_THAT(cudasim::violations(), Contains(HasSubstr("invalid launch: the kernel 'fill' with a block of 1025")));
  EXPECT_EQ(launch(0, 32), cudaErrorInvalidConfiguration);
  EXPECT_THAT(cudasim::violations(), Contains(HasSubstr("a grid of 0 x 1 x 1 blocks")));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace cuda_test
