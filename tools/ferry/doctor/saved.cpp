#include "doctor/saved.hpp"

#include <algorithm>
#include <cstdint>

#include "plan/roofline.hpp"

namespace ferry::command {

namespace {

constexpr double single = 4;         // bytes of an fp32 element
constexpr double routing_each = 40;  // bytes for an expert of a token: its index, its place and its weight

/// The tensors of one block; sizes are of a token.
class block_tensors {
 public:
  block_tensors(model const& of, training const& how)
      : of_(of),
        how_(how),
        element_(static_cast<double>(element_bytes(of.numbers))),
        width_(of.width),
        head_(head_width_of(of)),
        queries_(head_ * of.heads),
        keys_(head_ * of.kv_heads),
        hidden_(active_hidden(of)) {}

  [[nodiscard]] std::vector<saved_tensor> of_block() && {
    add_structure();
    if (how_.kernels == kernel_kind::eager) {
      add_norms();
      add_activation();
      add_attention();
    }
    if (how_.lora > 0) add_adapters();
    return std::move(made_);
  }

  [[nodiscard]] std::vector<saved_tensor> of_head() && {
    if (how_.kernels == kernel_kind::eager) add("normf", "x", norm(width_, 1));
    return std::move(made_);
  }

 private:
  void add(std::string_view name, std::string_view after, double bytes, double flops = 0) {
    if (bytes > 0) made_.push_back({name, after, bytes, flops});
  }

  /// What the model has that the core has not, whatever the kernels.
  void add_structure() {
    if (of_.post_norms) {
      add("post1", "heads", width_ * element_, 2 * queries_ * width_);
      add("post2", "act", width_ * element_, 2 * hidden_ * width_);
    }
    if (of_.experts == 0) return;
    double const chosen = of_.experts_per_token;
    double const outputs = chosen + (of_.shared_hidden > 0 ? 1 : 0);
    add("router", "ln2", single * of_.experts + routing_each * chosen, 2 * width_ * of_.experts);
    add("routed", "act", (chosen + outputs) * width_ * element_, 2 * hidden_ * width_);
  }

  /// A root-mean-square norm of eager PyTorch, beside its input and output: what makes the input fp32, the normalised
  /// numbers if its weight is trained, and a number for each norm. A LayerNorm is one kernel everywhere.
  [[nodiscard]] double norm(double features, double norms) const {
    if (of_.kind == model_kind::gpt) return 0;
    double const normalised = how_.lora > 0 ? 0 : of_.wide_norms ? single : element_;
    return (single - element_ + normalised) * features + single * norms;
  }

  void add_norms() {
    add("norm1", "x", norm(width_, 1));
    if (of_.qk_norm) add("normqk", "qkv", norm(queries_ + keys_, of_.heads + of_.kv_heads));
    if (of_.post_norms) add("norm3", "post1", norm(width_, 1));
    add("norm2", "mid", norm(width_, 1));
    if (of_.post_norms) add("norm4", "post2", norm(width_, 1));
  }

  void add_activation() {
    constexpr double of_tanh = 3;  // GELU in four operations; half its input, the tangent, and one more than that
    constexpr double clamped = 4;  // gpt-oss: both halves clamped, the sigmoid and what it gates
    if (of_.kind == model_kind::gpt) return add("gelu", "fc", of_tanh * hidden_ * element_);
    add("silu", "gate", (of_.biased ? clamped : 1) * hidden_ * element_);
  }

  void add_attention() {
    if (of_.joined) {  // rotated queries and keys beside the product, and the output, copied into the order of its rows
      bool const copy_saved = how_.lora == 0 || element_ == single;
      add("rope", "qkv", (queries_ + keys_ + (copy_saved ? queries_ : 0)) * element_);
    }
    if (of_.flash || of_.kind == model_kind::gpt) return;
    double const probabilities = static_cast<double>(of_.heads) * of_.context;
    add("repeat", "qkv", 2 * (queries_ - keys_) * element_);  // keys and values, for every head
    bool const in_fp32 = element_ < single && !of_.biased;
    add("scores", "qkv", ((in_fp32 ? single : 0) + (of_.capped ? element_ : 0)) * probabilities);
  }

  /// PEFT's adapters are fp32, and what they read becomes it. Fused kernels read it as it is.
  [[nodiscard]] bool adapters_copy() const { return how_.kernels != kernel_kind::fused && element_ < single; }

  /// Beside `count` linear layers that read `item`, which has `features`: what is between an adapter's two matrices,
  /// and the copy of what it reads, for each of them alone or, compiled, for all. `stays` where `item` is saved anyway.
  void adapter(std::string_view item, double features, double count, bool stays) {
    if (!adapters_copy()) {
      between_ += count * how_.lora * element_;
      return;
    }
    double const copies = how_.kernels == kernel_kind::eager ? count : 1;
    double const bytes = count * how_.lora * single + (copies * single - (stays ? 0 : element_)) * features;
    add(item == "ln1" ? "lora1" : item == "heads" ? "lora2" : item == "ln2" ? "lora3" : "lora4", item, bytes);
  }

  void add_adapters() {
    bool const gpt = of_.kind == model_kind::gpt;
    adapter("ln1", width_, gpt || of_.joined ? 1 : 3, false);
    adapter("heads", queries_, 1, true);
    bool const dense = of_.experts == 0;
    double const hidden = dense ? hidden_ : of_.shared_hidden;  // linear layers; experts are none
    if (hidden > 0) {
      adapter("ln2", width_, gpt || of_.joined ? 1 : 2, !dense);
      adapter("act", hidden, 1, !dense);
    }
    add("lora", "act", between_);
  }

  model const& of_;
  training const& how_;
  double element_, width_, head_, queries_, keys_, hidden_;
  double between_ = 0;
  std::vector<saved_tensor> made_;
};

/// Puts tensors into a step: each behind the item that it is made from, and needed just before that in backward.
class inserter {
 public:
  inserter(std::vector<saved_tensor> const& what, double rows, planning::roofline const& time)
      : what_(what), rows_(rows), time_(time) {}

  void into_items(profile_segment& segment, std::uint32_t index) const {
    std::vector<profile_item> all;
    for (auto& item : segment.items) {
      std::string const name = item.name;
      all.push_back(std::move(item));
      append_after(all, name, index);
    }
    segment.items = std::move(all);
  }

  void into_order(std::vector<item_name>& order, item_name const& needed) const {
    for (auto const& one : what_) {
      if (one.after == needed.name) into_order(order, {needed.segment, std::string(one.name)});
    }
    order.push_back(needed);
  }

 private:
  void append_after(std::vector<profile_item>& to, std::string_view name, std::uint32_t index) const {
    for (auto const& one : what_) {
      if (one.after != name) continue;
      planning::work const remaking{rows_ * one.flops, 2 * rows_ * one.bytes};
      to.push_back({.name = std::string(one.name),
                    .bytes = static_cast<std::size_t>(std::min(rows_ * one.bytes, 0x1p60)),
                    .recipe_us = time_.us(remaking),
                    .inputs = {{index, std::string(one.after)}},
                    .recipe_flops = remaking.flops});
      append_after(to, one.name, index);
    }
  }

  std::vector<saved_tensor> const& what_;
  double rows_;
  planning::roofline const& time_;
};

}  // namespace

std::vector<saved_tensor> saved_in_block(model const& of, training const& how) {
  return block_tensors(of, how).of_block();
}

std::vector<saved_tensor> saved_in_head(model const& of, training const& how) {
  return block_tensors(of, how).of_head();
}

void add_saved(profile& step, model const& of, training const& how, hardware const& on) {
  planning::roofline const time(on);
  double const rows = static_cast<double>(of.batch) * of.context;
  auto const in_block = saved_in_block(of, how);
  auto const in_head = saved_in_head(of, how);
  if (in_block.empty() && in_head.empty()) return;
  inserter const blocks(in_block, rows, time);
  inserter const heads(in_head, rows, time);
  std::size_t const head = step.segments.size() - 1;
  for (std::uint32_t i = 0; i <= head; ++i) (i < head ? blocks : heads).into_items(step.segments[i], i);
  std::vector<item_name> order;
  for (auto const& one : step.need_order) (one.segment < head ? blocks : heads).into_order(order, one);
  step.need_order = std::move(order);
}

}  // namespace ferry::command
