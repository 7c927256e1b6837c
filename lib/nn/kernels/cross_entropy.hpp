// Cross-entropy with its softmax: the row of logits becomes its own gradient, so no probabilities are kept.
#pragma once

#include "nn/kernels/math.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// losses (rows) of logits (rows, V) against targets (rows). If `gradient_scale` is not 0 the logits are replaced by
/// their gradient times it. A block per row.
FERRY_KERNEL cross_entropy(float* __restrict__ losses, float* __restrict__ logits, int const* __restrict__ targets,
                           int V, float gradient_scale) {
  long const row = blockIdx.x;
  logits += row * V;
  float highest = -3.402823466e38F;
  FERRY_MAX_LOOP(highest)
  for (int i = threadIdx.x; i < V; i += blockDim.x) highest = logits[i] > highest ? logits[i] : highest;
  highest = block_max(highest);
  int const target = targets[row];
  float const of_target = logits[target];
  float sum = 0.0F;
  if (gradient_scale == 0.0F) {
    FERRY_SUM_LOOP(sum)
    for (int i = threadIdx.x; i < V; i += blockDim.x) sum += exponential(logits[i] - highest);
    sum = block_sum(sum);
  } else {
    __syncthreads();  // every thread has read the target's logit before one overwrites it
    FERRY_SUM_LOOP(sum)
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
      float const value = exponential(logits[i] - highest);
      logits[i] = value;
      sum += value;
    }
    sum = block_sum(sum);
    float const scale = gradient_scale / sum;
    FERRY_MAP_LOOP
    for (int i = threadIdx.x; i < V; i += blockDim.x) logits[i] *= scale;
    __syncthreads();
    if (threadIdx.x == 0) logits[target] -= gradient_scale;
  }
  if (threadIdx.x == 0) losses[row] = logf(sum) + (highest - of_target);
}

/// total[0] += the sum of losses (rows) times scale. One block.
FERRY_KERNEL add_losses(double* __restrict__ total, float const* __restrict__ losses, int rows, double scale) {
  double sum = 0.0;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += static_cast<double>(losses[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) total[0] += sum * scale;
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
