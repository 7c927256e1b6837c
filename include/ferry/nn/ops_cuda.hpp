// The operations on a GPU: the kernels of kernels.cu, and cuBLAS.
//
// Threads: any. Streams: of the one device. Results depend on the GPU's type and on cuBLAS' version, and on nothing
// else.
#pragma once

#include <cstddef>
#include <memory>

#include "ferry/cuda_device.hpp"
#include "ferry/export.h"
#include "ferry/nn/ops.hpp"

namespace ferry::nn {

/// What the operations on a GPU are made with.
struct cuda_ops_options {
  bool tf32 = false;  ///< products on tensor cores, with 10 bits of each factor's mantissa
};

/// The most device memory that they take for themselves.
inline constexpr std::size_t cuda_ops_bytes = std::size_t{32} << 20;

/// Throws: `no_cuda` without cuBLAS, or in a build without CUDA; `cuda_error`; `out_of_device_memory`.
[[nodiscard]] FERRY_API std::unique_ptr<ops> make_cuda_ops(cuda_device& on, cuda_ops_options const& options = {});

}  // namespace ferry::nn
