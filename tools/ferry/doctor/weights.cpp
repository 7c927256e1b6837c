#include "doctor/weights.hpp"

namespace ferry::command {

namespace {

std::size_t count_of(int value) { return static_cast<std::size_t>(value); }

/// Collects the weights of a block, of which there are so many.
class block_weights {
 public:
  explicit block_weights(int blocks) : blocks_(count_of(blocks)) {}

  void linear(std::size_t rows, std::size_t columns, bool biased, std::size_t each = 1) {
    all_.push_back({rows, columns, each * blocks_, weight_place::block, true});
    if (biased) vectors(rows, each);
  }
  void matrices(std::size_t rows, std::size_t columns, std::size_t each) {
    all_.push_back({rows, columns, each * blocks_, weight_place::block, false});
  }
  void vectors(std::size_t length, std::size_t each) {
    all_.push_back({length, 1, each * blocks_, weight_place::block, false});
  }
  [[nodiscard]] std::vector<weight_group> take() && { return std::move(all_); }

 private:
  std::size_t blocks_;
  std::vector<weight_group> all_;
};

void add_gpt(block_weights& to, model const& of) {
  std::size_t const width = count_of(of.width);
  std::size_t const hidden = count_of(of.hidden);
  to.linear(3 * width, width, true);
  to.linear(width, width, true);
  to.linear(hidden, width, true);
  to.linear(width, hidden, true);
  to.vectors(width, 4);  // two LayerNorms
}

void add_attention(block_weights& to, model const& of) {
  std::size_t const width = count_of(of.width);
  std::size_t const head = count_of(head_width_of(of));
  std::size_t const queries = head * count_of(of.heads);
  std::size_t const keys = head * count_of(of.kv_heads);
  if (of.joined) {
    to.linear(queries + 2 * keys, width, of.qkv_bias);
  } else {
    to.linear(queries, width, of.qkv_bias);
    to.linear(keys, width, of.qkv_bias, 2);
  }
  to.linear(width, queries, of.biased);
  if (of.qk_norm) to.vectors(head, 2);
  if (of.biased) to.vectors(count_of(of.heads), 1);  // sinks
}

void add_gated(block_weights& to, model const& of, std::size_t hidden) {
  std::size_t const width = count_of(of.width);
  if (of.joined) {
    to.linear(2 * hidden, width, false);
  } else {
    to.linear(hidden, width, false, 2);
  }
  to.linear(width, hidden, false);
}

void add_experts(block_weights& to, model const& of) {
  std::size_t const width = count_of(of.width);
  std::size_t const hidden = count_of(of.hidden);
  std::size_t const experts = count_of(of.experts);
  to.matrices(experts, width, 1);  // the router
  to.matrices(2 * hidden, width, experts);
  to.matrices(width, hidden, experts);
  if (of.biased) to.vectors(experts + experts * (2 * hidden + width), 1);
  if (of.shared_hidden == 0) return;
  add_gated(to, of, count_of(of.shared_hidden));
  to.vectors(width, 1);  // the gate of the shared one
}

std::vector<weight_group> block_of(model const& of, int blocks) {
  block_weights made(blocks);
  if (of.kind == model_kind::gpt) {
    add_gpt(made, of);
    return std::move(made).take();
  }
  add_attention(made, of);
  if (of.experts > 0) {
    add_experts(made, of);
  } else {
    add_gated(made, of, count_of(of.hidden));
  }
  made.vectors(count_of(of.width), of.post_norms ? 4 : 2);
  return std::move(made).take();
}

std::vector<weight_group> weights_of(model const& of, int blocks, bool embedding) {
  bool const gpt = of.kind == model_kind::gpt;
  std::size_t const width = count_of(of.width);
  auto all = block_of(of, blocks);
  if (embedding) {
    all.push_back({count_of(of.vocabulary), width, 1, weight_place::embedding, false});
    if (gpt) all.push_back({count_of(of.context), width, 1, weight_place::embedding, false});
  }
  if (!of.tied) all.push_back({count_of(of.vocabulary), width, 1, weight_place::head, false});
  all.push_back({width, 1, gpt ? 2U : 1U, weight_place::head, false});  // the last norm
  return all;
}

}  // namespace

std::vector<weight_group> weights_of(model const& of) { return weights_of(of, of.layers, true); }

std::vector<weight_group> unfrozen(model const& of) { return weights_of(of, of.layers - of.frozen, of.frozen == 0); }

std::vector<weight_group> adapters_of(model const& of, int rank) {
  std::vector<weight_group> all;
  for (auto const& one : weights_of(of)) {
    if (!one.linear) continue;
    all.push_back({count_of(rank), one.columns, one.count, weight_place::block, false});
    all.push_back({one.rows, count_of(rank), one.count, weight_place::block, false});
  }
  return all;
}

std::size_t numbers_in(std::vector<weight_group> const& all) noexcept {
  std::size_t sum = 0;
  for (auto const& one : all) sum += one.numbers();
  return sum;
}

}  // namespace ferry::command
