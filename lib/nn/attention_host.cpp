#include "nn/attention_host.hpp"

#include <tbb/parallel_for.h>

#include <vector>

#include "nn/attention_tiles.hpp"
#include "nn/gemm_host.hpp"

namespace ferry::nn {

namespace {

template <typename Work>
void for_each_head(attention_shape const& shape, Work work) {
  tbb::parallel_for(0, shape.B * shape.heads, work);
}

/// Scratch for the tiles of one head, of the calling thread.
tile_scratch scratch_of_thread() {
  thread_local std::vector<float> storage(tile_scratch::floats(1, tile_keys));
  return {storage.data(), 1, tile_keys};
}

}  // namespace

void host_attention::probabilities(float* probabilities, float const* qkv, attention_shape const& shape) const {
  int const T = shape.T;
  for_each_head(shape, [&, T](int index) {
    head_of const head(qkv, shape, index);
    float* const p = probabilities + static_cast<long>(index) * T * T;
    for_each_query_tile(T, [&](int first, int queries, int keys) {
      sgemm(queries, keys, shape.head_width(), {head.q + first * head.stride, head.stride}, {head.k, head.stride, true},
            p + static_cast<long>(first) * T, T, false);
    });
    kernels_.causal_softmax_forward(0, T, p, T, scale_of(shape));
  });
}

void host_attention::mix(float* out, float const* probabilities, float const* qkv, attention_shape const& shape) const {
  int const T = shape.T;
  for_each_head(shape, [&, T](int index) {
    head_of const head(qkv, shape, index);
    float const* const p = probabilities + static_cast<long>(index) * T * T;
    float* const y = out_of_head(out, shape, index);
    for_each_query_tile(T, [&](int first, int queries, int keys) {
      sgemm(queries, shape.head_width(), keys, {p + static_cast<long>(first) * T, T}, {head.v, head.stride},
            y + static_cast<long>(first) * shape.C, shape.C, false);
    });
  });
}

void host_attention::backward(float* dqkv, float* dprobabilities, float const* dout, float const* probabilities,
                              float const* qkv, attention_shape const& shape) const {
  int const T = shape.T;
  int const d = shape.head_width();
  for_each_head(shape, [&, T, d](int index) {
    head_of const head(qkv, shape, index);
    head_of const dhead(dqkv, shape, index);
    float const* const p = probabilities + static_cast<long>(index) * T * T;
    float* const dp = dprobabilities + static_cast<long>(index) * T * T;
    float const* const dy = out_of_head(dout, shape, index);
    for_each_query_tile(T, [&](int first, int queries, int keys) {
      sgemm(queries, keys, d, {dy + static_cast<long>(first) * shape.C, shape.C}, {head.v, head.stride, true},
            dp + static_cast<long>(first) * T, T, false);
    });
    kernels_.causal_softmax_backward(0, T, dp, p, T, scale_of(shape));
    for_each_query_tile(T, [&](int first, int queries, int keys) {
      tile_operand const ds{dp + static_cast<long>(first) * T, T};
      sgemm(queries, d, keys, ds, {head.k, head.stride}, dhead.q + first * dhead.stride, dhead.stride, false);
    });
    // Keys and values gather from the queries that see them: those from their own tile on.
    for_each_query_tile(T, [&](int first, int keys, int) {
      int const queries = T - first;
      long const corner = static_cast<long>(first) * T + first;
      sgemm(keys, d, queries, {dp + corner, T, true}, {head.q + first * head.stride, head.stride},
            dhead.k + first * dhead.stride, dhead.stride, false);
      sgemm(keys, d, queries, {p + corner, T, true}, {dy + static_cast<long>(first) * shape.C, shape.C},
            dhead.v + first * dhead.stride, dhead.stride, false);
    });
  });
}

void host_attention::tiled_forward(float* out, float const* qkv, attention_shape const& shape) const {
  int const d = shape.head_width();
  for_each_head(shape, [&, d](int index) {
    head_of const head(qkv, shape, index);
    tile_scratch const scratch = scratch_of_thread();
    for_each_query_tile(shape.T, [&](int first, int queries, int visible) {
      float* const y = out_of_head(out, shape, index) + static_cast<long>(first) * shape.C;
      for_each_key_tile(visible, [&](int key, int keys) {
        bool const first_tile = key == 0;
        sgemm(queries, keys, d, {head.q + first * head.stride, head.stride},
              {head.k + key * head.stride, head.stride, true}, scratch.scores, keys, false);
        kernels_.tile_softmax_forward(0, queries, scratch.scores, scratch.highest, scratch.sums, y, shape.C, queries,
                                      keys, d, first - key, scale_of(shape), first_tile ? 1 : 0);
        sgemm(queries, d, keys, {scratch.scores, keys}, {head.v + key * head.stride, head.stride}, y, shape.C,
              !first_tile);
      });
      kernels_.tile_softmax_finish(0, queries, y, shape.C, statistics_of_head(out, shape, index) + first, shape.T,
                                   scratch.highest, scratch.sums, queries, d);
    });
  });
}

void host_attention::tiled_backward(float* dqkv, float const* dout, float const* out, float const* qkv,
                                    attention_shape const& shape) const {
  int const d = shape.head_width();
  for_each_head(shape, [&, d](int index) {
    head_of const head(qkv, shape, index);
    head_of const dhead(dqkv, shape, index);
    kernels_.set_rows_to_zero(0, shape.T, dhead.k, dhead.stride, d);
    kernels_.set_rows_to_zero(0, shape.T, dhead.v, dhead.stride, d);
    tile_scratch const scratch = scratch_of_thread();
    for_each_query_tile(shape.T, [&](int first, int queries, int visible) {
      float const* const dy = out_of_head(dout, shape, index) + static_cast<long>(first) * shape.C;
      float const* const y = out_of_head(out, shape, index) + static_cast<long>(first) * shape.C;
      tile_operand const q{head.q + first * head.stride, head.stride};
      kernels_.row_dots(0, queries, scratch.dots, dy, y, shape.C, queries, d);
      for_each_key_tile(visible, [&](int key, int keys) {
        tile_operand const k{head.k + key * head.stride, head.stride};
        tile_operand const k_transposed{k.data, k.stride, true};
        sgemm(queries, keys, d, q, k_transposed, scratch.scores, keys, false);
        sgemm(queries, keys, d, {dy, shape.C}, {head.v + key * head.stride, head.stride, true}, scratch.gradient, keys,
              false);
        kernels_.tile_softmax_backward(0, queries, scratch.scores, scratch.gradient,
                                       statistics_of_head(out, shape, index) + first, shape.T, scratch.dots, queries,
                                       keys, first - key, scale_of(shape));
        sgemm(queries, d, keys, {scratch.gradient, keys}, k, dhead.q + first * dhead.stride, dhead.stride, key > 0);
        sgemm(keys, d, queries, {scratch.gradient, keys, true}, q, dhead.k + key * dhead.stride, dhead.stride, true);
        sgemm(keys, d, queries, {scratch.scores, keys, true}, {dy, shape.C}, dhead.v + key * dhead.stride, dhead.stride,
              true);
      });
    });
  });
}

}  // namespace ferry::nn
