#include "nn/gemm_host.hpp"

#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ferry/error.hpp"

#if defined(FERRY_NN_ONEDNN)
#include <dnnl.h>
#include <omp.h>
#else
#include <cblas.h>
// OpenBLAS only, hence weak: other libraries start no threads, or are told by their own variables.
extern "C" [[gnu::weak]] void openblas_set_num_threads(int threads);
extern "C" [[gnu::weak]] char* openblas_get_corename(void);
#endif

namespace ferry::nn {

namespace {

// Large enough that a call is worth its packing, small enough that a tile stays in the second-level cache.
constexpr int tile_rows = 256;
constexpr int tile_columns = 512;
// Smaller where there would be too few for the threads to share.
constexpr int least_tiles = 8;
constexpr int least_side = 64;

/// Rows this many floats apart fall into the same few cache sets, which halves the speed of the product.
constexpr long bad_stride = 512;
constexpr long stride_padding = 16;

int parts_of(int length, int part) { return (length + part - 1) / part; }

/// The length of equal parts of at most `largest`, up to rounding to whole vectors.
int part_of(int length, int largest) {
  int const part = parts_of(length, parts_of(length, largest));
  return std::min(length, (part + 15) / 16 * 16);
}

/// How a product is cut up.
struct tiling {
  int rows, columns;  ///< of a tile
  int down, across;   ///< tiles

  tiling(int m, int n) {
    int most_rows = tile_rows;
    int most_columns = tile_columns;
    for (;;) {
      rows = part_of(m, most_rows);
      columns = part_of(n, most_columns);
      down = parts_of(m, rows);
      across = parts_of(n, columns);
      if (down * across >= least_tiles || (rows <= least_side && columns <= least_side)) return;
      (rows > columns / 2 && rows > least_side ? most_rows : most_columns) =
          (rows > columns / 2 && rows > least_side ? rows : columns) / 2;
    }
  }
};

/// A copy of an operand whose rows lie better. Only operands with `k` stored rows gain from it: the others are read
/// along their rows.
tile_operand spread_out(tile_operand from, int rows, int columns, std::vector<float>& storage) {
  if (from.stride % bad_stride != 0) return from;
  long const stride = columns + stride_padding;
  std::size_t const needed = static_cast<std::size_t>(rows) * stride;
  if (storage.size() < needed) storage.resize(needed);
  for (long row = 0; row < rows; ++row) {
    std::memcpy(storage.data() + row * stride, from.data + row * from.stride, columns * sizeof(float));
  }
  return {storage.data(), stride, from.transposed};
}

void multiply_tile(gemm_call const& call, kernels::kernel_table const& kernels, int row, int column, int rows,
                   int columns) {
  thread_local std::vector<float> spread_a;
  thread_local std::vector<float> spread_b;
  long const a_stride = call.a.transposed ? call.m : call.k;
  long const b_stride = call.b.transposed ? call.k : call.n;
  tile_operand a{call.a.data + (call.a.transposed ? row : row * a_stride), a_stride, call.a.transposed};
  tile_operand b{call.b.data + (call.b.transposed ? column * b_stride : column), b_stride, call.b.transposed};
  if (a.transposed) a = spread_out(a, call.k, rows, spread_a);
  if (!b.transposed) b = spread_out(b, call.k, columns, spread_b);
  float* const out = call.out + static_cast<long>(row) * call.n + column;
  sgemm(rows, columns, call.k, a, b, out, call.n, call.accumulate);
  if (call.residual != nullptr) {
    float const* const residual = call.residual + static_cast<long>(row) * call.n + column;
    kernels.add_bias_and_residual(0, rows, out, call.n, call.bias + column, residual, columns);
  } else if (call.bias != nullptr) {
    kernels.add_bias(0, rows, out, call.n, call.bias + column, columns);
  }
}

}  // namespace

void parallel_gemm(gemm_call const& call, kernels::kernel_table const& kernels) {
  tiling const cut(call.m, call.n);
  tbb::parallel_for(
      tbb::blocked_range<int>(0, cut.down * cut.across, 1),
      [&](tbb::blocked_range<int> const& tiles) {
        for (int tile = tiles.begin(); tile < tiles.end(); ++tile) {
          int const row = tile / cut.across * cut.rows;
          int const column = tile % cut.across * cut.columns;
          multiply_tile(call, kernels, row, column, std::min(cut.rows, call.m - row),
                        std::min(cut.columns, call.n - column));
        }
      },
      tbb::simple_partitioner{});
}

#if defined(FERRY_NN_ONEDNN)

void sgemm(int m, int n, int k, tile_operand a, tile_operand b, float* out, long out_stride, bool accumulate) {
  // oneDNN would wake OpenMP's threads beside oneTBB's. The setting belongs to the calling thread, and which of
  // oneTBB's threads gets a tile is not known beforehand.
  omp_set_num_threads(1);
  auto const status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data, a.stride,
                                 b.data, b.stride, accumulate ? 1.0F : 0.0F, out, out_stride);
  if (status != dnnl_success) throw error("oneDNN refused a matrix product");
}

std::string gemm_library() {
  auto const* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

#else

namespace {

bool use_one_thread() {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
  return true;
}

}  // namespace

void sgemm(int m, int n, int k, tile_operand a, tile_operand b, float* out, long out_stride, bool accumulate) {
  [[maybe_unused]] static bool const once = use_one_thread();
  auto const order = [](tile_operand const& x) { return x.transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a), order(b), m, n, k, 1.0F, a.data, static_cast<int>(a.stride), b.data,
              static_cast<int>(b.stride), accumulate ? 1.0F : 0.0F, out, static_cast<int>(out_stride));
}

std::string gemm_library() {
  if (openblas_get_corename == nullptr) return "CBLAS";
  std::string const core = openblas_get_corename();
  std::string text = fmt::format("OpenBLAS for {}", core);
#if defined(__x86_64__)
  // Debian's takes CPUs that it does not know for the oldest, and is five times slower then. It reads the variable when
  // it is loaded, which is before any of this runs.
  bool const old = core == "Prescott" || core == "Core2" || core == "Nehalem" || core == "Sandybridge";
  if (old && __builtin_cpu_supports("avx2")) text += "; set OPENBLAS_CORETYPE=Haswell, this CPU is newer";
#endif
  return text;
}

#endif

}  // namespace ferry::nn
