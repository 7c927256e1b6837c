// The model as a trainer without Ferry writes it: every tensor in a buffer of its own, taken once, all of them kept.
// The same operations in the same shapes as nn::gpt, so that its gradients are the same to the bit; what nn::gpt takes
// longer is what Ferry costs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/nn/gpt.hpp"
#include "ferry/nn/items.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/parameters.hpp"

namespace ferry::testing {

class raw_gpt {
 public:
  raw_gpt(device& on, stream_ref stream, nn::ops& with, nn::gpt_shape const& shape, int batch)
      : stream_(stream),
        ops_(with),
        shape_(shape),
        B_(batch),
        layout_(shape),
        activations_(on, memory_space::device, floats_of_all() * sizeof(float)),
        losses_(on, memory_space::device, rows() * sizeof(float)),
        total_(on, memory_space::device, sizeof(double)),
        workspace_(on, memory_space::device,
                   std::max(nn::ops::workspace_floats(rows(), 4 * shape.width),
                            nn::ops::attention_workspace_floats(attention())) *
                       sizeof(float)) {}

  /// parameters, gradients: as laid out for this shape; tokens, targets: (B, T), on the device.
  void pass(float* parameters, float* gradients, std::int32_t const* tokens, std::int32_t const* targets) {
    next_ = activations_.as<float>();
    auto const w = layout_.outer(parameters);
    auto const d = layout_.outer(gradients);
    int const N = rows();
    int const C = shape_.width;
    ops_.set_to_zero(stream_, total_.as<float>(), 2);
    float* x = take(nn::item::x);
    ops_.embedding_forward(stream_, x, tokens, w.wte, w.wpe, {0, N}, shape_.context, C, shape_.vocabulary);
    std::vector<tensors> kept;
    for (int layer = 0; layer < shape_.layers; ++layer) {
      kept.push_back(forward(layout_.block(parameters, layer), x));
      x = kept.back().next;
    }
    float* const normal = take(nn::item::x);
    float* const dnormal = take(nn::item::x);
    float* const dx = take(nn::item::x);
    ops_.layernorm_forward(stream_, normal, x, w.lnf_weight, w.lnf_bias, N, C);
    losses(w, d, normal, dnormal, targets);
    ops_.layernorm_backward(stream_, dx, d.lnf_weight, d.lnf_bias, dnormal, x, w.lnf_weight, workspace(), N, C, false,
                            false);
    scratch_ = {take(nn::item::act), take(nn::item::ln2), take(nn::item::qkv),
                shape_.attention == nn::attention_form::whole ? take(nn::item::att) : nullptr};
    for (int layer = shape_.layers; layer-- > 0;) {
      backward(layout_.block(parameters, layer), layout_.block(gradients, layer), kept[layer], dx);
    }
    if (!shape_.tied) ops_.set_to_zero(stream_, d.wte, static_cast<std::size_t>(shape_.vocabulary) * C);
    ops_.embedding_backward(stream_, d.wte, d.wpe, dx, tokens, B_, shape_.context, C, shape_.vocabulary, false);
  }

  /// Of the last pass, on the device.
  [[nodiscard]] double const* total_loss() const noexcept { return total_.as<double>(); }

 private:
  struct tensors {
    float *x, *ln1, *qkv, *att, *heads, *mid, *ln2, *fc, *act, *next;
  };

  [[nodiscard]] int rows() const noexcept { return B_ * shape_.context; }
  [[nodiscard]] float* workspace() const noexcept { return workspace_.as<float>(); }
  [[nodiscard]] nn::attention_shape attention() const noexcept {
    return {B_, shape_.context, shape_.width, shape_.heads};
  }
  [[nodiscard]] std::size_t floats_of(nn::item what) const {
    return nn::describe_items(shape_, B_)[static_cast<std::size_t>(what)].floats;
  }
  static std::size_t rounded(std::size_t floats) noexcept { return (floats + 63) / 64 * 64; }

  [[nodiscard]] std::size_t floats_of_all() const {
    std::size_t block = 0;
    for (auto const& one : nn::describe_items(shape_, B_)) block += rounded(one.floats);
    std::size_t const logits =
        static_cast<std::size_t>(nn::rows_of_logits(shape_, rows())) * static_cast<std::size_t>(shape_.vocabulary);
    return block * (static_cast<std::size_t>(shape_.layers) + 1) + 5 * rounded(floats_of(nn::item::x)) +
           rounded(logits);
  }

  float* take(nn::item what) { return take(floats_of(what)); }
  float* take(std::size_t floats) {
    float* const here = next_;
    next_ += rounded(floats);
    return here;
  }

  tensors forward(nn::block_parameters const& w, float* x) {
    int const N = rows();
    int const C = shape_.width;
    tensors t{};
    t.x = x;
    t.ln1 = take(nn::item::ln1);
    t.qkv = take(nn::item::qkv);
    t.heads = take(nn::item::heads);
    t.mid = take(nn::item::mid);
    t.ln2 = take(nn::item::ln2);
    t.fc = take(nn::item::fc);
    t.act = take(nn::item::act);
    t.next = take(nn::item::x);
    ops_.layernorm_forward(stream_, t.ln1, x, w.ln1_weight, w.ln1_bias, N, C);
    linear(N, C, 3 * C, t.ln1, w.qkv_weight, w.qkv_bias, nullptr, t.qkv);
    if (shape_.attention == nn::attention_form::whole) {
      t.att = take(nn::item::att);
      ops_.attention_probabilities(stream_, t.att, t.qkv, attention());
      ops_.attention_mix(stream_, t.heads, t.att, t.qkv, attention());
    } else {
      ops_.tiled_attention_forward(stream_, t.heads, t.qkv, workspace(), attention());
    }
    linear(N, C, C, t.heads, w.proj_weight, w.proj_bias, x, t.mid);
    ops_.layernorm_forward(stream_, t.ln2, t.mid, w.ln2_weight, w.ln2_bias, N, C);
    linear(N, C, 4 * C, t.ln2, w.fc_weight, w.fc_bias, nullptr, t.fc);
    ops_.gelu_forward(stream_, t.act, t.fc, N, 4 * C);
    linear(N, 4 * C, C, t.act, w.out_weight, w.out_bias, t.mid, t.next);
    return t;
  }

  void backward(nn::block_parameters const& w, nn::block_parameters const& d, tensors const& t, float* dx) {
    int const N = rows();
    int const C = shape_.width;
    auto const [dhidden, dnormal, dqkv, datt] = scratch_;
    linear_weights(N, 4 * C, C, t.act, dx, d.out_weight);
    ops_.bias_backward(stream_, d.out_bias, dx, workspace(), N, C, false);
    linear_input(N, 4 * C, C, dx, w.out_weight, dhidden);
    ops_.gelu_backward(stream_, dhidden, d.fc_bias, t.fc, workspace(), N, 4 * C, false);
    linear_weights(N, C, 4 * C, t.ln2, dhidden, d.fc_weight);
    linear_input(N, C, 4 * C, dhidden, w.fc_weight, dnormal);
    ops_.layernorm_backward(stream_, dx, d.ln2_weight, d.ln2_bias, dnormal, t.mid, w.ln2_weight, workspace(), N, C,
                            true, false);
    linear_weights(N, C, C, t.heads, dx, d.proj_weight);
    ops_.bias_backward(stream_, d.proj_bias, dx, workspace(), N, C, false);
    linear_input(N, C, C, dx, w.proj_weight, dnormal);
    if (shape_.attention == nn::attention_form::whole) {
      ops_.attention_backward(stream_, dqkv, datt, dnormal, t.att, t.qkv, attention());
    } else {
      ops_.tiled_attention_backward(stream_, dqkv, dnormal, t.heads, t.qkv, workspace(), attention());
    }
    linear_weights(N, C, 3 * C, t.ln1, dqkv, d.qkv_weight);
    ops_.bias_backward(stream_, d.qkv_bias, dqkv, workspace(), N, 3 * C, false);
    linear_input(N, C, 3 * C, dqkv, w.qkv_weight, dnormal);
    ops_.layernorm_backward(stream_, dx, d.ln1_weight, d.ln1_bias, dnormal, t.x, w.ln1_weight, workspace(), N, C, true,
                            false);
  }

  void losses(nn::outer_parameters const& w, nn::outer_parameters const& d, float const* normal, float* dnormal,
              std::int32_t const* targets) {
    int const N = rows();
    int const C = shape_.width;
    int const V = shape_.vocabulary;
    int const most = nn::rows_of_logits(shape_, N);
    float* const logits = take(static_cast<std::size_t>(most) * static_cast<std::size_t>(V));
    double const share = 1.0 / N;
    for (int row = 0; row < N; row += most) {
      int const some = std::min(most, N - row);
      long const at = static_cast<long>(row) * C;
      ops_.gemm(stream_, "logits", {.m = some, .n = V, .k = C, .a = {normal + at}, .b = {w.head, true}, .out = logits});
      ops_.cross_entropy(stream_, losses_.as<float>() + row, logits, targets + row, some, V, static_cast<float>(share));
      ops_.gemm(stream_, "logits dx", {.m = some, .n = C, .k = V, .a = {logits}, .b = {w.head}, .out = dnormal + at});
      ops_.gemm(
          stream_, "logits dw",
          {.m = V, .n = C, .k = some, .a = {logits, true}, .b = {normal + at}, .out = d.head, .accumulate = row > 0});
    }
    ops_.add_losses(stream_, total_.as<double>(), losses_.as<float>(), N, share);
  }

  void linear(int N, int in, int out, float const* x, float const* w, float const* bias, float const* residual,
              float* y) {
    ops_.gemm(stream_, "linear",
              {.m = N, .n = out, .k = in, .a = {x}, .b = {w}, .out = y, .bias = bias, .residual = residual});
  }
  void linear_weights(int N, int in, int out, float const* x, float const* dy, float* dw) {
    ops_.gemm(stream_, "linear dw", {.m = in, .n = out, .k = N, .a = {x, true}, .b = {dy}, .out = dw});
  }
  void linear_input(int N, int in, int out, float const* dy, float const* w, float* dx) {
    ops_.gemm(stream_, "linear dx", {.m = N, .n = in, .k = out, .a = {dy}, .b = {w, true}, .out = dx});
  }

  stream_ref stream_;
  nn::ops& ops_;
  nn::gpt_shape shape_;
  int B_;
  nn::parameter_layout layout_;
  memory activations_;  // every tensor, one after the other
  memory losses_;       // (B, T)
  memory total_;        // (1)
  memory workspace_;
  float* next_ = nullptr;
  std::array<float*, 4> scratch_{};
};

}  // namespace ferry::testing
