// The softmax of causal attention, whole (`explicit`) and by tiles with running statistics (`tiled`).
#pragma once

#include "nn/kernels/math.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// scores (..., T, T) = softmax(scale * scores) over what a query may see, 0 beyond. A block per query, counted over
/// all heads.
FERRY_KERNEL causal_softmax_forward(float* __restrict__ scores, int T, float scale) {
  long const row = blockIdx.x;
  int const visible = static_cast<int>(row % T) + 1;
  scores += row * T;
  float highest = -3.402823466e38F;
  FERRY_MAX_LOOP(highest)
  for (int i = threadIdx.x; i < visible; i += blockDim.x) highest = scores[i] > highest ? scores[i] : highest;
  highest = block_max(highest);
  float sum = 0.0F;
  FERRY_SUM_LOOP(sum)
  for (int i = threadIdx.x; i < visible; i += blockDim.x) {
    float const value = exponential((scores[i] - highest) * scale);
    scores[i] = value;
    sum += value;
  }
  float const inverse = 1.0F / block_sum(sum);
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < visible; i += blockDim.x) scores[i] *= inverse;
  for (int i = visible + static_cast<int>(threadIdx.x); i < T; i += blockDim.x) scores[i] = 0.0F;
}

/// gradient (..., T, T): of the probabilities, replaced by that of the scores before scaling. A block per query.
FERRY_KERNEL causal_softmax_backward(float* __restrict__ gradient, float const* __restrict__ probabilities, int T,
                                     float scale) {
  long const row = blockIdx.x;
  int const visible = static_cast<int>(row % T) + 1;
  gradient += row * T;
  probabilities += row * T;
  float sum = 0.0F;
  FERRY_SUM_LOOP(sum)
  for (int i = threadIdx.x; i < visible; i += blockDim.x) sum += gradient[i] * probabilities[i];
  sum = block_sum(sum);
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < visible; i += blockDim.x) gradient[i] = probabilities[i] * (gradient[i] - sum) * scale;
  for (int i = visible + static_cast<int>(threadIdx.x); i < T; i += blockDim.x) gradient[i] = 0.0F;
}

// The kernels below take a tile of queries of one head, or those of several heads at once: `queries` blocks for the
// first, then as many for the next. What is d features wide holds the heads side by side: (queries, heads, d).

struct query_of_head {
  long head;
  long query;
};

FERRY_KERNEL_FUNCTION query_of_head query_of(long row, int queries) { return {row / queries, row % queries}; }

/// One more tile of keys for some queries. scores (heads, queries, keys) becomes the unnormalised probabilities;
/// highest and sum (heads, queries) are the running statistics; out (queries, heads, d; rows `out_stride` apart) is
/// scaled down to the new maximum. Query r sees keys up to r + first_visible. `first`: there was no tile before. A
/// block per query.
FERRY_KERNEL tile_softmax_forward(float* __restrict__ scores, float* __restrict__ highest, float* __restrict__ sums,
                                  float* __restrict__ out, long out_stride, int queries, int keys, int d,
                                  int first_visible, float scale, int first) {
  long const row = blockIdx.x;
  query_of_head const at = query_of(row, queries);
  int const seen = static_cast<int>(at.query) + first_visible + 1;
  int const visible = seen < keys ? seen : keys;
  scores += row * keys;
  out += at.query * out_stride + at.head * d;
  float top = first != 0 ? -3.402823466e38F : highest[row];
  float const before = top;
  FERRY_MAX_LOOP(top)
  for (int i = threadIdx.x; i < visible; i += blockDim.x) top = scores[i] * scale > top ? scores[i] * scale : top;
  top = block_max(top);
  float sum = 0.0F;
  FERRY_SUM_LOOP(sum)
  for (int i = threadIdx.x; i < visible; i += blockDim.x) {
    float const value = exponential(scores[i] * scale - top);
    scores[i] = value;
    sum += value;
  }
  sum = block_sum(sum);
  for (int i = visible + static_cast<int>(threadIdx.x); i < keys; i += blockDim.x) scores[i] = 0.0F;
  float shrink = 0.0F;
  if (first == 0) {
    shrink = exponential(before - top);
    FERRY_MAP_LOOP
    for (int i = threadIdx.x; i < d; i += blockDim.x) out[i] *= shrink;
    sum += sums[row] * shrink;
  }
  __syncthreads();  // every thread has read the statistics before one overwrites them
  if (threadIdx.x == 0) {
    highest[row] = top;
    sums[row] = sum;
  }
}

/// After the last tile: out (queries, heads, d) is normalised, and log_sum (heads, queries; heads `log_sum_stride`
/// apart) tells backward all it needs. A block per query.
FERRY_KERNEL tile_softmax_finish(float* __restrict__ out, long out_stride, float* __restrict__ log_sum,
                                 long log_sum_stride, float const* __restrict__ highest, float const* __restrict__ sums,
                                 int queries, int d) {
  long const row = blockIdx.x;
  query_of_head const at = query_of(row, queries);
  out += at.query * out_stride + at.head * d;
  float const inverse = 1.0F / sums[row];
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[i] *= inverse;
  if (threadIdx.x == 0) log_sum[at.head * log_sum_stride + at.query] = highest[row] + logf(sums[row]);
}

/// dots (heads, queries) of the rows of a and b (queries, heads, d; rows `stride` apart). A block per query.
FERRY_KERNEL row_dots(float* __restrict__ dots, float const* __restrict__ a, float const* __restrict__ b, long stride,
                      int queries, int d) {
  long const row = blockIdx.x;
  query_of_head const at = query_of(row, queries);
  long const offset = at.query * stride + at.head * d;
  a += offset;
  b += offset;
  float sum = 0.0F;
  FERRY_SUM_LOOP(sum)
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += a[i] * b[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) dots[row] = sum;
}

/// scores (heads, queries, keys) becomes the probabilities again, and gradient (heads, queries, keys), of the
/// probabilities, that of the scores before scaling. log_sum (heads, queries; heads `log_sum_stride` apart); dots
/// (heads, queries): of the output and its gradient. A block per query.
FERRY_KERNEL tile_softmax_backward(float* __restrict__ scores, float* __restrict__ gradient,
                                   float const* __restrict__ log_sum, long log_sum_stride,
                                   float const* __restrict__ dots, int queries, int keys, int first_visible,
                                   float scale) {
  long const row = blockIdx.x;
  query_of_head const at = query_of(row, queries);
  int const seen = static_cast<int>(at.query) + first_visible + 1;
  int const visible = seen < keys ? seen : keys;
  scores += row * keys;
  gradient += row * keys;
  float const normal = log_sum[at.head * log_sum_stride + at.query];
  float const dot = dots[row];
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < visible; i += blockDim.x) {
    float const probability = exponential(scores[i] * scale - normal);
    scores[i] = probability;
    gradient[i] = probability * (gradient[i] - dot) * scale;
  }
  for (int i = visible + static_cast<int>(threadIdx.x); i < keys; i += blockDim.x) scores[i] = gradient[i] = 0.0F;
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
