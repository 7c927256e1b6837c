// The whole GPT in double precision, forward and backward, put together from the oracle's operations by the model's
// definition: what tests compare gpt with. Slow and plain; parameters are looked up by their names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ferry/nn/parameters.hpp"
#include "ferry/nn/shape.hpp"
#include "nn/oracle.hpp"

namespace ferry::nn::oracle {

/// What a block's backward needs of its forward, as ferry/nn/items.hpp names it.
struct block_tensors {
  values x, ln1, qkv, heads, mid, ln2, fc, act;
};

class model {
 public:
  /// parameters: (layout.floats()); tokens, targets: (B, T)
  model(gpt_shape const& shape, int batch) : shape_(shape), B(batch), layout_(shape) {}

  [[nodiscard]] parameter_layout const& layout() const noexcept { return layout_; }

  struct gradients_and_loss {
    double loss;       ///< the mean over all tokens
    values gradients;  ///< (layout.floats())
  };

  [[nodiscard]] double loss(values const& parameters, indices const& tokens, indices const& targets) const {
    auto const [losses, dlogits] = cross_entropy(logits(parameters, tokens), targets, N, V);
    return mean(losses);
  }

  /// (B, T, V)
  [[nodiscard]] values logits(values const& parameters, indices const& tokens) const {
    values const normal = last_layernorm(parameters, forward(parameters, tokens).second);
    return gemm(N, V, C, normal, false, head(parameters), true);
  }

  [[nodiscard]] gradients_and_loss backward(values const& parameters, indices const& tokens,
                                            indices const& targets) const {
    auto const [blocks, output] = forward(parameters, tokens);
    values const normal = last_layernorm(parameters, output);
    auto [losses, dlogits] = cross_entropy(gemm(N, V, C, normal, false, head(parameters), true), targets, N, V);
    for (double& value : dlogits) value /= N;

    values d(layout_.floats());
    auto const dhead = gemm_backward(N, V, C, dlogits, normal, false, head(parameters), true);
    add_to(d, shape_.tied ? "transformer.wte.weight" : "lm_head.weight", dhead.b);
    auto const dlnf = layernorm_backward(dhead.a, output, get(parameters, "transformer.ln_f.weight"), N, C);
    add_to(d, "transformer.ln_f.weight", dlnf.weight);
    add_to(d, "transformer.ln_f.bias", dlnf.bias);
    values dx = dlnf.x;
    for (int layer = shape_.layers; layer-- > 0;) dx = backward_block(parameters, layer, blocks[layer], dx, d);
    auto const dembedding = embedding_backward(dx, tokens, T, C, V);
    add_to(d, "transformer.wte.weight", dembedding.wte);
    add_to(d, "transformer.wpe.weight", dembedding.wpe);
    return {mean(losses), std::move(d)};
  }

 private:
  /// Of every block, and the last one's output.
  [[nodiscard]] std::pair<std::vector<block_tensors>, values> forward(values const& parameters,
                                                                      indices const& tokens) const {
    std::vector<block_tensors> blocks;
    values x = embedding_forward(tokens, get(parameters, "transformer.wte.weight"),
                                 get(parameters, "transformer.wpe.weight"), T, C);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      auto const w = [&](char const* name) { return get(parameters, of_block(layer, name)); };
      block_tensors t;
      t.x = std::move(x);
      t.ln1 = layernorm_forward(t.x, w("ln_1.weight"), w("ln_1.bias"), N, C);
      t.qkv = linear(t.ln1, w("attn.c_attn.weight"), w("attn.c_attn.bias"), C, 3 * C);
      t.heads = attention_forward(t.qkv, attention());
      t.mid = sum(t.x, linear(t.heads, w("attn.c_proj.weight"), w("attn.c_proj.bias"), C, C));
      t.ln2 = layernorm_forward(t.mid, w("ln_2.weight"), w("ln_2.bias"), N, C);
      t.fc = linear(t.ln2, w("mlp.c_fc.weight"), w("mlp.c_fc.bias"), C, 4 * C);
      t.act = gelu_forward(t.fc);
      x = sum(t.mid, linear(t.act, w("mlp.c_proj.weight"), w("mlp.c_proj.bias"), 4 * C, C));
      blocks.push_back(std::move(t));
    }
    return {std::move(blocks), std::move(x)};
  }

  /// From the gradient of the block's output to that of its input; those of its parameters are added to d.
  [[nodiscard]] values backward_block(values const& parameters, int layer, block_tensors const& t, values const& dout,
                                      values& d) const {
    auto const name = [&](char const* which) { return of_block(layer, which); };
    values const dact = linear_backward(parameters, name("mlp.c_proj"), t.act, dout, 4 * C, C, d);
    values const dln2 = linear_backward(parameters, name("mlp.c_fc"), t.ln2, gelu_backward(dact, t.fc), C, 4 * C, d);
    values const dmid = sum(dout, normal_backward(parameters, name("ln_2"), t.mid, dln2, d));
    values const dheads = linear_backward(parameters, name("attn.c_proj"), t.heads, dmid, C, C, d);
    values const dqkv = attention_backward(dheads, t.qkv, attention());
    values const dln1 = linear_backward(parameters, name("attn.c_attn"), t.ln1, dqkv, C, 3 * C, d);
    return sum(dmid, normal_backward(parameters, name("ln_1"), t.x, dln1, d));
  }

  [[nodiscard]] values linear(values const& x, values const& weight, values const& bias, int in, int out) const {
    return gemm(N, out, in, x, false, weight, false, {.out = {}, .bias = bias, .residual = {}});
  }
  [[nodiscard]] values linear_backward(values const& parameters, std::string const& name, values const& x,
                                       values const& dout, int in, int out, values& d) const {
    auto const gradients = gemm_backward(N, out, in, dout, x, false, get(parameters, name + ".weight"), false);
    add_to(d, name + ".weight", gradients.b);
    add_to(d, name + ".bias", column_sums(dout, N, out));
    return gradients.a;
  }
  [[nodiscard]] values normal_backward(values const& parameters, std::string const& name, values const& x,
                                       values const& dout, values& d) const {
    auto const gradients = layernorm_backward(dout, x, get(parameters, name + ".weight"), N, C);
    add_to(d, name + ".weight", gradients.weight);
    add_to(d, name + ".bias", gradients.bias);
    return gradients.x;
  }
  [[nodiscard]] values last_layernorm(values const& parameters, values const& x) const {
    return layernorm_forward(x, get(parameters, "transformer.ln_f.weight"), get(parameters, "transformer.ln_f.bias"), N,
                             C);
  }
  [[nodiscard]] values head(values const& parameters) const {
    return get(parameters, shape_.tied ? "transformer.wte.weight" : "lm_head.weight");
  }

  [[nodiscard]] static std::string of_block(int layer, std::string const& name) {
    return "transformer.h." + std::to_string(layer) + "." + name;
  }
  [[nodiscard]] parameter const& find(std::string const& name) const {
    auto const found = std::ranges::find(layout_.all(), name, &parameter::name);
    if (found == layout_.all().end()) throw std::logic_error("no parameter " + name);
    return *found;
  }
  [[nodiscard]] values get(values const& parameters, std::string const& name) const {
    auto const& one = find(name);
    auto const here = std::span(parameters).subspan(one.offset, one.count);
    return {here.begin(), here.end()};
  }
  void add_to(values& d, std::string const& name, values const& part) const {
    auto const& one = find(name);
    for (std::size_t i = 0; i < one.count; ++i) d[one.offset + i] += part.at(i);
  }
  [[nodiscard]] static values sum(values x, values const& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    return x;
  }
  [[nodiscard]] double mean(values const& losses) const {
    double total = 0;
    for (double const loss : losses) total += loss;
    return total / N;
  }
  [[nodiscard]] attention_shape attention() const { return {B, T, C, shape_.heads}; }

  gpt_shape shape_;
  int B;
  int T = shape_.context, C = shape_.width, V = shape_.vocabulary, N = B * T;
  parameter_layout layout_;
};

}  // namespace ferry::nn::oracle
