// What a call of the CUDA runtime is wrapped in. Compiled by nvcc too, so it includes nothing of Ferry's.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace ferry::nn::cuda {

/// Throws: `cuda_error` unless the call succeeded. CUDA's memory of the error is cleared, so that nobody takes it for
/// one of his own.
void require(cudaError_t status, char const* call, std::source_location where = std::source_location::current());

/// Makes a GPU current for the calling thread, and the one before again: CUDA wants it for launches and for cuBLAS.
class current_device {
 public:
  explicit current_device(int ordinal);
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;
  ~current_device();

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace ferry::nn::cuda
