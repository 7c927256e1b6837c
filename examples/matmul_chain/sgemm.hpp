// One matrix product on the calling thread, by whichever BLAS the build found.
//
// Threads: any, at the same time; no call starts threads of its own. The same shape gives the same bits
// whatever else runs, because nothing about the machine's load decides how a call cuts up its sums.
#pragma once

#include <cstddef>

namespace matmul_chain {

/// A row-major matrix as an operand: `transposed` says that the product takes its transpose.
struct operand {
  float const* data = nullptr;
  std::size_t stride = 0;  ///< floats from one stored row to the next
  bool transposed = false;
};

/// c (m, n; rows `c_stride` floats apart) = a (m, k) b (k, n). Throws: `std::runtime_error`.
void sgemm(std::size_t m, std::size_t n, std::size_t k, operand a, operand b, float* c, std::size_t c_stride);

}  // namespace matmul_chain
