// The kernel language in fibers: indices, barriers, shuffles and shared memory, in any order of the threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "world.hpp"

namespace cuda_test {

/// The sum over a block, as Ferry's kernels form it. Every thread gets it.
__device__ __forceinline__ float sum_of_block(float value) {
  FERRY_SHARED_ARRAY(float, slots, 32);
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  int const warps = static_cast<int>(blockDim.x) / 32;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // the slots may still be read from the sum before
  if (lane == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < warps ? slots[lane] : 0.0F;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  return value;
}

/// sums (blocks): of rows of x (blocks, columns); twice, so that the slots are used again
__global__ void row_sums(float* sums, float const* x, int columns) {
  float const* const row = x + static_cast<long>(blockIdx.x) * columns;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += static_cast<int>(blockDim.x)) sum += row[i];
  sum = sum_of_block(sum);
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += static_cast<int>(blockDim.x)) {
    squares += row[i] * row[i];
  }
  squares = sum_of_block(squares);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum + squares;
}

void row_sums_serial(int first, int last, float* sums, float const* x, int columns) {
  for (int row = first; row < last; ++row) {
    float sum = 0;
    for (int i = 0; i < columns; ++i) sum += x[row * columns + i] + x[row * columns + i] * x[row * columns + i];
    sums[row] = sum;
  }
}

/// out: the thread's number in the grid, at its place
__global__ void write_indices(float* out) {
  unsigned const block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned const place = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[place] = static_cast<float>(place);
}

/// out (threads): prefix of the warp, through shared memory that only the warp's own barriers protect
__global__ void rotate_in_warp(float* out) {
  FERRY_SHARED_ARRAY(float, slots, 128);
  int const own = static_cast<int>(threadIdx.x);
  int const first = own / 32 * 32;
  slots[own] = static_cast<float>(own);
  __syncwarp();
  float const next = slots[first + (own + 1) % 32];
  __syncwarp();
  slots[own] = next * 10;
  out[own] = next;
}

/// A block that is no multiple of a warp: the last lanes have a mask of their own.
__global__ void shuffle_part_of_a_warp(float* out) {
  int const own = static_cast<int>(threadIdx.x);
  unsigned const mask = own < 32 ? 0xFFFFFFFFU : 0xFFFFU;
  out[own] = __shfl_down_sync(mask, static_cast<float>(own), 1, 16);
}

/// out (1): what shared memory holds before anybody wrote it
__global__ void read_stale(float* out) {
  FERRY_SHARED_ARRAY(float, slots, 4);
  if (threadIdx.x == 0) {
    out[blockIdx.x] = slots[0];
    slots[0] = 1;
  }
}

namespace {

using ::testing::IsEmpty;

struct reduction {
  int rows = 6;
  int columns = 300;
  std::vector<float> values = make_values();

  [[nodiscard]] std::vector<float> make_values() const {
    std::vector<float> result(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::sin(static_cast<float>(i)) * 0.5F;
    return result;
  }
  /// What the kernel makes of them.
  [[nodiscard]] std::vector<float> run(unsigned threads) const {
    float* const x = make_device_floats(values.size());
    float* const sums = make_device_floats(static_cast<std::size_t>(rows));
    write(x, values);
    cudaStream_t const stream = make_stream();
    auto const config = on(stream, static_cast<unsigned>(rows), threads);
    EXPECT_EQ(cudaLaunchKernelEx(&config, row_sums, sums, x, columns), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    auto result = read_back(sums, static_cast<std::size_t>(rows));
    cudaStreamDestroy(stream);
    cudaFree(x);
    cudaFree(sums);
    return result;
  }
  [[nodiscard]] double expected(int row) const {
    double sum = 0;
    for (int i = 0; i < columns; ++i) {
      double const value = values[static_cast<std::size_t>(row * columns + i)];
      sum += value + value * value;
    }
    return sum;
  }
};

TEST(Fibers, ReductionsAreRightAtEveryBlockSizeAndInEveryOrder) {
  using enum cudasim::thread_order;
  reduction const task;
  for (unsigned const threads : {32U, 64U, 128U, 256U, 1024U}) {
    std::vector<float> first;
    for (auto const& [order, seed] : {std::tuple{forward, 0}, {reverse, 0}, {shuffled, 1}, {shuffled, 2}}) {
      cudasim::reset();
      cudasim::set_thread_order(order, static_cast<std::uint64_t>(seed));
      auto const sums = task.run(threads);
      for (int row = 0; row < task.rows; ++row) {
        EXPECT_NEAR(sums[static_cast<std::size_t>(row)], task.expected(row), 1e-4);
      }
      if (first.empty()) first = sums;
      EXPECT_EQ(sums, first) << "the order of the threads shows in the bits, at " << threads << " threads";
      EXPECT_THAT(cudasim::violations(), IsEmpty());
      EXPECT_TRUE(cudasim::live().none()) << cudasim::live().text();
    }
  }
}

TEST(Fibers, EveryThreadHasItsIndices) {
  world const w;
  auto config = on(w.compute);
  config.gridDim = dim3(2, 2, 3);
  config.blockDim = dim3(4, 2, 2);
  ASSERT_EQ(cudaLaunchKernelEx(&config, write_indices, w.device[0]), cudaSuccess);
  w.finish();
  auto const numbers = read_back(w.device[0], 192);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<float>(i));
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Fibers, BarriersOfAWarpOrderItsSharedMemory) {
  world const w;
  for (auto const order : {cudasim::thread_order::forward, cudasim::thread_order::shuffled}) {
    cudasim::set_thread_order(order, 3);
    auto const config = on(w.compute, 1, 128);
    ASSERT_EQ(cudaLaunchKernelEx(&config, rotate_in_warp, w.device[0]), cudaSuccess);
    w.finish();
    auto const values = read_back(w.device[0], 128);
    for (int i = 0; i < 128; ++i) {
      EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i / 32 * 32 + (i + 1) % 32));
    }
  }
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Fibers, ShufflesStayWithinTheirWidth) {
  world const w;
  auto const config = on(w.compute, 1, 48);
  ASSERT_EQ(cudaLaunchKernelEx(&config, shuffle_part_of_a_warp, w.device[0]), cudaSuccess);
  w.finish();
  auto const values = read_back(w.device[0], 48);
  for (int i = 0; i < 48; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i % 16 == 15 ? i : i + 1));
  }
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Fibers, SharedMemoryIsPoisonedBeforeEachBlock) {
  world const w;
  auto const config = on(w.compute, 3, 32);
  ASSERT_EQ(cudaLaunchKernelEx(&config, read_stale, w.device[0]), cudaSuccess);
  w.finish();
  for (float const value : read_back(w.device[0], 3)) EXPECT_TRUE(std::isnan(value));
}

TEST(Fibers, StreamsRunKernelsAtTheSameTime) {
  world const w;
  for (int round = 0; round < 20; ++round) {
    w.produce(w.compute, w.device[0], static_cast<float>(round));
    w.produce(w.h2d, w.device[1], static_cast<float>(round));
  }
  w.finish();
  EXPECT_EQ(read_back(w.device[0], 1)[0], 19.0F);
  EXPECT_EQ(read_back(w.device[1], 1)[0], 19.0F);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(SerialMode, RunsTheRegisteredFormOfAKernel) {
  cudasim::reset({.kernels = cudasim::mode::serial});
  cudasim::register_serial(row_sums, row_sums_serial);
  reduction const task;
  auto const sums = task.run(32);
  std::vector<float> expected(static_cast<std::size_t>(task.rows));
  row_sums_serial(0, task.rows, expected.data(), task.values.data(), task.columns);
  EXPECT_EQ(sums, expected);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(SerialMode, StillChecksWhatTheKernelIsGiven) {
  world const w({.kernels = cudasim::mode::serial});
  cudasim::register_serial(row_sums, row_sums_serial);
  w.prefetch(w.h2d, w.device[0], w.pinned[0]);
  auto const config = on(w.compute, 1, 32);
  ASSERT_EQ(cudaLaunchKernelEx(&config, row_sums, w.device[1], w.device[0], 16), cudaSuccess);
  w.finish();
  EXPECT_THAT(cudasim::violations(), ::testing::Contains(::testing::HasSubstr("missing event wait: 'row_sums'")));
}

}  // namespace
}  // namespace cuda_test
