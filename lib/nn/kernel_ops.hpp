// The operations that are made of kernels alone, written once for every backend that can launch kernels. Matrix
// products and attention differ by backend: a class derived from this one adds them.
//
// A backend has
//   kernels()                                                          the table of its kernels
//   launch(stream, name, accesses, launch_shape, kernel, arguments…)   enqueues one of them
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/nn/ops.hpp"

namespace ferry::nn {

// How reductions are split: by these constants and the shape, whatever the number of threads.
inline constexpr int rows_per_block = 32;
inline constexpr int columns_per_block = 64;
inline constexpr int values_per_block = 8192;

inline constexpr int threads_per_block = 256;

inline long blocks_for(long count, int per_block) { return (count + per_block - 1) / per_block; }

/// How a kernel's work is cut up.
struct launch_shape {
  long blocks = 0;
  long floats_per_block = 0;        ///< that a block touches, about
  int threads = threads_per_block;  ///< of a block, where blocks have threads
};

/// Throws: `invalid_argument` for more than a launch can have.
inline int checked_blocks(long blocks, std::string_view name) {
  if (blocks <= std::numeric_limits<int>::max()) return static_cast<int>(blocks);
  throw invalid_argument(
      fmt::format("{}: {} blocks are more than a launch can have; use a smaller batch or context", name, blocks));
}

inline memory_access in(float const* x, long count) { return reads(x, count * sizeof(float)); }
inline memory_access out(float* x, long count) { return writes(x, count * sizeof(float)); }

/// Throws: `invalid_argument` for a residual without a bias.
inline void require_valid(gemm_call const& call) {
  if (call.residual == nullptr || call.bias != nullptr) return;
  throw invalid_argument("gemm: a residual comes with a bias; give one, of zeros if need be");
}

template <typename Backend>
class kernel_ops : public ops {
 public:
  explicit kernel_ops(Backend backend) : backend_(std::move(backend)) {}

  void layernorm_forward(stream_ref stream, float* y, float const* x, float const* weight, float const* bias, int rows,
                         int C) override {
    long const n = static_cast<long>(rows) * C;
    launch(stream, "layernorm", {out(y, n), in(x, n), in(weight, C), in(bias, C)}, {rows, C},
           kernels().layernorm_forward, y, x, weight, bias, C);
  }

  void layernorm_backward(stream_ref stream, float* dx, float* dweight, float* dbias, float const* dout, float const* x,
                          float const* weight, float* workspace, int rows, int C, bool add_to_dx,
                          bool accumulate) override {
    long const n = static_cast<long>(rows) * C;
    int const parts = parts_of(rows);
    launch(stream, "layernorm backward",
           {out(dx, n), out(workspace, 2L * parts * C), in(dout, n), in(x, n), in(weight, C)},
           {parts, 3L * C * rows_per_block}, kernels().layernorm_backward, dx, workspace, dout, x, weight, rows, C,
           rows_per_block, add_to_dx ? 1 : 0);
    add_partials(stream, dweight, workspace, parts, 2L * C, C, accumulate);
    add_partials(stream, dbias, workspace + C, parts, 2L * C, C, accumulate);
  }

  void gelu_forward(stream_ref stream, float* y, float const* x, int rows, int columns) override {
    long const n = static_cast<long>(rows) * columns;
    launch(stream, "gelu", {out(y, n), in(x, n)}, {rows, columns}, kernels().gelu_forward, y, x, columns);
  }

  void gelu_backward(stream_ref stream, float* gradient, float* dbias, float const* x, float* workspace, int rows,
                     int columns, bool accumulate) override {
    long const n = static_cast<long>(rows) * columns;
    int const parts = parts_of(rows);
    launch(stream, "gelu backward", {out(gradient, n), out(workspace, static_cast<long>(parts) * columns), in(x, n)},
           {parts, 2L * columns * rows_per_block}, kernels().gelu_backward, gradient, workspace, x, rows, columns,
           rows_per_block);
    add_partials(stream, dbias, workspace, parts, columns, columns, accumulate);
  }

  void bias_backward(stream_ref stream, float* dbias, float const* dout, float* workspace, int rows, int columns,
                     bool accumulate) override {
    int const parts = parts_of(rows);
    launch(stream, "bias backward",
           {out(workspace, static_cast<long>(parts) * columns), in(dout, static_cast<long>(rows) * columns)},
           {parts, static_cast<long>(columns) * rows_per_block}, kernels().partial_column_sums, workspace, dout, rows,
           columns, rows_per_block);
    add_partials(stream, dbias, workspace, parts, columns, columns, accumulate);
  }

  void embedding_forward(stream_ref stream, float* x, std::int32_t const* tokens, float const* wte, float const* wpe,
                         row_range rows, int T, int C, int V) override {
    launch(stream, "embedding",
           {out(x + rows.offset(C), static_cast<long>(rows.count) * C),
            reads(tokens + rows.first, rows.count * sizeof *tokens), in(wte, static_cast<long>(V) * C),
            in(wpe, static_cast<long>(T) * C)},
           {rows.count, C}, kernels().embedding_forward, x, tokens, wte, wpe, rows.first, T, C);
  }

  void embedding_backward(stream_ref stream, float* dwte, float* dwpe, float const* dx, std::int32_t const* tokens,
                          int B, int T, int C, int V, bool accumulate) override {
    int const rows = B * T;
    long const n = static_cast<long>(rows) * C;
    launch(stream, "token embedding backward",
           {out(dwte, static_cast<long>(V) * C), in(dx, n), reads(tokens, rows * sizeof *tokens)},
           {blocks_for(C, columns_per_block), static_cast<long>(rows) * columns_per_block, columns_per_block},
           kernels().token_embedding_backward, dwte, dx, tokens, rows, C, columns_per_block);
    launch(stream, "position embedding backward", {out(dwpe, static_cast<long>(T) * C), in(dx, n)},
           {T, static_cast<long>(B) * C}, kernels().position_embedding_backward, dwpe, dx, B, T, C, accumulate ? 1 : 0);
  }

  void cross_entropy(stream_ref stream, float* losses, float* logits, std::int32_t const* targets, int rows, int V,
                     float gradient_scale) override {
    launch(stream, "cross-entropy",
           {out(losses, rows), out(logits, static_cast<long>(rows) * V), reads(targets, rows * sizeof *targets)},
           {rows, V}, kernels().cross_entropy, losses, logits, targets, V, gradient_scale);
  }

  void add_losses(stream_ref stream, double* total, float const* losses, int rows, double scale) override {
    launch(stream, "add losses", {writes(total, sizeof *total), in(losses, rows)}, {1, rows}, kernels().add_losses,
           total, losses, rows, scale);
  }

  void set_to_zero(stream_ref stream, float* x, std::size_t count) override {
    long const n = static_cast<long>(count);
    launch(stream, "set to zero", {out(x, n)}, {blocks_for(n, values_per_block), values_per_block},
           kernels().set_to_zero, x, n, values_per_block);
  }

  void gradient_norm(stream_ref stream, float* clip, float const* gradient, double* workspace, std::size_t count,
                     float limit) override {
    long const n = static_cast<long>(count);
    int const parts = static_cast<int>(blocks_for(n, values_per_block));
    launch(stream, "gradient norm", {writes(workspace, parts * sizeof *workspace), in(gradient, n)},
           {parts, values_per_block}, kernels().partial_squares, workspace, gradient, n, values_per_block);
    launch(stream, "finish norm", {out(clip, 2), reads(workspace, parts * sizeof *workspace)}, {1, parts},
           kernels().finish_norm, clip, workspace, parts, limit);
  }

  void adamw(stream_ref stream, float* weight, float const* gradient, float* m, float* v, float const* clip,
             std::size_t count, adamw_step const& how) override {
    long const n = static_cast<long>(count);
    launch(stream, "adamw", {out(weight, n), in(gradient, n), out(m, n), out(v, n), in(clip, 2)},
           {blocks_for(n, values_per_block), 7L * values_per_block}, kernels().adamw, weight, gradient, m, v, clip, n,
           values_per_block, how);
  }

 protected:
  [[nodiscard]] auto const& kernels() const noexcept { return backend_.kernels(); }
  [[nodiscard]] Backend const& backend() const noexcept { return backend_; }

  /// Throws: `invalid_argument` for more blocks than a launch can have; else what the backend throws.
  template <typename Kernel, typename... Arguments>
  void launch(stream_ref stream, label const& name, std::initializer_list<memory_access> accesses,
              launch_shape const& shape, Kernel kernel, Arguments... arguments) {
    static_cast<void>(checked_blocks(shape.blocks, name.view()));
    backend_.launch(stream, name, std::span(accesses.begin(), accesses.size()), shape, kernel, arguments...);
  }

 private:
  static int parts_of(int rows) { return static_cast<int>(blocks_for(rows, rows_per_block)); }

  void add_partials(stream_ref stream, float* sums, float const* partial, int parts, long stride, int columns,
                    bool accumulate) {
    launch(stream, "add partial sums", {out(sums, columns), in(partial, (parts - 1) * stride + columns)},
           {blocks_for(columns, columns_per_block), static_cast<long>(parts) * columns_per_block, columns_per_block},
           kernels().add_partials, sums, partial, parts, stride, columns, columns_per_block, accumulate ? 1 : 0);
  }

  Backend backend_;
};

}  // namespace ferry::nn
