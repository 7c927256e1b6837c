#include "ferry/nn/items.hpp"

namespace ferry::nn {

label name_of(item what) noexcept {
  static constexpr std::array<char const*, item_count> names{"x",   "ln1", "qkv", "att", "heads",
                                                             "mid", "ln2", "fc",  "act"};
  return names[static_cast<std::size_t>(what)];
}

std::vector<item_description> describe_items(gpt_shape const& shape, int batch) {
  double const N = static_cast<double>(batch) * shape.context;
  double const C = shape.width;
  double const T = shape.context;
  double const h = shape.heads;
  double const seen = (T + 1) / 2;  // keys per query, on average
  bool const whole = shape.attention == attention_form::whole;
  double const probabilities = N * h * T;
  auto const linear = [N](double in, double out) { return 2 * N * in * out; };
  auto const count = [](double floats) { return static_cast<std::size_t>(floats); };
  // Bytes: activations in and out, and the weights of a product.
  auto const moved = [](double floats) { return 4 * floats; };
  return {
      {item::x, "(B, T, C)", count(N * C), "mid + act W + b, of the block before", linear(4 * C, C),
       moved(6 * N * C + 4 * C * C)},
      {item::ln1, "(B, T, C)", count(N * C), "LayerNorm of x", 8 * N * C, moved(2 * N * C)},
      {item::qkv, "(B, T, 3C)", count(3 * N * C), "ln1 W + b", linear(C, 3 * C), moved(4 * N * C + 3 * C * C)},
      {item::att, "(B, heads, T, T)", whole ? count(probabilities) : 0, "softmax of q k, from qkv",
       whole ? 2 * N * seen * C + 5 * N * h * seen : 0, whole ? moved(2 * N * C + probabilities) : 0},
      {item::heads, whole ? "(B, T, C)" : "(B, T, C) and (B, heads, T)", count(N * C + (whole ? 0 : N * h)),
       whole ? "att v, from att and qkv" : "tiled attention, from qkv", (whole ? 2 : 4) * N * seen * C,
       moved(whole ? 2 * N * C + probabilities : 4 * N * C + N * h)},
      {item::mid, "(B, T, C)", count(N * C), "x + heads W + b", linear(C, C), moved(3 * N * C + C * C)},
      {item::ln2, "(B, T, C)", count(N * C), "LayerNorm of mid", 8 * N * C, moved(2 * N * C)},
      {item::fc, "(B, T, 4C)", count(4 * N * C), "ln2 W + b", linear(C, 4 * C), moved(5 * N * C + 4 * C * C)},
      {item::act, "(B, T, 4C)", count(4 * N * C), "GELU of fc", 4 * N * C * 12, moved(8 * N * C)},
  };
}

double flops_of_pass(gpt_shape const& shape, int batch) {
  double forward = 0;
  for (auto const& one : describe_items(shape, batch)) forward += one.flops;
  double const N = static_cast<double>(batch) * shape.context;
  double const head = 2 * N * shape.width * shape.vocabulary;
  return 3 * (forward * shape.layers + head);  // backward: one product for each operand's gradient
}

recompute_work work_of(recompute_counts const& counts, std::vector<item_description> const& items) {
  recompute_work sum;
  for (auto const& one : items) {
    sum.flops += counts.runs(one.what) * one.flops;
    sum.bytes += counts.runs(one.what) * one.bytes;
  }
  double const embedding_bytes = 3.0 * sizeof(float) * static_cast<double>(items.front().floats);
  sum.bytes += counts.embeddings() * embedding_bytes;
  return sum;
}

}  // namespace ferry::nn
