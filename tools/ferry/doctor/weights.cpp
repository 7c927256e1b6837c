#include "doctor/weights.hpp"

namespace ferry::command {

namespace {

/// Matrices and vectors of one block, times the blocks.
class block_weights {
 public:
  explicit block_weights(model const& of) : of_(of), blocks_(static_cast<std::size_t>(of.layers)) {}

  void matrix(std::size_t rows, std::size_t columns, bool biased, std::size_t each = 1) {
    all_.push_back({rows, columns, each * blocks_, true});
    if (biased) vectors(rows, each);
  }
  void vectors(std::size_t length, std::size_t each = 1) { all_.push_back({length, 1, each * blocks_, true}); }

  [[nodiscard]] std::vector<weight_group> take() && { return std::move(all_); }

 private:
  model const& of_;
  std::size_t blocks_;
  std::vector<weight_group> all_;
};

std::vector<weight_group> gpt_block(model const& of) {
  auto const width = static_cast<std::size_t>(of.width);
  auto const hidden = static_cast<std::size_t>(of.hidden);
  block_weights made(of);
  made.matrix(3 * width, width, true);
  made.matrix(width, width, true);
  made.matrix(hidden, width, true);
  made.matrix(width, hidden, true);
  made.vectors(width, 4);  // two LayerNorms
  return std::move(made).take();
}

std::vector<weight_group> llama_block(model const& of) {
  auto const width = static_cast<std::size_t>(of.width);
  auto const hidden = static_cast<std::size_t>(of.hidden);
  auto const head = static_cast<std::size_t>(of.head_width > 0 ? of.head_width : of.width / of.heads);
  std::size_t const queries = head * static_cast<std::size_t>(of.heads);
  std::size_t const keys = head * static_cast<std::size_t>(of.kv_heads);
  block_weights made(of);
  made.matrix(queries, width, of.qkv_bias);
  made.matrix(keys, width, of.qkv_bias, 2);
  made.matrix(width, queries, false);
  made.matrix(hidden, width, false, 2);
  made.matrix(width, hidden, false);
  made.vectors(width, 2);
  if (of.qk_norm) made.vectors(head, 2);
  return std::move(made).take();
}

}  // namespace

std::vector<weight_group> weights_of(model const& of) {
  bool const gpt = of.kind == model_kind::gpt;
  auto const width = static_cast<std::size_t>(of.width);
  auto all = gpt ? gpt_block(of) : llama_block(of);
  all.push_back({static_cast<std::size_t>(of.vocabulary), width, of.tied ? 1U : 2U});
  if (gpt) all.push_back({static_cast<std::size_t>(of.context), width});
  all.push_back({width, 1, gpt ? 2U : 1U});  // the last norm
  return all;
}

}  // namespace ferry::command
