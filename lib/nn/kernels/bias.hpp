// Bias and residual, and the sums over rows that are their gradients.
#pragma once

#include "nn/kernels/kernel.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// out (rows, columns; rows `stride` apart) += bias (columns). A block per row.
FERRY_KERNEL add_bias(float* __restrict__ out, long stride, float const* __restrict__ bias, int columns) {
  out += blockIdx.x * stride;
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] += bias[i];
}

/// out += bias + residual, which is laid out as `out` is. A block per row.
FERRY_KERNEL add_bias_and_residual(float* __restrict__ out, long stride, float const* __restrict__ bias,
                                   float const* __restrict__ residual, int columns) {
  out += blockIdx.x * stride;
  residual += blockIdx.x * stride;
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = residual[i] + (out[i] + bias[i]);
}

/// partial (blocks, columns): a block's share of the sum over the rows of x (rows, columns).
FERRY_KERNEL partial_column_sums(float* __restrict__ partial, float const* __restrict__ x, int rows, int columns,
                                 int rows_per_block) {
  float* __restrict__ sums = partial + static_cast<long>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sums[i] = 0.0F;
  long const first = static_cast<long>(blockIdx.x) * rows_per_block;
  long const last = first + rows_per_block < rows ? first + rows_per_block : rows;
  for (long row = first; row < last; ++row) {
    float const* __restrict__ x_row = x + row * columns;
    FERRY_MAP_LOOP
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sums[i] += x_row[i];
  }
}

/// out (columns): the sum of `parts` rows of partial, which are `stride` apart; added to what is there if `accumulate`.
/// A block per `columns_per_block` columns, a thread per column.
FERRY_KERNEL add_partials(float* __restrict__ out, float const* __restrict__ partial, int parts, long stride,
                          int columns, int columns_per_block, int accumulate) {
  int const first = blockIdx.x * columns_per_block;
  int const last = first + columns_per_block < columns ? first + columns_per_block : columns;
  FERRY_MAP_LOOP
  for (int i = first + threadIdx.x; i < last; i += blockDim.x) {
    float sum = 0.0F;
    for (int part = 0; part < parts; ++part) sum += partial[part * stride + i];
    out[i] = accumulate != 0 ? out[i] + sum : sum;
  }
}

/// x (count) = 0. A block per `per_block` values.
FERRY_KERNEL set_to_zero(float* __restrict__ x, long count, int per_block) {
  long const first = static_cast<long>(blockIdx.x) * per_block;
  long const last = first + per_block < count ? first + per_block : count;
  for (long i = first + threadIdx.x; i < last; i += blockDim.x) x[i] = 0.0F;
}

/// x (rows, columns; rows `stride` apart) = 0. A block per row.
FERRY_KERNEL set_rows_to_zero(float* __restrict__ x, long stride, int columns) {
  x += blockIdx.x * stride;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) x[i] = 0.0F;
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
