// The operations on the host device: kernels in serial mode, their blocks in parallel by oneTBB.
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "ferry/error.hpp"
#include "nn/attention_host.hpp"
#include "nn/gemm_host.hpp"
#include "nn/ops.hpp"

namespace ferry::nn {

namespace {

// How reductions are split: by these constants and the shape, whatever the number of threads.
constexpr int rows_per_block = 32;
constexpr int columns_per_block = 64;
constexpr int values_per_block = 8192;

/// What a task should touch at least, to be worth its scheduling.
constexpr long bytes_per_task = 64L << 10;

int blocks_for(long count, int per_block) { return static_cast<int>((count + per_block - 1) / per_block); }

memory_access in(float const* x, long count) { return reads(x, count * sizeof(float)); }
memory_access out(float* x, long count) { return writes(x, count * sizeof(float)); }

class host_ops final : public ops {
 public:
  explicit host_ops(device& on) : device_(on), kernels_(kernels::kernels_of_this_cpu()), attention_(kernels_) {}

  void gemm(stream_ref stream, label const& name, gemm_call const& call) override {
    if (call.residual != nullptr && call.bias == nullptr) {
      throw invalid_argument("gemm: a residual comes with a bias; give one, of zeros if need be");
    }
    long const m = call.m, n = call.n, k = call.k;
    memory_access accesses[5]{in(call.a.data, m * k), in(call.b.data, k * n), out(call.out, m * n)};
    std::size_t count = 3;
    if (call.bias != nullptr) accesses[count++] = in(call.bias, n);
    if (call.residual != nullptr) accesses[count++] = in(call.residual, m * n);
    device_.launch(stream, name, {accesses, count}, [this, call] { parallel_gemm(call, kernels_); });
  }

  void layernorm_forward(stream_ref stream, float* y, float const* x, float const* weight, float const* bias, int rows,
                         int C) override {
    long const n = static_cast<long>(rows) * C;
    launch(stream, "layernorm", {out(y, n), in(x, n), in(weight, C), in(bias, C)}, rows, C, kernels_.layernorm_forward,
           y, x, weight, bias, C);
  }

  void layernorm_backward(stream_ref stream, float* dx, float* dweight, float* dbias, float const* dout, float const* x,
                          float const* weight, float* workspace, int rows, int C, bool add_to_dx,
                          bool accumulate) override {
    long const n = static_cast<long>(rows) * C;
    int const parts = blocks_for(rows, rows_per_block);
    launch(stream, "layernorm backward",
           {out(dx, n), out(workspace, 2L * parts * C), in(dout, n), in(x, n), in(weight, C)}, parts,
           3L * C * rows_per_block, kernels_.layernorm_backward, dx, workspace, dout, x, weight, rows, C,
           rows_per_block, add_to_dx ? 1 : 0);
    add_partials(stream, dweight, workspace, parts, 2L * C, C, accumulate);
    add_partials(stream, dbias, workspace + C, parts, 2L * C, C, accumulate);
  }

  void gelu_forward(stream_ref stream, float* y, float const* x, int rows, int columns) override {
    long const n = static_cast<long>(rows) * columns;
    launch(stream, "gelu", {out(y, n), in(x, n)}, rows, columns, kernels_.gelu_forward, y, x, columns);
  }

  void gelu_backward(stream_ref stream, float* gradient, float* dbias, float const* x, float* workspace, int rows,
                     int columns, bool accumulate) override {
    long const n = static_cast<long>(rows) * columns;
    int const parts = blocks_for(rows, rows_per_block);
    launch(stream, "gelu backward", {out(gradient, n), out(workspace, static_cast<long>(parts) * columns), in(x, n)},
           parts, 2L * columns * rows_per_block, kernels_.gelu_backward, gradient, workspace, x, rows, columns,
           rows_per_block);
    add_partials(stream, dbias, workspace, parts, columns, columns, accumulate);
  }

  void bias_backward(stream_ref stream, float* dbias, float const* dout, float* workspace, int rows, int columns,
                     bool accumulate) override {
    int const parts = blocks_for(rows, rows_per_block);
    launch(stream, "bias backward",
           {out(workspace, static_cast<long>(parts) * columns), in(dout, static_cast<long>(rows) * columns)}, parts,
           static_cast<long>(columns) * rows_per_block, kernels_.partial_column_sums, workspace, dout, rows, columns,
           rows_per_block);
    add_partials(stream, dbias, workspace, parts, columns, columns, accumulate);
  }

  void embedding_forward(stream_ref stream, float* x, std::int32_t const* tokens, float const* wte, float const* wpe,
                         row_range rows, int T, int C, int V) override {
    launch(stream, "embedding",
           {out(x + rows.offset(C), static_cast<long>(rows.count) * C),
            reads(tokens + rows.first, rows.count * sizeof *tokens), in(wte, static_cast<long>(V) * C),
            in(wpe, static_cast<long>(T) * C)},
           rows.count, C, kernels_.embedding_forward, x, tokens, wte, wpe, rows.first, T, C);
  }

  void embedding_backward(stream_ref stream, float* dwte, float* dwpe, float const* dx, std::int32_t const* tokens,
                          int B, int T, int C, int V, bool accumulate) override {
    int const rows = B * T;
    long const n = static_cast<long>(rows) * C;
    launch(stream, "token embedding backward",
           {out(dwte, static_cast<long>(V) * C), in(dx, n), reads(tokens, rows * sizeof *tokens)},
           blocks_for(C, columns_per_block), static_cast<long>(rows) * columns_per_block,
           kernels_.token_embedding_backward, dwte, dx, tokens, rows, C, columns_per_block);
    launch(stream, "position embedding backward", {out(dwpe, static_cast<long>(T) * C), in(dx, n)}, T,
           static_cast<long>(B) * C, kernels_.position_embedding_backward, dwpe, dx, B, T, C, accumulate ? 1 : 0);
  }

  void attention_probabilities(stream_ref stream, float* probabilities, float const* qkv,
                               attention_shape const& shape) override {
    memory_access const accesses[]{out(probabilities, squares(shape)), in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention probabilities", accesses,
                   [=, this] { attention_.probabilities(probabilities, qkv, shape); });
  }

  void attention_mix(stream_ref stream, float* y, float const* probabilities, float const* qkv,
                     attention_shape const& shape) override {
    memory_access const accesses[]{out(y, values(shape)), in(probabilities, squares(shape)),
                                   in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention mix", accesses, [=, this] { attention_.mix(y, probabilities, qkv, shape); });
  }

  void attention_backward(stream_ref stream, float* dqkv, float* dprobabilities, float const* dout,
                          float const* probabilities, float const* qkv, attention_shape const& shape) override {
    memory_access const accesses[]{out(dqkv, 3 * values(shape)), out(dprobabilities, squares(shape)),
                                   in(dout, values(shape)), in(probabilities, squares(shape)),
                                   in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention backward", accesses,
                   [=, this] { attention_.backward(dqkv, dprobabilities, dout, probabilities, qkv, shape); });
  }

  void tiled_attention_forward(stream_ref stream, float* y, float const* qkv, attention_shape const& shape) override {
    memory_access const accesses[]{out(y, values(shape) + statistics(shape)), in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention", accesses, [=, this] { attention_.tiled_forward(y, qkv, shape); });
  }

  void tiled_attention_backward(stream_ref stream, float* dqkv, float const* dout, float const* y, float const* qkv,
                                attention_shape const& shape) override {
    memory_access const accesses[]{out(dqkv, 3 * values(shape)), in(dout, values(shape)),
                                   in(y, values(shape) + statistics(shape)), in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention backward", accesses,
                   [=, this] { attention_.tiled_backward(dqkv, dout, y, qkv, shape); });
  }

  void cross_entropy(stream_ref stream, float* losses, float* logits, std::int32_t const* targets, int rows, int V,
                     float gradient_scale) override {
    launch(stream, "cross-entropy",
           {out(losses, rows), out(logits, static_cast<long>(rows) * V), reads(targets, rows * sizeof *targets)}, rows,
           V, kernels_.cross_entropy, losses, logits, targets, V, gradient_scale);
  }

  void add_losses(stream_ref stream, double* total, float const* losses, int rows, double scale) override {
    launch(stream, "add losses", {writes(total, sizeof *total), in(losses, rows)}, 1, rows, kernels_.add_losses, total,
           losses, rows, scale);
  }

  void set_to_zero(stream_ref stream, float* x, std::size_t count) override {
    launch(stream, "set to zero", {out(x, static_cast<long>(count))},
           blocks_for(static_cast<long>(count), values_per_block), values_per_block, kernels_.set_to_zero, x,
           static_cast<long>(count), values_per_block);
  }

  void gradient_norm(stream_ref stream, float* clip, float const* gradient, double* workspace, std::size_t count,
                     float limit) override {
    long const n = static_cast<long>(count);
    int const parts = blocks_for(n, values_per_block);
    launch(stream, "gradient norm", {writes(workspace, parts * sizeof *workspace), in(gradient, n)}, parts,
           values_per_block, kernels_.partial_squares, workspace, gradient, n, values_per_block);
    launch(stream, "finish norm", {out(clip, 2), reads(workspace, parts * sizeof *workspace)}, 1, parts,
           kernels_.finish_norm, clip, workspace, parts, limit);
  }

  void adamw(stream_ref stream, float* weight, float const* gradient, float* m, float* v, float const* clip,
             std::size_t count, adamw_step const& how) override {
    long const n = static_cast<long>(count);
    launch(stream, "adamw", {out(weight, n), in(gradient, n), out(m, n), out(v, n), in(clip, 2)},
           blocks_for(n, values_per_block), 7L * values_per_block, kernels_.adamw, weight, gradient, m, v, clip, n,
           values_per_block, how);
  }

 private:
  static long values(attention_shape const& shape) { return static_cast<long>(shape.rows()) * shape.C; }
  static long squares(attention_shape const& shape) { return statistics(shape) * shape.T; }
  static long statistics(attention_shape const& shape) { return static_cast<long>(shape.rows()) * shape.heads; }

  void add_partials(stream_ref stream, float* sums, float const* partial, int parts, long stride, int columns,
                    bool accumulate) {
    launch(stream, "add partial sums", {out(sums, columns), in(partial, (parts - 1) * stride + columns)},
           blocks_for(columns, columns_per_block), static_cast<long>(parts) * columns_per_block, kernels_.add_partials,
           sums, partial, parts, stride, columns, columns_per_block, accumulate ? 1 : 0);
  }

  template <typename... Arguments>
  void launch(stream_ref stream, label const& name, std::initializer_list<memory_access> accesses, int blocks,
              long floats_per_block, kernels::block_runner<Arguments...> kernel,
              std::type_identity_t<Arguments>... arguments) {
    long const grain = std::max(1L, bytes_per_task / std::max(1L, floats_per_block * 4));
    device_.launch(stream, name, {accesses.begin(), accesses.size()}, [=] {
      tbb::parallel_for(
          tbb::blocked_range<int>(0, blocks, static_cast<std::size_t>(grain)),
          [=](tbb::blocked_range<int> const& range) { kernel(range.begin(), range.end(), arguments...); });
    });
  }

  device& device_;
  kernels::kernel_table const& kernels_;
  host_attention attention_;
};

}  // namespace

std::size_t ops::workspace_floats(int rows, int columns) noexcept {
  return static_cast<std::size_t>(blocks_for(rows, rows_per_block)) * 2 * columns;
}

std::size_t ops::norm_workspace_doubles(std::size_t count) noexcept {
  return static_cast<std::size_t>(blocks_for(static_cast<long>(count), values_per_block));
}

std::unique_ptr<ops> make_host_ops(device& on) {
  if (!on.capabilities().host_addressable) {
    throw invalid_argument("the host cannot compute on this device's memory; set FERRY_DEVICE=host");
  }
  return std::make_unique<host_ops>(on);
}

}  // namespace ferry::nn
