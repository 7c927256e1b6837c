// GELU, in its tanh form.
#pragma once

#include "nn/kernels/math.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

FERRY_KERNEL_FUNCTION float gelu_argument(float x) {
  constexpr float sqrt_2_over_pi = 0.797884560802865F;
  return sqrt_2_over_pi * (x + 0.044715F * x * x * x);
}

/// out, x: (rows, columns). A block per row.
FERRY_KERNEL gelu_forward(float* __restrict__ out, float const* __restrict__ x, int columns) {
  long const row = blockIdx.x;
  x += row * columns;
  out += row * columns;
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    out[i] = 0.5F * x[i] * (1.0F + hyperbolic_tangent(gelu_argument(x[i])));
  }
}

/// gradient (rows, columns): of GELU's output, replaced by that of its input x. partial (blocks, columns): a block's
/// share of the sum of its rows, which is the gradient of the bias that was added to x. A block per `rows_per_block`.
FERRY_KERNEL gelu_backward(float* __restrict__ gradient, float* __restrict__ partial, float const* __restrict__ x,
                           int rows, int columns, int rows_per_block) {
  float* __restrict__ sums = partial + static_cast<long>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sums[i] = 0.0F;
  long const first = static_cast<long>(blockIdx.x) * rows_per_block;
  long const last = first + rows_per_block < rows ? first + rows_per_block : rows;
  for (long row = first; row < last; ++row) {
    float const* __restrict__ x_row = x + row * columns;
    float* __restrict__ gradient_row = gradient + row * columns;
    FERRY_MAP_LOOP
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
      constexpr float sqrt_2_over_pi = 0.797884560802865F;
      float const value = x_row[i];
      float const tangent = hyperbolic_tangent(gelu_argument(value));
      float const slope = sqrt_2_over_pi * (1.0F + 3.0F * 0.044715F * value * value);
      float const through = 0.5F * (1.0F + tangent) + 0.5F * value * (1.0F - tangent * tangent) * slope;
      float const result = gradient_row[i] * through;
      gradient_row[i] = result;
      sums[i] += result;
    }
  }
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
