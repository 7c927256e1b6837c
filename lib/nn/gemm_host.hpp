// Matrix products on the host.
//
// One thread pool serves everything: a product is cut into tiles, in a way that its shape alone decides, and each
// tile is one single-threaded call of the BLAS that the build found, as a oneTBB task.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <string>

#include "ferry/nn/ops.hpp"
#include "nn/kernels/kernel_table.hpp"

namespace ferry::nn {

/// A row-major matrix somewhere in a larger one.
struct tile_operand {
  float const* data = nullptr;
  long stride = 0;  ///< floats from one stored row to the next
  bool transposed = false;
};

/// out (m, n; rows `out_stride` apart) = a (m, k) b (k, n), + out if `accumulate`; on the calling thread.
/// Throws: `error` if the library refuses.
void sgemm(int m, int n, int k, tile_operand a, tile_operand b, float* out, long out_stride, bool accumulate);

/// The whole product, in parallel; call inside the arena that is to run it.
void parallel_gemm(gemm_call const& call, kernels::kernel_table const& kernels);

/// Which library multiplies, and what to change if it takes this CPU for a much older one.
[[nodiscard]] std::string gemm_library();

}  // namespace ferry::nn
