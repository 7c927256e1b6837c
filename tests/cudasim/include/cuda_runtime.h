// The emulated CUDA runtime with its kernel language: what a source of kernels and launches includes.
//
// A kernel is an ordinary inline function here. Its threads are fibers, so that barriers and shuffles really exchange;
// shared memory comes from FERRY_SHARED_ARRAY alone, whose elements see every access. Arguments that are pointers are
// translated from device addresses; pointers inside of structures are not.
#pragma once

#if !defined(FERRY_CUDASIM)
#error "the emulated CUDA headers are for tests: link the target cudasim, which defines FERRY_CUDASIM"
#endif

#include "cuda_runtime_api.h"
#include "cudasim_kernels.h"

#define __global__ inline
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

/// `count` elements of `type`, one array for all threads of a block; `__shared__ type name[count]` on a GPU.
#define FERRY_SHARED_ARRAY(type, name, count) \
  static char name##_of_the_block;            \
  ::cudasim::shared_array<type> const name(&name##_of_the_block, static_cast<unsigned>(count), #name)

inline constexpr int warpSize = 32;

// Set before a fiber runs. A block's fibers all run on one thread.
inline thread_local constinit uint3 threadIdx{0, 0, 0};
inline thread_local constinit uint3 blockIdx{0, 0, 0};
inline thread_local constinit dim3 blockDim{1, 1, 1};
inline thread_local constinit dim3 gridDim{1, 1, 1};

inline void __syncthreads(char const* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ::cudasim::detail::block_barrier(file, line);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) { ::cudasim::detail::warp_barrier(mask); }

template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  int const lane = ::cudasim::detail::lane();
  int const source = lane ^ lane_mask;
  // A source in a later part of the warp than the caller's own gives the caller's value.
  bool const reachable = source / width <= lane / width;
  return ::cudasim::detail::shuffle(mask, value, reachable ? source : lane);
}

template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  int const lane = ::cudasim::detail::lane();
  int const source = lane + static_cast<int>(delta);
  return ::cudasim::detail::shuffle(mask, value, source / width == lane / width ? source : lane);
}

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  int const first = ::cudasim::detail::lane() / width * width;
  return ::cudasim::detail::shuffle(mask, value, first + source % width);
}

template <typename... Parameters, typename... Arguments>
inline cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config, void (*kernel)(Parameters...),
                                      Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "as many arguments as the kernel has parameters");
  return ::cudasim::detail::launch(
      config, ::cudasim::detail::bound_kernel<Parameters...>(kernel, static_cast<Parameters>(arguments)...));
}

template <typename T>
inline cudaError_t cudaMalloc(T** devPtr, size_t size) {
  return ::cudaMalloc(reinterpret_cast<void**>(devPtr), size);
}
template <typename T>
inline cudaError_t cudaMallocAsync(T** devPtr, size_t size, cudaStream_t stream) {
  return ::cudaMallocAsync(reinterpret_cast<void**>(devPtr), size, stream);
}
template <typename T>
inline cudaError_t cudaHostAlloc(T** ptr, size_t size, unsigned int flags) {
  return ::cudaHostAlloc(reinterpret_cast<void**>(ptr), size, flags);
}
