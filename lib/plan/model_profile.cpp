// Transformers by formula. The GPT mirrors the transformer core (lib/nn/block.cpp): the same items, recipes and
// scratch. The Llama has the same items as far as it goes, with a gated hidden layer and fewer keys and values.
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
constexpr double activation_flops = 12;  // GELU, or SiLU and the product with the gate
constexpr double softmax_flops = 5;
// Of tiled attention: products with q k, v; backward has five where forward has two, because it rebuilds q k.
constexpr double tiled_backward_products = 2.5;
constexpr double statistics_bytes = 4;  // of a row of the probabilities, in fp32

/// What both kinds come down to.
struct transformer {
  int layers, width, heads, context, batch, vocabulary, element_bytes;
  bool flash_attention;
  double queries;  // features of all heads
  double keys;     // and of the keys, or of the values
  double hidden;
  double seen;  // tokens that a query sees, on average
  bool gated = false;
  bool qk_norm = false;
};

/// Tokens that a query of tiled attention sees on average: its own and those before it, up to the window.
double seen_of(int context, int window) {
  if (window == 0 || window >= context) return (context + 1) / 2.0;
  double const growing = 0.5 * window * (window + 1.0);
  return (growing + static_cast<double>(context - window) * window) / context;
}

void require_common(int layers, int width, int heads, int context, int batch, int vocabulary, int element_bytes) {
  require_between("layers", layers, 1, 10'000);
  require_between("width", width, 1, 1 << 16);
  require_between("heads", heads, 1, 1 << 16);
  require_between("context", context, 1, 1 << 22);
  require_between("batch", batch, 1, 1 << 20);
  require_between("vocabulary", vocabulary, 1, 1 << 24);
  require_between("element_bytes", element_bytes, 1, 8);
}

constexpr int most_hidden = 1 << 18;

transformer checked_dimensions(gpt_dimensions const& of) {
  require_common(of.layers, of.width, of.heads, of.context, of.batch, of.vocabulary, of.element_bytes);
  require_between("hidden", of.hidden, 0, most_hidden);
  if (of.width % of.heads != 0) {
    throw invalid_argument(
        fmt::format("heads = {} does not divide width = {}: give one that does", of.heads, of.width));
  }
  double const width = of.width;
  return {.layers = of.layers,
          .width = of.width,
          .heads = of.heads,
          .context = of.context,
          .batch = of.batch,
          .vocabulary = of.vocabulary,
          .element_bytes = of.element_bytes,
          .flash_attention = of.flash_attention,
          .queries = width,
          .keys = width,
          .hidden = of.hidden > 0 ? of.hidden : 4 * width,
          .seen = seen_of(of.context, 0)};
}

transformer checked_dimensions(llama_dimensions const& of) {
  require_common(of.layers, of.width, of.heads, of.context, of.batch, of.vocabulary, of.element_bytes);
  require_between("kv_heads", of.kv_heads, 1, of.heads);
  require_between("head_width", of.head_width, 0, 1 << 14);
  require_between("hidden", of.hidden, 1, most_hidden);
  require_between("window", of.window, 0, 1 << 30);
  if (of.heads % of.kv_heads != 0) {
    throw invalid_argument(
        fmt::format("kv_heads = {} does not divide heads = {}: give one that does", of.kv_heads, of.heads));
  }
  if (of.head_width == 0 && of.width % of.heads != 0) {
    throw invalid_argument(fmt::format("heads = {} does not divide width = {}: give one that does, or the head_width",
                                       of.heads, of.width));
  }
  double const head = of.head_width > 0 ? of.head_width : of.width / of.heads;
  return {.layers = of.layers,
          .width = of.width,
          .heads = of.heads,
          .context = of.context,
          .batch = of.batch,
          .vocabulary = of.vocabulary,
          .element_bytes = of.element_bytes,
          .flash_attention = of.flash_attention,
          .queries = head * of.heads,
          .keys = head * of.kv_heads,
          .hidden = static_cast<double>(of.hidden),
          .seen = seen_of(of.context, of.window),
          .gated = true,
          .qk_norm = of.qk_norm};
}

class builder {
 public:
  builder(transformer const& of, hardware const& on, std::string name)
      : of_(of),
        time_(on),
        rows_(static_cast<double>(of.batch) * of.context),
        width_(of.width),
        features_(rows_ * width_),
        hidden_(rows_ * of.hidden),
        probabilities_(rows_ * of.heads * of.context) {
    step_.name = std::move(name);
  }

  profile build() && {
    for (int i = 0; i < of_.layers; ++i) add_block(static_cast<std::uint32_t>(i));
    add_head();
    auto const last = static_cast<std::uint32_t>(of_.layers);
    need(last, {"lnf", "x"});
    for (std::uint32_t i = last; i-- > 0;) {
      need(i, {"act"});
      if (of_.gated) {
        need(i, {"up", "gate"});
      } else {
        need(i, {"fc"});
      }
      need(i, {"ln2", "mid", "heads"});
      if (!of_.flash_attention) need(i, {"att"});
      if (of_.qk_norm) need(i, {"qk"});
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

  [[nodiscard]] double qkv_width() const { return of_.queries + 2 * of_.keys; }
  [[nodiscard]] work embedding() const { return {0, moved(3 * features_)}; }
  [[nodiscard]] work layernorm() const { return {layernorm_flops * features_, moved(2 * features_)}; }
  [[nodiscard]] work qk_norm() const {
    double const normalised = rows_ * (of_.queries + of_.keys);
    return {layernorm_flops * normalised, moved(2 * normalised)};
  }
  /// What is read of the hidden layer: one tensor, or the gate and what it gates.
  [[nodiscard]] double hidden_tensors() const { return of_.gated ? 2 : 1; }
  [[nodiscard]] work activation() const {
    return {activation_flops * hidden_, moved((hidden_tensors() + 1) * hidden_)};
  }
  /// Reads the rows' gradient and the input, adds to the gradient that passes by.
  [[nodiscard]] double layernorm_backward_us() const {
    return time_.us({2 * layernorm_flops * features_, moved(4 * features_)});
  }
  [[nodiscard]] double activation_backward_us() const {
    return time_.us({2 * activation_flops * hidden_, moved((1 + 2 * hidden_tensors()) * hidden_)});
  }
  [[nodiscard]] work output_projection() const {
    return product(of_.hidden, width_) + work{features_, moved(features_)};
  }

  /// Tiles reach about the rate of plain products and skip what a query does not see; nothing of (T, T) meets memory.
  [[nodiscard]] work tiled_attention() const {
    return {4 * rows_ * of_.seen * of_.queries,
            moved(rows_ * (2 * of_.queries + 2 * of_.keys)) + statistics_bytes * rows_ * of_.heads};
  }
  /// The plain form multiplies the whole square and masks it: scores are written, read and written as probabilities.
  [[nodiscard]] work scores() const {
    return {2 * rows_ * of_.queries * of_.context + softmax_flops * probabilities_,
            moved(rows_ * (of_.queries + of_.keys) + 3 * probabilities_)};
  }
  [[nodiscard]] work mix() const {
    return {2 * rows_ * of_.queries * of_.context, moved(rows_ * (of_.queries + of_.keys) + probabilities_)};
  }

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
    add_item("qkv", bytes(rows_ * qkv_width()), product(width_, qkv_width()), {own("ln1")});
    add_attention(i);
    add_item("mid", bytes(features_), product(of_.queries, width_) + work{features_, moved(features_)},
             {own("x"), own("heads")});
    add_item("ln2", bytes(features_), layernorm(), {own("mid")});
    if (of_.gated) {
      add_item("gate", bytes(hidden_), product(width_, of_.hidden), {own("ln2")});
      add_item("up", bytes(hidden_), product(width_, of_.hidden), {own("ln2")});
      add_item("act", bytes(hidden_), activation(), {own("gate"), own("up")});
    } else {
      add_item("fc", bytes(hidden_), product(width_, of_.hidden), {own("ln2")});
      add_item("act", bytes(hidden_), activation(), {own("fc")});
    }
    time_block(i);
  }

  void add_attention(std::uint32_t i) {
    auto const own = [i](char const* name) { return item_name{i, name}; };
    std::vector<item_name> from{own("qkv")};  // which the values are always taken from
    if (of_.qk_norm) {
      add_item("qk", bytes(rows_ * (of_.queries + of_.keys)), qk_norm(), {own("qkv")});
      from.insert(from.begin(), own("qk"));
    }
    double const attended = rows_ * of_.queries;
    if (of_.flash_attention) {
      auto const statistics = static_cast<std::size_t>(statistics_bytes * rows_ * of_.heads);
      add_item("heads", bytes(attended) + statistics, tiled_attention(), from);
    } else {
      add_item("att", bytes(probabilities_), scores(), {own(of_.qk_norm ? "qk" : "qkv")});
      add_item("heads", bytes(attended), mix(), {own("att"), own("qkv")});
    }
  }

  void time_block(std::uint32_t i) {
    profile_segment& block = step_.segments[i];
    double forward = time_.us(output_projection());  // the next block's input
    for (auto const& item : block.items) {
      if (item.name != "x" || i == 0) forward += *item.recipe_us;
    }
    block.forward_us = to_nanoseconds(forward);

    double backward = product_backward_us(of_.hidden, width_) +
                      hidden_tensors() * product_backward_us(width_, of_.hidden) +
                      product_backward_us(of_.queries, width_) + product_backward_us(width_, qkv_width()) +
                      activation_backward_us() + 2 * layernorm_backward_us() + attention_backward_us();
    if (of_.qk_norm) backward += 2 * time_.us(qk_norm());
    if (i == 0) backward += time_.us(embedding());
    block.backward_us = to_nanoseconds(backward);

    // The gradient that passes by, with that of the hidden layer and of ln2, or with those of the attention.
    double const attention =
        features_ + rows_ * (of_.queries + qkv_width()) + (of_.flash_attention ? 0 : probabilities_);
    block.backward_scratch_bytes = bytes(std::max(2 * features_ + hidden_tensors() * hidden_, attention));
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
    double const at_once = std::min(logits, std::max<double>(of_.vocabulary, hidden_));
    head.forward_us = time_.us(layernorm());
    head.backward_us = to_nanoseconds(3 * time_.us(product(width_, of_.vocabulary)) +
                                      time_.us({softmax_flops * logits, moved(2 * logits)}) + layernorm_backward_us());
    head.backward_scratch_bytes = bytes(2 * features_ + at_once);
  }

  void need(std::uint32_t segment, std::initializer_list<char const*> names) {
    for (char const* name : names) step_.need_order.push_back({segment, name});
  }

  transformer of_;
  roofline time_;
  double rows_;  // tokens
  double width_;
  double features_;       // elements of a (batch, context, width) tensor
  double hidden_;         // of a (batch, context, hidden) one
  double probabilities_;  // of a (batch, heads, context, context) one
  profile step_;
};

}  // namespace

profile gpt_profile(gpt_dimensions const& of, hardware const& on) {
  auto name = fmt::format("gpt: {} layers, width {}, {} heads, context {}, batch {}, vocabulary {}, {}, on {}",
                          of.layers, of.width, of.heads, of.context, of.batch, of.vocabulary,
                          of.flash_attention ? "flash attention" : "quadratic attention", on.name);
  return builder(checked_dimensions(of), on, std::move(name)).build();
}

profile llama_profile(llama_dimensions const& of, hardware const& on) {
  auto name = fmt::format(
      "llama: {} layers, width {}, {} heads, {} of keys and values, hidden {}, context {}, batch {}, vocabulary {}, "
      "{}, "
      "on {}",
      of.layers, of.width, of.heads, of.kv_heads, of.hidden, of.context, of.batch, of.vocabulary,
      of.flash_attention ? "flash attention" : "quadratic attention", on.name);
  return builder(checked_dimensions(of), on, std::move(name)).build();
}

std::size_t parameter_count(gpt_dimensions const& of, bool tied) {
  auto const checked = checked_dimensions(of);
  std::size_t const C = of.width;
  auto const H = static_cast<std::size_t>(checked.hidden);
  // Matrices with their biases, and two LayerNorms.
  std::size_t const block = (C * 3 * C + 3 * C) + (C * C + C) + (C * H + H) + (H * C + C) + 4 * C;
  return block * of.layers + C * of.vocabulary * (tied ? 1 : 2) + C * of.context + 2 * C;
}

std::size_t parameter_count(llama_dimensions const& of, bool tied) {
  auto const checked = checked_dimensions(of);
  std::size_t const C = of.width;
  std::size_t const H = of.hidden;
  auto const Q = static_cast<std::size_t>(checked.queries);
  auto const K = static_cast<std::size_t>(checked.keys);
  std::size_t block = C * (Q + 2 * K) + Q * C + 3 * C * H + 2 * C;
  if (of.qkv_bias) block += Q + 2 * K;
  if (of.qk_norm) block += 2 * (Q / of.heads);
  return block * of.layers + C * of.vocabulary * (tied ? 1 : 2) + C;
}

}  // namespace ferry
