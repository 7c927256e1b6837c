// The optimiser: the gradients' global norm, and AdamW with decoupled weight decay.
#pragma once

#include <math.h>

#include "ferry/nn/adamw_step.hpp"
#include "nn/kernels/kernel.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// partial (blocks): the sum of squares of a block's share of x (count). A block per `per_block` values.
FERRY_KERNEL partial_squares(double* __restrict__ partial, float const* __restrict__ x, long count, int per_block) {
  long const first = static_cast<long>(blockIdx.x) * per_block;
  long const rest = count - first;
  int const here = rest < per_block ? static_cast<int>(rest) : per_block;
  x += first;
  float sum = 0.0F;
  FERRY_SUM_LOOP(sum)
  for (int i = threadIdx.x; i < here; i += blockDim.x) sum += x[i] * x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = static_cast<double>(sum);
}

/// clip[0] = the norm, clip[1] = what to multiply gradients by so that it is at most `limit` (0: no limit). One block.
FERRY_KERNEL finish_norm(float* __restrict__ clip, double const* __restrict__ partial, int parts, float limit) {
  double sum = 0.0;
  for (int i = threadIdx.x; i < parts; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    float const norm = static_cast<float>(sqrt(sum));
    clip[0] = norm;
    clip[1] = limit > 0.0F && norm > limit ? limit / norm : 1.0F;
  }
}

/// A block per `per_block` values of weight, gradient, m and v (count).
FERRY_KERNEL adamw(float* __restrict__ weight, float const* __restrict__ gradient, float* __restrict__ m,
                   float* __restrict__ v, float const* __restrict__ clip, long count, int per_block, adamw_step how) {
  long const first = static_cast<long>(blockIdx.x) * per_block;
  long const rest = count - first;
  int const here = rest < per_block ? static_cast<int>(rest) : per_block;
  weight += first;
  gradient += first;
  m += first;
  v += first;
  float const scale = clip[1];
  float const keep = 1.0F - how.learning_rate * how.weight_decay;
  float const rate = how.learning_rate / how.correction1;
  float const spread = 1.0F / sqrtf(how.correction2);
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < here; i += blockDim.x) {
    float const g = gradient[i] * scale;
    float const mean = how.beta1 * m[i] + (1.0F - how.beta1) * g;
    float const variance = how.beta2 * v[i] + (1.0F - how.beta2) * g * g;
    m[i] = mean;
    v[i] = variance;
    weight[i] = weight[i] * keep - rate * (mean / (sqrtf(variance) * spread + how.epsilon));
  }
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
