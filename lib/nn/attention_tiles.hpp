// How attention is cut into tiles: the same for every kind of device, so that they add up the same numbers in the same
// order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ferry/nn/ops.hpp"

namespace ferry::nn {

// On the host a tile of scores and one of their gradient stay in the second-level cache together.
inline constexpr int tile_queries = 64;
inline constexpr int tile_keys = 256;
static_assert(tile_keys % tile_queries == 0, "every query of a tile sees at least one key of every tile it looks at");

/// One head of one sequence, in the layout (B, T, 3, heads, d) of qkv and (B, T, heads, d) of the output. The next head
/// of the sequence lies d further on.
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

/// Where the row statistics (B, heads, T) of a tiled output (B, T, C) lie.
template <typename Float>
Float* statistics_of_head(Float* out, attention_shape const& shape, int index) {
  return out + static_cast<long>(shape.rows()) * shape.C + static_cast<long>(index) * shape.T;
}

inline float scale_of(attention_shape const& shape) { return 1.0F / std::sqrt(static_cast<float>(shape.head_width())); }

/// Calls `work(first query, queries, keys that any of them sees)`: what lies above the diagonal is left out.
template <typename Work>
void for_each_query_tile(int T, Work work) {
  for (int first = 0; first < T; first += tile_queries) {
    int const queries = std::min(tile_queries, T - first);
    work(first, queries, first + queries);
  }
}

/// Calls `work(first key, keys)` for the tiles of `visible` keys.
template <typename Work>
void for_each_key_tile(int visible, Work work) {
  for (int key = 0; key < visible; key += tile_keys) work(key, std::min(tile_keys, visible - key));
}

/// Two tiles and three values per query of `heads` heads, in memory that somebody else owns.
struct tile_scratch {
  float* scores;    // (heads, queries, keys)
  float* gradient;  // (heads, queries, keys)
  float* highest;   // (heads, queries)
  float* sums;      // (heads, queries)
  float* dots;      // (heads, queries)

  [[nodiscard]] static std::size_t floats(int heads, int T) noexcept {
    return static_cast<std::size_t>(heads) * (2 * tile(T) + 3 * rows(T));
  }
  tile_scratch(float* storage, int heads, int T)
      : scores(storage),
        gradient(scores + heads * tile(T)),
        highest(gradient + heads * tile(T)),
        sums(highest + heads * rows(T)),
        dots(sums + heads * rows(T)) {}

 private:
  static std::size_t rows(int T) noexcept { return static_cast<std::size_t>(std::min(T, tile_queries)); }
  static std::size_t tile(int T) noexcept { return rows(T) * static_cast<std::size_t>(std::min(T, tile_keys)); }
};

}  // namespace ferry::nn
