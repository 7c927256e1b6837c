// What the tests of the emulated CUDA runtime share: a few streams and events, memory on both sides, and kernels.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cudasim/cudasim.hpp"

namespace cuda_test {

/// out (count) = in (count) * factor
__global__ void scale(float* __restrict__ out, float const* __restrict__ in, int count, float factor) {
  int const stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) out[i] = in[i] * factor;
}

/// x (count) = value
__global__ void fill(float* x, int count, float value) {
  int const stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) x[i] = value;
}

/// The emulation without threads, on a virtual clock.
inline constexpr cudasim::options stepped{.stepped = true};

inline void start_anew(cudasim::options const& with = {}) { cudasim::reset(with); }

inline cudaLaunchConfig_t on(cudaStream_t stream, unsigned blocks = 2, unsigned threads = 32) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  return config;
}

inline cudaStream_t make_stream() {
  cudaStream_t result = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&result, cudaStreamNonBlocking), cudaSuccess);
  return result;
}

inline cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t result = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&result, flags), cudaSuccess);
  return result;
}

inline float* make_device_floats(std::size_t count) {
  float* result = nullptr;
  EXPECT_EQ(cudaMalloc(&result, count * sizeof(float)), cudaSuccess);
  return result;
}

inline float* make_pinned_floats(std::size_t count) {
  float* result = nullptr;
  EXPECT_EQ(cudaHostAlloc(&result, count * sizeof(float), cudaHostAllocDefault), cudaSuccess);
  return result;
}

/// The emulation anew, with a trainer's streams and two buffers on each side; all of it goes with the world.
struct world {
  static constexpr int count = 256;
  static constexpr std::size_t bytes = count * sizeof(float);

  explicit world(cudasim::options const& with = {}) {
    start_anew(with);
    compute = make_stream();
    d2h = make_stream();
    h2d = make_stream();
    for (auto& each : events) each = make_event();
    for (auto& each : device) each = make_device_floats(count);
    for (auto& each : pinned) each = make_pinned_floats(count);
  }
  world(world const&) = delete;
  world& operator=(world const&) = delete;
  ~world() {
    finish();
    for (auto* each : {compute, d2h, h2d}) cudaStreamDestroy(each);
    for (auto* each : events) cudaEventDestroy(each);
    for (auto* each : device) cudaFree(each);
    for (auto* each : pinned) cudaFreeHost(each);
  }

  void finish() const {
    for (auto* each : {compute, d2h, h2d}) cudaStreamSynchronize(each);
  }
  /// `later` comes after all that is enqueued on `earlier` now.
  void order(cudaStream_t earlier, cudaStream_t later, int event = 0) const {
    cudaEventRecord(events[event], earlier);
    cudaStreamWaitEvent(later, events[event], 0);
  }
  static void produce(cudaStream_t stream, float* x, float value = 1) {
    auto const config = on(stream);
    cudaLaunchKernelEx(&config, fill, x, count, value);
  }
  static void consume(cudaStream_t stream, float* out, float const* in) {
    auto const config = on(stream);
    cudaLaunchKernelEx(&config, scale, out, in, count, 2.0F);
  }
  static void offload(cudaStream_t stream, float* to, float const* from, std::size_t copied = bytes) {
    cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToHost, stream);
  }
  static void prefetch(cudaStream_t stream, float* to, float const* from, std::size_t copied = bytes) {
    cudaMemcpyAsync(to, from, copied, cudaMemcpyHostToDevice, stream);
  }

  cudaStream_t compute = nullptr, d2h = nullptr, h2d = nullptr;
  cudaEvent_t events[4] = {};
  float* device[2] = {};
  float* pinned[2] = {};
};

/// Device memory as the host sees it after a copy.
inline std::vector<float> read_back(float const* device, std::size_t count) {
  cudaStream_t const stream = make_stream();
  float* const pinned = make_pinned_floats(count);
  EXPECT_EQ(cudaMemcpyAsync(pinned, device, count * sizeof(float), cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  std::vector<float> result(pinned, pinned + count);
  cudaFreeHost(pinned);
  cudaStreamDestroy(stream);
  return result;
}

inline void write(float* device, std::span<float const> values) {
  cudaStream_t const stream = make_stream();
  float* const pinned = make_pinned_floats(values.size());
  std::copy(values.begin(), values.end(), pinned);
  EXPECT_EQ(cudaMemcpyAsync(device, pinned, values.size_bytes(), cudaMemcpyHostToDevice, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaFreeHost(pinned);
  cudaStreamDestroy(stream);
}

}  // namespace cuda_test
