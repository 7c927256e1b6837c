// A place to run one kernel in: the host's serial form on ordinary memory, or a launch on the emulated GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/serial_kernels.hpp"
#include "cudasim/cudasim.hpp"
#include "nn/kernels/kernel_table.hpp"

namespace ferry::nn::testing {

/// How a kernel is launched; `threads` 0: not at all, its serial form is called.
struct launch_way {
  int threads = 0;
  cudasim::mode mode = cudasim::mode::fibers;
  cudasim::thread_order order = cudasim::thread_order::forward;
};

/// Owns the memory of one run; on the GPU, the emulation from its reset on.
class kernel_bench {
 public:
  explicit kernel_bench(launch_way const& how) : how_(how) {
    if (how_.threads == 0) return;
    register_serial_kernels();
    cudasim::reset({.protect_device_memory = false});  // so that results can be looked at where they are
    cudasim::set_mode(how_.mode);
    cudasim::set_thread_order(how_.order, 7);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  kernel_bench(kernel_bench const&) = delete;
  kernel_bench& operator=(kernel_bench const&) = delete;
  ~kernel_bench() {
    for (void* const one : on_gpu_) EXPECT_EQ(cudaFree(one), cudaSuccess);
    if (stream_ == nullptr) return;
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    for (auto const& mistake : cudasim::violations()) ADD_FAILURE() << mistake;
  }

  /// A copy, which stays as long as the bench.
  template <typename T>
  T* put(std::vector<T> const& values) {
    std::size_t const bytes = std::max<std::size_t>(1, values.size()) * sizeof(T);
    void* place = nullptr;
    if (how_.threads == 0) {
      here_.push_back(std::make_unique<std::byte[]>(bytes));
      place = here_.back().get();
    } else {
      EXPECT_EQ(cudaMalloc(&place, bytes), cudaSuccess);
      on_gpu_.push_back(place);
    }
    std::copy(values.begin(), values.end(), static_cast<T*>(place));
    return static_cast<T*>(place);
  }
  template <typename T>
  [[nodiscard]] std::vector<T> get(T const* from, std::size_t count) const {
    return {from, from + count};
  }

  /// `choose` takes the kernel from a table, whichever.
  template <typename Choose, typename... Arguments>
  void run(Choose choose, int blocks, Arguments... arguments) {
    if (how_.threads == 0) {
      choose(kernels::kernels_of_this_cpu())(0, blocks, arguments...);
      return;
    }
    choose(kernels::cuda_kernels())(stream_, blocks, how_.threads, arguments...);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

 private:
  launch_way how_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> here_;
  std::vector<void*> on_gpu_;
};

}  // namespace ferry::nn::testing
