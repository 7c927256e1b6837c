// A small GPT, as one writes it with LibTorch. Nothing in it knows Ferry but `forward`, which marks its blocks and, if
// it is told to, runs them through checkpoint.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>

#include "ferry/torch.hpp"

struct gpt_shape {
  std::int64_t layers = 6;
  std::int64_t width = 192;
  std::int64_t heads = 6;
  std::int64_t context = 128;
  std::int64_t batch = 4;
  std::int64_t vocabulary = 256;
  double dropout = 0.1;
};

struct block_impl : torch::nn::Module {
  block_impl(gpt_shape const& shape, at::Tensor causal_mask)
      : heads(shape.heads),
        mask(std::move(causal_mask)),
        norm1(register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
        norm2(register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
        qkv(register_module("qkv", torch::nn::Linear(shape.width, 3 * shape.width))),
        attended(register_module("attended", torch::nn::Linear(shape.width, shape.width))),
        up(register_module("up", torch::nn::Linear(shape.width, 4 * shape.width))),
        down(register_module("down", torch::nn::Linear(4 * shape.width, shape.width))),
        dropout(register_module("dropout", torch::nn::Dropout(shape.dropout))) {}

  at::Tensor forward(at::Tensor const& x) {  // (B, T, C)
    auto const h = x + dropout(attended(attention(qkv(norm1(x)))));
    return h + dropout(down(torch::gelu(up(norm2(h)))));
  }

  at::Tensor attention(at::Tensor const& projected) const {  // (B, T, 3C) -> (B, T, C)
    auto const batch = projected.size(0);
    auto const time = projected.size(1);
    auto const width = projected.size(2) / 3;
    auto const parts = projected.view({batch, time, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto scores = parts[0].matmul(parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(width / heads));
    scores = scores.masked_fill(mask, -INFINITY);
    return scores.softmax(-1).matmul(parts[2]).transpose(1, 2).reshape({batch, time, width});
  }

  std::int64_t heads;
  at::Tensor mask;  // (T, T), true where a query must not look
  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Linear qkv, attended, up, down;
  torch::nn::Dropout dropout;
};
TORCH_MODULE_IMPL(block, block_impl);

struct gpt_impl : torch::nn::Module {
  explicit gpt_impl(gpt_shape const& shape)
      : tokens(register_module("tokens", torch::nn::Embedding(shape.vocabulary, shape.width))),
        positions(register_parameter("positions", torch::randn({shape.context, shape.width}) * 0.02)),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})))),
        head(register_module("head", torch::nn::Linear(shape.width, shape.vocabulary))) {
    auto const mask = register_buffer("mask", torch::ones({shape.context, shape.context}, torch::kBool).triu(1));
    for (std::int64_t i = 0; i < shape.layers; ++i) blocks->push_back(block(shape, mask));
  }

  /// The loss of predicting each next token. (B, T + 1) -> ()
  at::Tensor forward(at::Tensor const& text, bool checkpoints) {
    auto const time = text.size(1) - 1;
    auto h = tokens(text.narrow(1, 0, time)) + positions.narrow(0, 0, time);
    std::uint32_t number = 0;
    for (auto const& module : *blocks) {
      ferry::torch::segment_scope const segment(++number);
      auto* const one = module->as<block_impl>();
      h = checkpoints ? ferry::torch::checkpoint([one](at::Tensor const& x) { return one->forward(x); }, h)
                      : one->forward(h);
    }
    ferry::torch::segment_scope const segment(number + 1);
    auto const logits = head(norm(h));
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.narrow(1, 1, time).flatten());
  }

  torch::nn::Embedding tokens;
  at::Tensor positions;
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE_IMPL(gpt, gpt_impl);
