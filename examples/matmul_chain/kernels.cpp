#include "kernels.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "sgemm.hpp"

namespace matmul_chain {

namespace {

// Large enough for the BLAS to reach its speed, small enough to share out evenly.
constexpr std::size_t tile_rows = 128;

std::size_t tiles_of(std::size_t rows) { return (rows + tile_rows - 1) / tile_rows; }

/// Calls work(tile, first row, rows) for every tile.
template <typename Work>
void for_each_tile(std::size_t rows, Work const& work) {
  tbb::blocked_range<std::size_t> const tiles(0, tiles_of(rows), 1);
  tbb::parallel_for(
      tiles,
      [&](auto const& range) {
        for (std::size_t tile = range.begin(); tile != range.end(); ++tile) {
          std::size_t const first = tile * tile_rows;
          work(tile, first, std::min(tile_rows, rows - first));
        }
      },
      tbb::simple_partitioner{});
}

template <typename Work, std::size_t Count>
void launch(ferry::stream_ref stream, char const* name, std::array<ferry::memory_access, Count> const& accesses,
            Work work) {
  stream.owner()->launch(stream, ferry::label(name), accesses, std::move(work));
}

/// Between -1 and 1; a finaliser in the manner of MurmurHash3's.
float noise(std::uint32_t seed, std::size_t place) {
  std::uint64_t bits = (std::uint64_t{seed} << 40) ^ place;
  bits = (bits ^ (bits >> 33)) * 0xFF51AFD7ED558CCDULL;
  bits = (bits ^ (bits >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  auto const most_significant = static_cast<std::int32_t>(bits >> 32);
  return static_cast<float>(most_significant) * 0x1p-31F;
}

}  // namespace

void synthesize(ferry::stream_ref stream, float* values, std::size_t count, float scale, std::uint32_t seed) {
  std::array const accesses{ferry::writes(values, count * sizeof(float))};
  launch(stream, "synthesize", accesses, [=] {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count), [=](auto const& range) {
      for (std::size_t i = range.begin(); i != range.end(); ++i) values[i] = scale * noise(seed, i);
    });
  });
}

void forward(ferry::stream_ref stream, layer_shape shape, float const* x, float const* w, float* y) {
  std::array const accesses{ferry::reads(x, shape.activation_bytes()), ferry::reads(w, shape.weight_bytes()),
                            ferry::writes(y, shape.activation_bytes())};
  launch(stream, "forward", accesses, [=] {
    std::size_t const width = shape.width;
    for_each_tile(shape.rows, [=](std::size_t, std::size_t first, std::size_t rows) {
      float* const out = y + first * width;
      sgemm(rows, width, width, {x + first * width, width}, {w, width}, out, width);
      std::transform(out, out + rows * width, out, [](float value) { return value > 0 ? value : 0.0F; });
    });
  });
}

void loss_and_gradient(ferry::stream_ref stream, layer_shape shape, float* y, double* loss) {
  std::array const accesses{ferry::writes(y, shape.activation_bytes())};
  launch(stream, "loss", accesses, [=] {
    std::size_t const width = shape.width;
    auto const count = static_cast<double>(shape.rows * width);
    auto const scale = static_cast<float>(2 / count);
    // Summed tile by tile and then in the order of the tiles: the bits must not depend on who was first.
    std::vector<double> sums(tiles_of(shape.rows));
    for_each_tile(shape.rows, [&](std::size_t tile, std::size_t first, std::size_t rows) {
      double sum = 0;
      for (float* value = y + first * width; value != y + (first + rows) * width; ++value) {
        sum += double{*value} * *value;
        *value *= scale;
      }
      sums[tile] = sum;
    });
    *loss = std::accumulate(sums.begin(), sums.end(), 0.0) / count;
  });
}

void weight_gradient(ferry::stream_ref stream, layer_shape shape, float const* x, float const* dy, float* dw) {
  std::array const accesses{ferry::reads(x, shape.activation_bytes()), ferry::reads(dy, shape.activation_bytes()),
                            ferry::writes(dw, shape.weight_bytes())};
  launch(stream, "weight gradient", accesses, [=] {
    std::size_t const width = shape.width;
    for_each_tile(width, [=](std::size_t, std::size_t first, std::size_t rows) {
      sgemm(rows, width, shape.rows, {x + first, width, true}, {dy, width}, dw + first * width, width);
    });
  });
}

void input_gradient(ferry::stream_ref stream, layer_shape shape, float const* dy, float const* w, float const* x,
                    float* dx) {
  std::array const accesses{ferry::reads(dy, shape.activation_bytes()), ferry::reads(w, shape.weight_bytes()),
                            ferry::reads(x, shape.activation_bytes()), ferry::writes(dx, shape.activation_bytes())};
  launch(stream, "input gradient", accesses, [=] {
    std::size_t const width = shape.width;
    for_each_tile(shape.rows, [=](std::size_t, std::size_t first, std::size_t rows) {
      std::size_t const begin = first * width;
      std::size_t const end = begin + rows * width;
      sgemm(rows, width, width, {dy + begin, width}, {w, width, true}, dx + begin, width);
      std::transform(dx + begin, dx + end, x + begin, dx + begin,
                     [](float gradient, float value) { return value > 0 ? gradient : 0.0F; });
    });
  });
}

}  // namespace matmul_chain
