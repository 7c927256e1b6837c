// LayerNorm over the C features of a row. Nothing is kept for backward but the row itself: mean and spread are
// found again while it is in the cache.
#pragma once

#include <math.h>

#include "nn/kernels/kernel.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

struct row_statistics {
  float mean;
  float inverse_deviation;
};

FERRY_KERNEL_FUNCTION row_statistics statistics_of(float const* __restrict__ x, int C) {
  float sum = 0.0F;
  FERRY_SUM_LOOP(sum)
  for (int i = threadIdx.x; i < C; i += blockDim.x) sum += x[i];
  float const mean = block_sum(sum) / static_cast<float>(C);
  float squares = 0.0F;
  FERRY_SUM_LOOP(squares)
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    float const distance = x[i] - mean;
    squares += distance * distance;
  }
  constexpr float epsilon = 1e-5F;
  return {mean, 1.0F / sqrtf(block_sum(squares) / static_cast<float>(C) + epsilon)};
}

/// out, x: (rows, C); weight, bias: (C). A block per row.
FERRY_KERNEL layernorm_forward(float* __restrict__ out, float const* __restrict__ x, float const* __restrict__ weight,
                               float const* __restrict__ bias, int C) {
  long const row = blockIdx.x;
  x += row * C;
  out += row * C;
  row_statistics const of = statistics_of(x, C);
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    out[i] = (x[i] - of.mean) * of.inverse_deviation * weight[i] + bias[i];
  }
}

/// dx (rows, C) gets the gradient, added to what is there if `accumulate`. partial (blocks, 2, C): a block's share of
/// dweight and dbias. A block per `rows_per_block` rows.
FERRY_KERNEL layernorm_backward(float* __restrict__ dx, float* __restrict__ partial, float const* __restrict__ dout,
                                float const* __restrict__ x, float const* __restrict__ weight, int rows, int C,
                                int rows_per_block, int accumulate) {
  float* __restrict__ dweight = partial + 2L * blockIdx.x * C;
  float* __restrict__ dbias = dweight + C;
  for (int i = threadIdx.x; i < C; i += blockDim.x) dweight[i] = dbias[i] = 0.0F;
  long const first = static_cast<long>(blockIdx.x) * rows_per_block;
  long const last = first + rows_per_block < rows ? first + rows_per_block : rows;
  for (long row = first; row < last; ++row) {
    float const* __restrict__ x_row = x + row * C;
    float const* __restrict__ dout_row = dout + row * C;
    float* __restrict__ dx_row = dx + row * C;
    row_statistics const of = statistics_of(x_row, C);
    float sum = 0.0F;
    FERRY_SUM_LOOP(sum)
    for (int i = threadIdx.x; i < C; i += blockDim.x) sum += dout_row[i] * weight[i];
    float projection = 0.0F;
    FERRY_SUM_LOOP(projection)
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
      projection += dout_row[i] * weight[i] * ((x_row[i] - of.mean) * of.inverse_deviation);
    }
    float const mean_gradient = block_sum(sum) / static_cast<float>(C);
    float const mean_projection = block_sum(projection) / static_cast<float>(C);
    FERRY_MAP_LOOP
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
      float const normal = (x_row[i] - of.mean) * of.inverse_deviation;
      dweight[i] += dout_row[i] * normal;
      dbias[i] += dout_row[i];
      float const gradient =
          (dout_row[i] * weight[i] - mean_gradient - normal * mean_projection) * of.inverse_deviation;
      dx_row[i] = accumulate != 0 ? dx_row[i] + gradient : gradient;
    }
  }
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
