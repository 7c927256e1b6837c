// What lets one kernel source be compiled by nvcc for a GPU and by a host compiler for the host device.
//
// On the host every block is one thread ("serial mode"): block-stride loops become plain loops, barriers and
// shuffles vanish, and blocks are what runs in parallel. So a kernel is written for any block size:
//   for (int i = threadIdx.x; i < n; i += blockDim.x) ...
// and sums over a block go through `block_sum`, in an order that the block size alone decides.
//
// Serial mode is compiled once per instruction set. Nothing here may use the standard library: an inline
// function compiled for a newer CPU could be what the linker gives to the rest of the program.
#pragma once

#if defined(__CUDACC__) || defined(FERRY_CUDASIM)  // nvcc, or the tests' emulation of a GPU

#include <cuda_runtime.h>

#define FERRY_KERNELS gpu
#define FERRY_KERNEL __global__ void
#define FERRY_KERNEL_FUNCTION __device__ __forceinline__
#define FERRY_SUM_LOOP(variable)
#define FERRY_MAX_LOOP(variable)
#define FERRY_MAP_LOOP

/// An array that the threads of a block share, to be used by index where it is declared: the emulation's header has one
/// that looks at every access.
#if !defined(FERRY_CUDASIM)
#define FERRY_SHARED_ARRAY(type, name, count) __shared__ type name[count]
#endif

namespace ferry::nn::kernels::FERRY_KERNELS {

inline constexpr int warp_size = 32;

template <typename T, typename Combine>
FERRY_KERNEL_FUNCTION T block_reduce(T value, T nothing, Combine combine) {
  FERRY_SHARED_ARRAY(T, slots, 32);  // one for each warp of the largest block
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  }
  int const warps = (static_cast<int>(blockDim.x) + warp_size - 1) / warp_size;
  int const warp = static_cast<int>(threadIdx.x) / warp_size;
  int const lane = static_cast<int>(threadIdx.x) % warp_size;
  __syncthreads();  // the slots may still be read from the reduction before
  if (lane == 0) slots[warp] = value;
  __syncthreads();
  value = nothing;
  if (lane < warps) value = slots[lane];
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  }
  return value;
}

/// Every thread of the block gets the sum. Requires: the block is a multiple of a warp.
template <typename T>
FERRY_KERNEL_FUNCTION T block_sum(T value) {
  return block_reduce(value, T(0), [](T a, T b) { return a + b; });
}
FERRY_KERNEL_FUNCTION float block_max(float value) {
  return block_reduce(value, -3.402823466e38F, [](float a, float b) { return a > b ? a : b; });
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS

#else

#if !defined(FERRY_KERNELS)
#error "define FERRY_KERNELS to the namespace that this instruction set's kernels live in"
#endif

#define FERRY_KERNEL static void
#define FERRY_KERNEL_FUNCTION static inline
#define FERRY_PRAGMA(text) _Pragma(#text)
/// A loop whose sum (or maximum) may be formed in vector lanes; their number is fixed when it is compiled.
#define FERRY_SUM_LOOP(variable) FERRY_PRAGMA(omp simd reduction(+ : variable))
#define FERRY_MAX_LOOP(variable) FERRY_PRAGMA(omp simd reduction(max : variable))
/// A loop whose rounds do not depend on each other.
#define FERRY_MAP_LOOP FERRY_PRAGMA(omp simd)

namespace ferry::nn::kernels::FERRY_KERNELS {

struct index3 {
  int x = 0, y = 0, z = 0;
};
static constexpr index3 threadIdx{};
static constexpr index3 blockDim{1, 1, 1};
static thread_local index3 blockIdx;

template <typename T>
static inline T block_sum(T value) {
  return value;
}
static inline float block_max(float value) { return value; }
static inline void __syncthreads() {}

}  // namespace ferry::nn::kernels::FERRY_KERNELS

#endif
