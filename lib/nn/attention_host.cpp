#include "nn/attention_host.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "nn/gemm_host.hpp"

namespace ferry::nn {

namespace {

// A tile of scores and one of their gradient stay in the second-level cache together.
constexpr int tile_queries = 64;
constexpr int tile_keys = 256;
static_assert(tile_keys % tile_queries == 0, "every query of a tile sees at least one key of every tile it looks at");

/// One head of one sequence, in the layout (B, T, 3, heads, d) of qkv and (B, T, heads, d) of the output.
template <typename Float>
struct head_of {
  Float* q;
  Float* k;
  Float* v;
  long stride;  ///< from one token to the next

  head_of(Float* qkv, attention_shape const& shape, int index)
      : q(qkv + static_cast<long>(index / shape.heads) * shape.T * 3 * shape.C +
          static_cast<long>(index % shape.heads) * shape.head_width()),
        k(q + shape.C),
        v(k + shape.C),
        stride(3L * shape.C) {}
};

template <typename Float>
Float* out_of_head(Float* out, attention_shape const& shape, int index) {
  return out + static_cast<long>(index / shape.heads) * shape.T * shape.C +
         static_cast<long>(index % shape.heads) * shape.head_width();
}

float scale_of(attention_shape const& shape) { return 1.0F / std::sqrt(static_cast<float>(shape.head_width())); }

template <typename Work>
void for_each_head(attention_shape const& shape, Work work) {
  tbb::parallel_for(0, shape.B * shape.heads, work);
}

/// Calls `work(first query, queries, keys that any of them sees)`: what lies above the diagonal is left out.
template <typename Work>
void for_each_query_tile(int T, Work work) {
  for (int first = 0; first < T; first += tile_queries) {
    int const queries = std::min(tile_queries, T - first);
    work(first, queries, first + queries);
  }
}

/// Room for two tiles and three values per query, of the calling thread.
struct tile_scratch {
  float* scores;
  float* gradient;
  float* highest;
  float* sums;
  float* dots;

  tile_scratch() {
    constexpr std::size_t tile = std::size_t{tile_queries} * tile_keys;
    thread_local std::vector<float> storage(2 * tile + 3 * tile_queries);
    scores = storage.data();
    gradient = scores + tile;
    highest = gradient + tile;
    sums = highest + tile_queries;
    dots = sums + tile_queries;
  }
};

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
  float* const statistics = out + static_cast<long>(shape.rows()) * shape.C;
  for_each_head(shape, [&, d](int index) {
    head_of const head(qkv, shape, index);
    tile_scratch const scratch;
    for_each_query_tile(shape.T, [&](int first, int queries, int visible) {
      float* const y = out_of_head(out, shape, index) + static_cast<long>(first) * shape.C;
      for (int key = 0; key < visible; key += tile_keys) {
        int const keys = std::min(tile_keys, visible - key);
        bool const first_tile = key == 0;
        sgemm(queries, keys, d, {head.q + first * head.stride, head.stride},
              {head.k + key * head.stride, head.stride, true}, scratch.scores, keys, false);
        kernels_.tile_softmax_forward(0, queries, scratch.scores, scratch.highest, scratch.sums, y, shape.C, keys, d,
                                      first - key, scale_of(shape), first_tile ? 1 : 0);
        sgemm(queries, d, keys, {scratch.scores, keys}, {head.v + key * head.stride, head.stride}, y, shape.C,
              !first_tile);
      }
      kernels_.tile_softmax_finish(0, queries, y, shape.C, statistics + static_cast<long>(index) * shape.T + first,
                                   scratch.highest, scratch.sums, d);
    });
  });
}

void host_attention::tiled_backward(float* dqkv, float const* dout, float const* out, float const* qkv,
                                    attention_shape const& shape) const {
  int const d = shape.head_width();
  float const* const statistics = out + static_cast<long>(shape.rows()) * shape.C;
  for_each_head(shape, [&, d](int index) {
    head_of const head(qkv, shape, index);
    head_of const dhead(dqkv, shape, index);
    for (int t = 0; t < shape.T; ++t) {
      std::fill_n(dhead.k + t * dhead.stride, d, 0.0F);
      std::fill_n(dhead.v + t * dhead.stride, d, 0.0F);
    }
    tile_scratch const scratch;
    for_each_query_tile(shape.T, [&](int first, int queries, int visible) {
      float const* const dy = out_of_head(dout, shape, index) + static_cast<long>(first) * shape.C;
      float const* const y = out_of_head(out, shape, index) + static_cast<long>(first) * shape.C;
      tile_operand const q{head.q + first * head.stride, head.stride};
      kernels_.row_dots(0, queries, scratch.dots, dy, y, shape.C, d);
      for (int key = 0; key < visible; key += tile_keys) {
        int const keys = std::min(tile_keys, visible - key);
        tile_operand const k{head.k + key * head.stride, head.stride};
        tile_operand const k_transposed{k.data, k.stride, true};
        sgemm(queries, keys, d, q, k_transposed, scratch.scores, keys, false);
        sgemm(queries, keys, d, {dy, shape.C}, {head.v + key * head.stride, head.stride, true}, scratch.gradient, keys,
              false);
        kernels_.tile_softmax_backward(0, queries, scratch.scores, scratch.gradient,
                                       statistics + static_cast<long>(index) * shape.T + first, scratch.dots, keys,
                                       first - key, scale_of(shape));
        sgemm(queries, d, keys, {scratch.gradient, keys}, k, dhead.q + first * dhead.stride, dhead.stride, key > 0);
        sgemm(keys, d, queries, {scratch.gradient, keys, true}, q, dhead.k + key * dhead.stride, dhead.stride, true);
        sgemm(keys, d, queries, {scratch.scores, keys, true}, {dy, shape.C}, dhead.v + key * dhead.stride, dhead.stride,
              true);
      }
    });
  });
}

}  // namespace ferry::nn
