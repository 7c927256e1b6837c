// The GPT by formula. It mirrors the transformer core (lib/nn/block.cpp): the same items, recipes and scratch.
#include "ferry/model_profile.hpp"

#include <algorithm>
#include <utility>

#include "plan/roofline.hpp"

namespace ferry {

namespace {

using planning::require_between;
using planning::roofline;
using planning::to_nanoseconds;
using planning::work;

// FLOPs for each element of the operations that only pass over memory; they never decide the time.
constexpr double layernorm_flops = 8;
constexpr double gelu_flops = 12;
constexpr double softmax_flops = 5;
// Of tiled attention: products with q k, v; backward has five where forward has two, because it rebuilds q k.
constexpr double tiled_backward_products = 2.5;
constexpr double statistics_bytes = 4;  // of a row of the probabilities, in fp32

void require_valid(gpt_dimensions const& of) {
  require_between("layers", of.layers, 1, 10'000);
  require_between("width", of.width, 1, 1 << 16);
  require_between("heads", of.heads, 1, 1 << 16);
  require_between("context", of.context, 1, 1 << 22);
  require_between("batch", of.batch, 1, 1 << 20);
  require_between("vocabulary", of.vocabulary, 1, 1 << 24);
  require_between("element_bytes", of.element_bytes, 1, 8);
  if (of.width % of.heads != 0) {
    throw invalid_argument(
        fmt::format("heads = {} does not divide width = {}: give one that does", of.heads, of.width));
  }
}

class gpt_builder {
 public:
  gpt_builder(gpt_dimensions const& of, hardware const& on)
      : of_(of),
        time_(on),
        rows_(static_cast<double>(of.batch) * of.context),
        width_(of.width),
        features_(rows_ * width_),
        probabilities_(rows_ * of.heads * of.context) {
    step_.name = fmt::format("gpt: {} layers, width {}, {} heads, context {}, batch {}, vocabulary {}, {}, on {}",
                             of.layers, of.width, of.heads, of.context, of.batch, of.vocabulary,
                             of.flash_attention ? "flash attention" : "quadratic attention", on.name);
  }

  profile build() && {
    for (int i = 0; i < of_.layers; ++i) add_block(static_cast<std::uint32_t>(i));
    add_head();
    auto const last = static_cast<std::uint32_t>(of_.layers);
    need(last, {"lnf", "x"});
    for (std::uint32_t i = last; i-- > 0;) {
      need(i, {"act", "fc", "ln2", "mid", "heads"});
      if (!of_.flash_attention) need(i, {"att"});
      need(i, {"qkv", "ln1", "x"});
    }
    return planning::checked(std::move(step_));
  }

 private:
  [[nodiscard]] double moved(double elements) const { return elements * of_.element_bytes; }
  /// What no profile may hold is cut off at a size that fits the type; the check refuses it.
  [[nodiscard]] std::size_t bytes(double elements) const {
    return static_cast<std::size_t>(std::min(moved(elements), 0x1p60));
  }

  /// rows x in by in x out: each operand and the result pass over memory once.
  [[nodiscard]] work product(double in, double out) const {
    return {2 * rows_ * in * out, moved(rows_ * (in + out) + in * out)};
  }
  /// One product for each operand's gradient.
  [[nodiscard]] double product_backward_us(double in, double out) const { return 2 * time_.us(product(in, out)); }

  [[nodiscard]] work embedding() const { return {0, moved(3 * features_)}; }
  [[nodiscard]] work layernorm() const { return {layernorm_flops * features_, moved(2 * features_)}; }
  [[nodiscard]] work gelu() const { return {gelu_flops * 4 * features_, moved(8 * features_)}; }
  /// Reads the rows' gradient and the input, adds to the gradient that passes by.
  [[nodiscard]] double layernorm_backward_us() const {
    return time_.us({2 * layernorm_flops * features_, moved(4 * features_)});
  }
  [[nodiscard]] double gelu_backward_us() const {
    return time_.us({2 * gelu_flops * 4 * features_, moved(12 * features_)});
  }
  [[nodiscard]] work output_projection() const {
    return product(4 * width_, width_) + work{features_, moved(features_)};
  }

  /// Tiles reach about the rate of plain products and skip what a query does not see; nothing of (T, T) meets memory.
  [[nodiscard]] work tiled_attention() const {
    double const seen = (of_.context + 1) / 2.0;
    return {4 * rows_ * seen * width_, moved(4 * features_) + statistics_bytes * rows_ * of_.heads};
  }
  /// The plain form multiplies the whole square and masks it: scores are written, read and written as probabilities.
  [[nodiscard]] work scores() const {
    return {2 * features_ * of_.context + softmax_flops * probabilities_, moved(2 * features_ + 3 * probabilities_)};
  }
  [[nodiscard]] work mix() const { return {2 * features_ * of_.context, moved(2 * features_ + probabilities_)}; }

  void add_item(std::string name, std::size_t size, work const& recipe, std::vector<item_name> inputs) {
    step_.segments.back().items.push_back({.name = std::move(name),
                                           .bytes = size,
                                           .recipe_us = time_.us(recipe),
                                           .inputs = std::move(inputs),
                                           .recipe_flops = recipe.flops});
  }

  /// The block's input, which the block before has made.
  void add_input(std::uint32_t segment) {
    if (segment == 0) return add_item("x", bytes(features_), embedding(), {});
    add_item("x", bytes(features_), output_projection(), {{segment - 1, "mid"}, {segment - 1, "act"}});
  }

  void add_block(std::uint32_t i) {
    step_.segments.emplace_back();
    auto const own = [i](char const* name) { return item_name{i, name}; };
    add_input(i);
    add_item("ln1", bytes(features_), layernorm(), {own("x")});
    add_item("qkv", bytes(3 * features_), product(width_, 3 * width_), {own("ln1")});
    if (of_.flash_attention) {
      auto const statistics = static_cast<std::size_t>(statistics_bytes * rows_ * of_.heads);
      add_item("heads", bytes(features_) + statistics, tiled_attention(), {own("qkv")});
    } else {
      add_item("att", bytes(probabilities_), scores(), {own("qkv")});
      add_item("heads", bytes(features_), mix(), {own("att"), own("qkv")});
    }
    add_item("mid", bytes(features_), product(width_, width_) + work{features_, moved(features_)},
             {own("x"), own("heads")});
    add_item("ln2", bytes(features_), layernorm(), {own("mid")});
    add_item("fc", bytes(4 * features_), product(width_, 4 * width_), {own("ln2")});
    add_item("act", bytes(4 * features_), gelu(), {own("fc")});
    time_block(i);
  }

  void time_block(std::uint32_t i) {
    profile_segment& block = step_.segments[i];
    double forward = time_.us(output_projection());  // the next block's input
    for (auto const& item : block.items) {
      if (item.name != "x" || i == 0) forward += *item.recipe_us;
    }
    block.forward_us = to_nanoseconds(forward);

    double backward = product_backward_us(4 * width_, width_) + product_backward_us(width_, 4 * width_) +
                      product_backward_us(width_, width_) + product_backward_us(width_, 3 * width_) +
                      gelu_backward_us() + 2 * layernorm_backward_us() + attention_backward_us();
    if (i == 0) backward += time_.us(embedding());
    block.backward_us = to_nanoseconds(backward);

    // The gradient that passes by, with that of the hidden layer and of ln2, or with those of the attention.
    double const attention = 5 * features_ + (of_.flash_attention ? 0 : probabilities_);
    block.backward_scratch_bytes = bytes(std::max(6 * features_, attention));
  }

  [[nodiscard]] double attention_backward_us() const {
    if (!of_.flash_attention) return 2 * (time_.us(scores()) + time_.us(mix()));
    work const forward = tiled_attention();
    return time_.us({tiled_backward_products * forward.flops, 2 * forward.bytes});
  }

  /// Logits exist for as many rows at a time as fill a hidden layer, and become their own gradient where they are: so
  /// all that is done with them counts as backward.
  void add_head() {
    auto const segment = static_cast<std::uint32_t>(step_.segments.size());
    step_.segments.emplace_back();
    add_input(segment);
    add_item("lnf", bytes(features_), layernorm(), {{segment, "x"}});
    profile_segment& head = step_.segments.back();
    double const logits = rows_ * of_.vocabulary;
    double const at_once = std::min(logits, std::max<double>(of_.vocabulary, 4 * features_));
    head.forward_us = time_.us(layernorm());
    head.backward_us = to_nanoseconds(3 * time_.us(product(width_, of_.vocabulary)) +
                                      time_.us({softmax_flops * logits, moved(2 * logits)}) + layernorm_backward_us());
    head.backward_scratch_bytes = bytes(2 * features_ + at_once);
  }

  void need(std::uint32_t segment, std::initializer_list<char const*> names) {
    for (char const* name : names) step_.need_order.push_back({segment, name});
  }

  gpt_dimensions const& of_;
  roofline time_;
  double rows_;  // tokens
  double width_;
  double features_;       // elements of a (batch, context, width) tensor
  double probabilities_;  // of a (batch, heads, context, context) one
  profile step_;
};

}  // namespace

profile gpt_profile(gpt_dimensions const& of, hardware const& on) {
  require_valid(of);
  return gpt_builder(of, on).build();
}

}  // namespace ferry
