#include "ferry/nn/gpt.hpp"

#include <algorithm>
#include <utility>

namespace ferry::nn {

namespace {

/// One operation after the other uses it.
std::size_t workspace_floats(gpt_shape const& shape, int batch) {
  std::size_t const sums = ops::workspace_floats(batch * shape.context, 4 * shape.width);
  if (shape.attention == attention_form::whole) return sums;
  return std::max(sums, ops::attention_workspace_floats({batch, shape.context, shape.width, shape.heads}));
}

gpt_shape const& checked(gpt_shape const& shape) {
  require_valid(shape);
  return shape;
}

}  // namespace

int rows_of_logits(gpt_shape const& shape, int rows) noexcept {
  constexpr long least = 64;
  long const as_hidden = 4L * shape.width * rows / shape.vocabulary;
  return static_cast<int>(std::min<long>(rows, std::max(least, as_hidden / least * least)));
}

gpt::gpt(device& on, stream_ref stream, ops& with, gpt_shape const& shape, int batch)
    : device_(on),
      stream_(stream),
      ops_(&with),
      shape_(checked(shape)),
      batch_(batch),
      layout_(shape),
      parameters_(on, memory_space::device, layout_.floats() * sizeof(float)),
      gradients_(on, memory_space::device, layout_.floats() * sizeof(float)),
      tokens_(on, memory_space::device, 2 * rows() * sizeof(std::int32_t)),
      losses_(on, memory_space::device, rows() * sizeof(float)),
      total_(on, memory_space::device, sizeof(double)),
      workspace_(on, memory_space::device, workspace_floats(shape, batch) * sizeof(float)),
      staging_(on, stream, std::max<std::size_t>(2 * rows() * sizeof(std::int32_t), shape.vocabulary * sizeof(float))) {
  for (auto const& one : describe_items(shape, 1))
    floats_per_sequence_[static_cast<std::size_t>(one.what)] = one.floats;
  ops_->set_to_zero(stream_, gradients_.as<float>(), layout_.floats());  // the gaps are never written again
}

std::size_t gpt::bytes_beside_budget(gpt_shape const& shape, int batch) {
  std::size_t const rows = static_cast<std::size_t>(batch) * shape.context;
  return 2 * parameter_layout(shape).floats() * sizeof(float) + rows * (2 * sizeof(std::int32_t) + sizeof(float)) +
         sizeof(double) + workspace_floats(shape, batch) * sizeof(float);
}

void gpt::pass(session& on, std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets,
               std::uint32_t micro_batch, std::uint32_t micro_batches) {
  load(tokens, targets);
  walk(on, micro_batch, micro_batches);
}

void gpt::walk(session& on, std::uint32_t micro_batch, std::uint32_t micro_batches) {
  route const way = begin(on, micro_batch, batch_, tape::mode::recording);
  if (way.first) ops_->set_to_zero(stream_, total_.as<float>(), sizeof(double) / sizeof(float));
  backward(way, turn(way, forward(way), micro_batches));
}

double gpt::loss() {
  double value = 0;
  staging_.download(&value, total_.data(), sizeof value);
  return value;
}

double gpt::evaluate(session& on, std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets) {
  load(tokens, targets);
  route const way = begin(on, 0, batch_, tape::mode::off_the_record);
  auto const normal = final_layernorm(way, forward(way));
  ops_->set_to_zero(stream_, total_.as<float>(), sizeof(double) / sizeof(float));
  losses_of(way, normal.as<float>(), nullptr, 1);
  return loss();
}

std::vector<float> gpt::next_logits(session& on, std::span<std::int32_t const> tokens) {
  int const C = shape_.width;
  int const V = shape_.vocabulary;
  std::vector<std::int32_t> padded(shape_.context, 0);  // what follows a token has no part in its logits
  std::ranges::copy(tokens, padded.begin());
  staging_.upload(tokens_.data(), padded.data(), padded.size() * sizeof(std::int32_t));
  route const way = begin(on, 0, 1, tape::mode::off_the_record);
  auto const normal = final_layernorm(way, forward(way));
  auto const logits = way.on.scratch(V, "logits");
  ops_->gemm(stream_, "logits",
             {.m = 1,
              .n = V,
              .k = C,
              .a = {normal.as<float>() + (tokens.size() - 1) * C},
              .b = {layout_.outer(parameters_.as<float>()).head, true},
              .out = logits.as<float>()});
  std::vector<float> values(V);
  staging_.download(values.data(), logits.data(), values.size() * sizeof(float));
  return values;
}

void gpt::rehearse(session& on, std::uint32_t micro_batches) {
  auto const idle = make_idle_ops();
  struct swapped_back {
    ops*& current;
    ops* real;
    ~swapped_back() { current = real; }
  } const guard{ops_, std::exchange(ops_, idle.get())};
  recompute_counts const counted = counts_;
  session::step_scope step(on);
  for (std::uint32_t i = 0; i < micro_batches; ++i) walk(on, i, micro_batches);
  step.end();
  counts_ = counted;
}

/// Tokens go to the device when the pass before no longer reads those that are there.
void gpt::load(std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets) {
  staging_.upload(tokens_.data(), tokens.data(), tokens.size_bytes());
  staging_.upload(tokens_.as<std::int32_t>() + rows(), targets.data(), targets.size_bytes());
}

gpt::route gpt::begin(session& on, std::uint32_t micro_batch, int B, tape::mode mode) {
  auto const* const tokens = tokens_.as<std::int32_t>();
  return {tape(on, stream_, micro_batch, mode, counts_), tokens, tokens + rows(), B, micro_batch == 0};
}

activation gpt::forward(route const& way) {
  auto x = embed(way);
  for (std::uint32_t layer = 0; layer < layers(); ++layer) x = forward_block(way, layer, std::move(x));
  return x;
}

void gpt::backward(route const& way, block dx) {
  for (std::uint32_t layer = layers(); layer-- > 0;) backward_block(way, layer, dx);
  auto const d = layout_.outer(gradients_.as<float>());
  if (way.first && !shape_.tied) {
    ops_->set_to_zero(stream_, d.wte, static_cast<std::size_t>(shape_.vocabulary) * shape_.width);
  }
  ops_->embedding_backward(stream_, d.wte, d.wpe, dx.as<float>(), way.tokens, way.B, shape_.context, shape_.width,
                           shape_.vocabulary, way.accumulate());
}

block gpt::turn(route const& way, activation x, std::uint32_t micro_batches) {
  int const N = way.B * shape_.context;
  int const C = shape_.width;
  auto const w = layout_.outer(parameters_.as<float>());
  auto const d = layout_.outer(gradients_.as<float>());
  auto normal = final_layernorm(way, x);
  auto const dnormal = way.on.scratch(item_floats(item::x, way.B), "d lnf");
  losses_of(way, normal.as<float>(), dnormal.as<float>(), micro_batches);
  normal = {};
  auto dx = way.on.scratch(item_floats(item::x, way.B), "d x");
  ops_->layernorm_backward(stream_, dx.as<float>(), d.lnf_weight, d.lnf_bias, dnormal.as<float>(), x.data(),
                           w.lnf_weight, workspace_.as<float>(), N, C, false, way.accumulate());
  x.end();  // a parameter would live on until the caller's whole expression is done, backward included
  return dx;
}

block gpt::final_layernorm(route const& way, activation const& x) {
  auto const w = layout_.outer(parameters_.as<float>());
  auto normal = way.on.scratch(item_floats(item::x, way.B), "lnf");
  ops_->layernorm_forward(stream_, normal.as<float>(), x.data(), w.lnf_weight, w.lnf_bias, way.B * shape_.context,
                          shape_.width);
  return normal;
}

/// normal: (B, T, C), after the last LayerNorm; dnormal: its gradient, or null. Logits exist for some rows at a time,
/// and become their own gradient where they are.
void gpt::losses_of(route const& way, float const* normal, float* dnormal, std::uint32_t micro_batches) {
  int const N = way.B * shape_.context;
  int const C = shape_.width;
  int const V = shape_.vocabulary;
  double const share = 1.0 / (static_cast<double>(N) * micro_batches);
  float const gradient_scale = dnormal != nullptr ? static_cast<float>(share) : 0.0F;
  float* const head = layout_.outer(parameters_.as<float>()).head;
  float* const dhead = layout_.outer(gradients_.as<float>()).head;
  int const most = rows_of_logits(shape_, N);
  auto const logits = way.on.scratch(static_cast<std::size_t>(most) * V, "logits");
  for (int row = 0; row < N; row += most) {
    int const rows = std::min(most, N - row);
    float const* const from = normal + static_cast<long>(row) * C;
    ops_->gemm(stream_, "logits",
               {.m = rows, .n = V, .k = C, .a = {from}, .b = {head, true}, .out = logits.as<float>()});
    ops_->cross_entropy(stream_, losses_.as<float>() + row, logits.as<float>(), way.targets + row, rows, V,
                        gradient_scale);
    if (dnormal == nullptr) continue;
    ops_->gemm(stream_, "logits dx",
               {.m = rows,
                .n = C,
                .k = V,
                .a = {logits.as<float>()},
                .b = {head},
                .out = dnormal + static_cast<long>(row) * C});
    ops_->gemm(stream_, "logits dw",
               {.m = V,
                .n = C,
                .k = rows,
                .a = {logits.as<float>(), true},
                .b = {from},
                .out = dhead,
                .accumulate = way.accumulate() || row > 0});
  }
  ops_->add_losses(stream_, total_.as<double>(), losses_.as<float>(), N, share);
}

}  // namespace ferry::nn
