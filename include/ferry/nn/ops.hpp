// The operations of the transformer, enqueued on a stream. One implementation per kind of device; a call returns
// at once, and the memory it names is read and written in the stream's order.
//
// Same shapes, same bits: an operation's result depends on its arguments alone, not on addresses, timing or the
// number of threads. So a recipe that calls the operation again gets the very same tensor.
//
// Letters: B sequences in a batch, T tokens in a sequence, C features, V words; rows = B * T.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ferry/device.hpp"
#include "ferry/export.h"
#include "ferry/nn/adamw_step.hpp"

namespace ferry::nn {

/// A row-major matrix as an operand; `transposed`: the product takes its transpose.
struct matrix {
  float const* data = nullptr;
  bool transposed = false;
};

/// out (m, n) = a (m, k) b (k, n), then + out if `accumulate`, + bias (n) and + residual (m, n) if they are there.
/// A residual comes with a bias.
struct gemm_call {
  int m = 0, n = 0, k = 0;
  matrix a, b;
  float* out = nullptr;
  bool accumulate = false;
  float const* bias = nullptr;
  float const* residual = nullptr;
};

/// Some of a tensor's rows.
struct row_range {
  int first = 0, count = 0;
  /// Of the first, in rows of `columns`.
  [[nodiscard]] long offset(int columns) const noexcept { return static_cast<long>(first) * columns; }
};

/// The sizes of an attention.
struct attention_shape {
  int B = 0, T = 0, C = 0, heads = 0;
  [[nodiscard]] int rows() const noexcept { return B * T; }
  [[nodiscard]] int head_width() const noexcept { return C / heads; }
};

/// The operations of one device.
class FERRY_API ops {
 public:
  ops() = default;
  ops(ops const&) = delete;
  ops& operator=(ops const&) = delete;
  virtual ~ops();

  /// Floats of workspace that the operations below need for rows of at most `columns`.
  [[nodiscard]] static std::size_t workspace_floats(int rows, int columns) noexcept;
  /// The same for tiled attention; kinds of operations that have tiles elsewhere leave it alone.
  [[nodiscard]] static std::size_t attention_workspace_floats(attention_shape const& shape) noexcept;

  /// What multiplies matrices, and how exactly; for reports.
  [[nodiscard]] virtual std::string math_mode() const { return {}; }

  /// Throws: `invalid_argument` for a residual without a bias.
  virtual void gemm(stream_ref stream, label const& name, gemm_call const& call) = 0;

  /// out, x (rows, C); weight, bias (C)
  virtual void layernorm_forward(stream_ref stream, float* out, float const* x, float const* weight, float const* bias,
                                 int rows, int C) = 0;
  /// dx (rows, C) += if `add_to_dx`; dweight, dbias (C) += if `accumulate`
  virtual void layernorm_backward(stream_ref stream, float* dx, float* dweight, float* dbias, float const* dout,
                                  float const* x, float const* weight, float* workspace, int rows, int C,
                                  bool add_to_dx, bool accumulate) = 0;
  /// out, x (rows, columns)
  virtual void gelu_forward(stream_ref stream, float* out, float const* x, int rows, int columns) = 0;
  /// gradient (rows, columns): of the output, becomes that of the input x; dbias (columns): its sum over rows
  virtual void gelu_backward(stream_ref stream, float* gradient, float* dbias, float const* x, float* workspace,
                             int rows, int columns, bool accumulate) = 0;
  /// dbias (columns): the sum over rows of dout (rows, columns)
  virtual void bias_backward(stream_ref stream, float* dbias, float const* dout, float* workspace, int rows,
                             int columns, bool accumulate) = 0;
  /// x (B, T, C) = wte (V, C) at tokens (B, T) + wpe (T, C), of all rows only these
  virtual void embedding_forward(stream_ref stream, float* x, std::int32_t const* tokens, float const* wte,
                                 float const* wpe, row_range rows, int T, int C, int V) = 0;
  /// dwte (V, C) +=; dwpe (T, C) += if `accumulate`
  virtual void embedding_backward(stream_ref stream, float* dwte, float* dwpe, float const* dx,
                                  std::int32_t const* tokens, int B, int T, int C, int V, bool accumulate) = 0;

  /// probabilities (B, heads, T, T) from qkv (B, T, 3, heads, C/heads)
  virtual void attention_probabilities(stream_ref stream, float* probabilities, float const* qkv,
                                       attention_shape const& shape) = 0;
  /// out (B, T, C) from them
  virtual void attention_mix(stream_ref stream, float* out, float const* probabilities, float const* qkv,
                             attention_shape const& shape) = 0;
  /// dqkv (B, T, 3, C); dprobabilities (B, heads, T, T) is scratch
  virtual void attention_backward(stream_ref stream, float* dqkv, float* dprobabilities, float const* dout,
                                  float const* probabilities, float const* qkv, attention_shape const& shape) = 0;
  /// The same without probabilities: out (B, T, C) is followed in memory by their row statistics (B, heads, T).
  virtual void tiled_attention_forward(stream_ref stream, float* out, float const* qkv, float* workspace,
                                       attention_shape const& shape) = 0;
  virtual void tiled_attention_backward(stream_ref stream, float* dqkv, float const* dout, float const* out,
                                        float const* qkv, float* workspace, attention_shape const& shape) = 0;

  /// losses (rows) of logits (rows, V), which become their gradient times `gradient_scale` unless that is 0
  virtual void cross_entropy(stream_ref stream, float* losses, float* logits, std::int32_t const* targets, int rows,
                             int V, float gradient_scale) = 0;
  /// total (1) += scale * the sum of losses (rows)
  virtual void add_losses(stream_ref stream, double* total, float const* losses, int rows, double scale) = 0;
  virtual void set_to_zero(stream_ref stream, float* x, std::size_t count) = 0;

  /// clip (2): the norm of gradient (count), and the factor that brings it to `limit` (0: none)
  virtual void gradient_norm(stream_ref stream, float* clip, float const* gradient, double* workspace,
                             std::size_t count, float limit) = 0;
  [[nodiscard]] static std::size_t norm_workspace_doubles(std::size_t count) noexcept;
  /// weight, gradient, m, v (count)
  virtual void adamw(stream_ref stream, float* weight, float const* gradient, float* m, float* v, float const* clip,
                     std::size_t count, adamw_step const& how) = 0;
};

/// The operations of the device's kind. Throws: `no_cuda` for a GPU without cuBLAS; `invalid_argument` for a device
/// that nothing can compute on.
[[nodiscard]] FERRY_API std::unique_ptr<ops> make_ops(device& on);

/// The operations on the host device's compute streams.
[[nodiscard]] FERRY_API std::unique_ptr<ops> make_host_ops(device& on);

/// Operations that do nothing: to rehearse what a step asks of a session.
[[nodiscard]] FERRY_API std::unique_ptr<ops> make_idle_ops();

}  // namespace ferry::nn
