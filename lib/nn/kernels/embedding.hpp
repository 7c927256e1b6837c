// Token and position embedding.
#pragma once

#include "nn/kernels/kernel.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// out (B, T, C) = wte (V, C) at the tokens (B, T) + wpe (T, C). A block per row of `out`, from
/// `first_row` on.
FERRY_KERNEL embedding_forward(float* __restrict__ out, int const* __restrict__ tokens, float const* __restrict__ wte,
                               float const* __restrict__ wpe, int first_row, int T, int C) {
  long const row = first_row + static_cast<long>(blockIdx.x);
  float const* __restrict__ token = wte + static_cast<long>(tokens[row]) * C;
  float const* __restrict__ position = wpe + (row % T) * C;
  out += row * C;
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < C; i += blockDim.x) out[i] = token[i] + position[i];
}

/// dwte (V, C) += dout (rows, C) at the tokens. A block per `columns_per_block` features: rows are added in their
/// order, so that a token that comes twice gives the same bits every time.
FERRY_KERNEL token_embedding_backward(float* __restrict__ dwte, float const* __restrict__ dout,
                                      int const* __restrict__ tokens, int rows, int C, int columns_per_block) {
  int const first = blockIdx.x * columns_per_block;
  int const last = first + columns_per_block < C ? first + columns_per_block : C;
  for (long row = 0; row < rows; ++row) {
    float* __restrict__ target = dwte + static_cast<long>(tokens[row]) * C;
    float const* __restrict__ source = dout + row * C;
    FERRY_MAP_LOOP
    for (int i = first + threadIdx.x; i < last; i += blockDim.x) target[i] += source[i];
  }
}

/// dwpe (T, C) = the sum of dout (B, T, C) over B; added to what is there if `accumulate`. A block per position.
FERRY_KERNEL position_embedding_backward(float* __restrict__ dwpe, float const* __restrict__ dout, int B, int T, int C,
                                         int accumulate) {
  long const t = blockIdx.x;
  dwpe += t * C;
  FERRY_MAP_LOOP
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    float sum = 0.0F;
    for (long b = 0; b < B; ++b) sum += dout[(b * T + t) * C + i];
    dwpe[i] = accumulate != 0 ? dwpe[i] + sum : sum;
  }
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
