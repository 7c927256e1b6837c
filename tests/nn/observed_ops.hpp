// Operations that tell an observer of each call, then hand it on: so that tests see a step from inside, as its work is
// enqueued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "ferry/nn/ops.hpp"

namespace ferry::nn::testing {

class observed_ops final : public ops {
 public:
  /// Called on the caller's thread with the function's name, or for a product with its own ("qkv", "fc dw").
  using observer = std::function<void(std::string_view operation)>;

  explicit observed_ops(ops& to) : to_(to) {}
  observer observe = [](std::string_view) {};

  void gemm(stream_ref s, label const& name, gemm_call const& call) override {
    observe(name.view());
    to_.gemm(s, name, call);
  }
  void layernorm_forward(stream_ref s, float* out, float const* x, float const* weight, float const* bias, int rows,
                         int C) override {
    observe("layernorm_forward");
    to_.layernorm_forward(s, out, x, weight, bias, rows, C);
  }
  void layernorm_backward(stream_ref s, float* dx, float* dweight, float* dbias, float const* dout, float const* x,
                          float const* weight, float* workspace, int rows, int C, bool add_to_dx,
                          bool accumulate) override {
    observe("layernorm_backward");
    to_.layernorm_backward(s, dx, dweight, dbias, dout, x, weight, workspace, rows, C, add_to_dx, accumulate);
  }
  void gelu_forward(stream_ref s, float* out, float const* x, int rows, int columns) override {
    observe("gelu_forward");
    to_.gelu_forward(s, out, x, rows, columns);
  }
  void gelu_backward(stream_ref s, float* gradient, float* dbias, float const* x, float* workspace, int rows,
                     int columns, bool accumulate) override {
    observe("gelu_backward");
    to_.gelu_backward(s, gradient, dbias, x, workspace, rows, columns, accumulate);
  }
  void bias_backward(stream_ref s, float* dbias, float const* dout, float* workspace, int rows, int columns,
                     bool accumulate) override {
    observe("bias_backward");
    to_.bias_backward(s, dbias, dout, workspace, rows, columns, accumulate);
  }
  void embedding_forward(stream_ref s, float* x, std::int32_t const* tokens, float const* wte, float const* wpe,
                         row_range rows, int T, int C, int V) override {
    observe("embedding_forward");
    to_.embedding_forward(s, x, tokens, wte, wpe, rows, T, C, V);
  }
  void embedding_backward(stream_ref s, float* dwte, float* dwpe, float const* dx, std::int32_t const* tokens, int B,
                          int T, int C, int V, bool accumulate) override {
    observe("embedding_backward");
    to_.embedding_backward(s, dwte, dwpe, dx, tokens, B, T, C, V, accumulate);
  }
  void attention_probabilities(stream_ref s, float* probabilities, float const* qkv,
                               attention_shape const& shape) override {
    observe("attention_probabilities");
    to_.attention_probabilities(s, probabilities, qkv, shape);
  }
  void attention_mix(stream_ref s, float* out, float const* probabilities, float const* qkv,
                     attention_shape const& shape) override {
    observe("attention_mix");
    to_.attention_mix(s, out, probabilities, qkv, shape);
  }
  void attention_backward(stream_ref s, float* dqkv, float* dprobabilities, float const* dout,
                          float const* probabilities, float const* qkv, attention_shape const& shape) override {
    observe("attention_backward");
    to_.attention_backward(s, dqkv, dprobabilities, dout, probabilities, qkv, shape);
  }
  void tiled_attention_forward(stream_ref s, float* out, float const* qkv, float* workspace,
                               attention_shape const& shape) override {
    observe("tiled_attention_forward");
    to_.tiled_attention_forward(s, out, qkv, workspace, shape);
  }
  void tiled_attention_backward(stream_ref s, float* dqkv, float const* dout, float const* out, float const* qkv,
                                float* workspace, attention_shape const& shape) override {
    observe("tiled_attention_backward");
    to_.tiled_attention_backward(s, dqkv, dout, out, qkv, workspace, shape);
  }
  void cross_entropy(stream_ref s, float* losses, float* logits, std::int32_t const* targets, int rows, int V,
                     float gradient_scale) override {
    observe("cross_entropy");
    to_.cross_entropy(s, losses, logits, targets, rows, V, gradient_scale);
  }
  void add_losses(stream_ref s, double* total, float const* losses, int rows, double scale) override {
    observe("add_losses");
    to_.add_losses(s, total, losses, rows, scale);
  }
  void set_to_zero(stream_ref s, float* x, std::size_t count) override {
    observe("set_to_zero");
    to_.set_to_zero(s, x, count);
  }
  void gradient_norm(stream_ref s, float* clip, float const* gradient, double* workspace, std::size_t count,
                     float limit) override {
    observe("gradient_norm");
    to_.gradient_norm(s, clip, gradient, workspace, count, limit);
  }
  void adamw(stream_ref s, float* weight, float const* gradient, float* m, float* v, float const* clip,
             std::size_t count, adamw_step const& how) override {
    observe("adamw");
    to_.adamw(s, weight, gradient, m, v, clip, count, how);
  }

 private:
  ops& to_;
};

}  // namespace ferry::nn::testing
