#include "nn/attention_cuda.hpp"

#include "nn/attention_tiles.hpp"
#include "nn/kernel_ops.hpp"

namespace ferry::nn {

namespace {

CUstream_st* native(stream_ref stream) { return static_cast<CUstream_st*>(stream.owner()->native_handle(stream)); }

/// Blocks of a kernel that takes a row of probabilities each, of all heads of all sequences.
int probability_rows(attention_shape const& shape) {
  return checked_blocks(static_cast<long>(shape.rows()) * shape.heads, "attention");
}

}  // namespace

void cuda_attention::probabilities(stream_ref stream, float* probabilities, float const* qkv,
                                   attention_shape const& shape) const {
  long const T = shape.T;
  int const d = shape.head_width();
  cuda_products::turn const turn(products_, stream);
  for (int first_head = 0; first_head < shape.B * shape.heads; first_head += shape.heads) {
    head_of const head(qkv, shape, first_head);
    float* const p = probabilities + first_head * T * T;
    for_each_query_tile(shape.T, [&](int first, int queries, int keys) {
      turn.multiply(shape.heads, queries, keys, d, {head.q + first * head.stride, head.stride, d},
                    {head.k, head.stride, d, true}, {p + first * T, T, T * T}, false);
    });
  }
  kernels_.causal_softmax_forward(native(stream), probability_rows(shape), threads_per_block, probabilities, shape.T,
                                  scale_of(shape));
}

void cuda_attention::mix(stream_ref stream, float* out, float const* probabilities, float const* qkv,
                         attention_shape const& shape) const {
  long const T = shape.T;
  int const d = shape.head_width();
  cuda_products::turn const turn(products_, stream);
  for (int first_head = 0; first_head < shape.B * shape.heads; first_head += shape.heads) {
    head_of const head(qkv, shape, first_head);
    float const* const p = probabilities + first_head * T * T;
    float* const y = out_of_head(out, shape, first_head);
    for_each_query_tile(shape.T, [&](int first, int queries, int keys) {
      turn.multiply(shape.heads, queries, d, keys, {p + first * T, T, T * T}, {head.v, head.stride, d},
                    {y + static_cast<long>(first) * shape.C, shape.C, d}, false);
    });
  }
}

void cuda_attention::backward(stream_ref stream, float* dqkv, float* dprobabilities, float const* dout,
                              float const* probabilities, float const* qkv, attention_shape const& shape) const {
  long const T = shape.T;
  long const C = shape.C;
  int const d = shape.head_width();
  cuda_products::turn const turn(products_, stream);
  for (int first_head = 0; first_head < shape.B * shape.heads; first_head += shape.heads) {
    head_of const head(qkv, shape, first_head);
    float* const dp = dprobabilities + first_head * T * T;
    float const* const dy = out_of_head(dout, shape, first_head);
    for_each_query_tile(shape.T, [&](int first, int queries, int keys) {
      turn.multiply(shape.heads, queries, keys, d, {dy + first * C, C, d}, {head.v, head.stride, d, true},
                    {dp + first * T, T, T * T}, false);
    });
  }
  kernels_.causal_softmax_backward(native(stream), probability_rows(shape), threads_per_block, dprobabilities,
                                   probabilities, shape.T, scale_of(shape));
  for (int first_head = 0; first_head < shape.B * shape.heads; first_head += shape.heads) {
    head_of const head(qkv, shape, first_head);
    head_of const dhead(dqkv, shape, first_head);
    float const* const p = probabilities + first_head * T * T;
    float const* const dp = dprobabilities + first_head * T * T;
    float const* const dy = out_of_head(dout, shape, first_head);
    for_each_query_tile(shape.T, [&](int first, int queries, int keys) {
      turn.multiply(shape.heads, queries, d, keys, {dp + first * T, T, T * T}, {head.k, head.stride, d},
                    {dhead.q + first * dhead.stride, dhead.stride, d}, false);
    });
    // Keys and values gather from the queries that see them: those from their own tile on.
    for_each_query_tile(shape.T, [&](int first, int keys, int) {
      int const queries = shape.T - first;
      long const corner = first * T + first;
      turn.multiply(shape.heads, keys, d, queries, {dp + corner, T, T * T, true},
                    {head.q + first * head.stride, head.stride, d}, {dhead.k + first * dhead.stride, dhead.stride, d},
                    false);
      turn.multiply(shape.heads, keys, d, queries, {p + corner, T, T * T, true}, {dy + first * C, C, d},
                    {dhead.v + first * dhead.stride, dhead.stride, d}, false);
    });
  }
}

void cuda_attention::tiled_forward(stream_ref stream, float* out, float const* qkv, float* workspace,
                                   attention_shape const& shape) const {
  int const d = shape.head_width();
  auto* const on = native(stream);
  tile_scratch const scratch(workspace, shape.heads, shape.T);
  cuda_products::turn const turn(products_, stream);
  for (int first_head = 0; first_head < shape.B * shape.heads; first_head += shape.heads) {
    head_of const head(qkv, shape, first_head);
    for_each_query_tile(shape.T, [&](int first, int queries, int visible) {
      int const rows = shape.heads * queries;
      float* const y = out_of_head(out, shape, first_head) + static_cast<long>(first) * shape.C;
      for_each_key_tile(visible, [&](int key, int keys) {
        long const tile = static_cast<long>(queries) * keys;
        bool const first_tile = key == 0;
        turn.multiply(shape.heads, queries, keys, d, {head.q + first * head.stride, head.stride, d},
                      {head.k + key * head.stride, head.stride, d, true}, {scratch.scores, keys, tile}, false);
        kernels_.tile_softmax_forward(on, rows, threads_per_block, scratch.scores, scratch.highest, scratch.sums, y,
                                      shape.C, queries, keys, d, first - key, scale_of(shape), first_tile ? 1 : 0);
        turn.multiply(shape.heads, queries, d, keys, {scratch.scores, keys, tile},
                      {head.v + key * head.stride, head.stride, d}, {y, shape.C, d}, !first_tile);
      });
      kernels_.tile_softmax_finish(on, rows, threads_per_block, y, shape.C,
                                   statistics_of_head(out, shape, first_head) + first, shape.T, scratch.highest,
                                   scratch.sums, queries, d);
    });
  }
}

void cuda_attention::tiled_backward(stream_ref stream, float* dqkv, float const* dout, float const* out,
                                    float const* qkv, float* workspace, attention_shape const& shape) const {
  long const C = shape.C;
  int const d = shape.head_width();
  auto* const on = native(stream);
  tile_scratch const scratch(workspace, shape.heads, shape.T);
  cuda_products::turn const turn(products_, stream);
  // The gradients of keys and values are sums over tiles; of a token they lie one behind the other, for all heads.
  kernels_.set_rows_to_zero(on, shape.rows(), threads_per_block, dqkv + C, 3 * C, 2 * shape.C);
  for (int first_head = 0; first_head < shape.B * shape.heads; first_head += shape.heads) {
    head_of const head(qkv, shape, first_head);
    head_of const dhead(dqkv, shape, first_head);
    for_each_query_tile(shape.T, [&](int first, int queries, int visible) {
      int const rows = shape.heads * queries;
      float const* const y = out_of_head(out, shape, first_head) + first * C;
      batch_operand const dy{out_of_head(dout, shape, first_head) + first * C, C, d};
      batch_operand const q{head.q + first * head.stride, head.stride, d};
      kernels_.row_dots(on, rows, threads_per_block, scratch.dots, dy.data, y, C, queries, d);
      for_each_key_tile(visible, [&](int key, int keys) {
        long const tile = static_cast<long>(queries) * keys;
        long const there = key * head.stride;
        turn.multiply(shape.heads, queries, keys, d, q, {head.k + there, head.stride, d, true},
                      {scratch.scores, keys, tile}, false);
        turn.multiply(shape.heads, queries, keys, d, dy, {head.v + there, head.stride, d, true},
                      {scratch.gradient, keys, tile}, false);
        kernels_.tile_softmax_backward(on, rows, threads_per_block, scratch.scores, scratch.gradient,
                                       statistics_of_head(out, shape, first_head) + first, shape.T, scratch.dots,
                                       queries, keys, first - key, scale_of(shape));
        turn.multiply(shape.heads, queries, d, keys, {scratch.gradient, keys, tile}, {head.k + there, head.stride, d},
                      {dhead.q + first * dhead.stride, dhead.stride, d}, key > 0);
        turn.multiply(shape.heads, keys, d, queries, {scratch.gradient, keys, tile, true}, q,
                      {dhead.k + there, dhead.stride, d}, true);
        turn.multiply(shape.heads, keys, d, queries, {scratch.scores, keys, tile, true}, dy,
                      {dhead.v + there, dhead.stride, d}, true);
      });
    });
  }
}

}  // namespace ferry::nn
