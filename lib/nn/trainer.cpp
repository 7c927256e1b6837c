#include "ferry/nn/trainer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numbers>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/rehearsal.hpp"

namespace ferry::nn {

float learning_rate(training_options const& options, std::uint64_t step) noexcept {
  if (step < options.warmup) {
    return options.learning_rate * static_cast<float>(step + 1) / static_cast<float>(options.warmup);
  }
  if (step >= options.steps) return options.learning_rate * options.final_fraction;
  double const way = static_cast<double>(step - options.warmup) /
                     static_cast<double>(std::max<std::uint64_t>(1, options.steps - options.warmup));
  double const share = 0.5 * (1 + std::cos(std::numbers::pi * way));
  return options.learning_rate *
         static_cast<float>(options.final_fraction + (1 - static_cast<double>(options.final_fraction)) * share);
}

trainer::trainer(device& on, stream_ref stream, ops& with, gpt_shape const& shape, int batch, training_options options)
    : device_(on),
      stream_(stream),
      ops_(with),
      options_(options),
      model_(on, stream, with, shape, batch),
      m_(on, memory_space::device, model_.parameters().bytes()),
      v_(on, memory_space::device, model_.parameters().bytes()),
      norm_workspace_(on, memory_space::device, ops::norm_workspace_doubles(model_.layout().floats()) * sizeof(double)),
      clip_(on, memory_space::device, 2 * sizeof(float)),
      staging_(on, stream),
      tokens_(static_cast<std::size_t>(batch) * shape.context),
      targets_(tokens_.size()) {
  std::vector<float> weights(model_.layout().floats());
  model_.layout().initialize(weights, options_.seed);
  set_weights(weights);
  ops_.set_to_zero(stream_, m_.as<float>(), weights.size());
  ops_.set_to_zero(stream_, v_.as<float>(), weights.size());
  device_.synchronize(stream_);
}

std::size_t trainer::bytes_beside_budget(gpt_shape const& shape, int batch) {
  std::size_t const floats = parameter_layout(shape).floats();
  return gpt::bytes_beside_budget(shape, batch) + 2 * floats * sizeof(float) +
         ops::norm_workspace_doubles(floats) * sizeof(double) + 2 * sizeof(float);
}

step_result trainer::step(session& on, token_data const& data) {
  auto const began = std::chrono::steady_clock::now();
  step_result result;
  result.learning_rate = learning_rate(options_, steps_done_);
  try {
    enqueue_step(on, data);
    enqueue_update(result.learning_rate);
  } catch (...) {
    // What is enqueued still uses the session's memory, which the caller may give back next.
    device_.synchronize(stream_);
    throw;
  }
  result.loss = model_.loss();
  staging_.download(&result.gradient_norm, clip_.data(), sizeof result.gradient_norm);
  ++steps_done_;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

void trainer::enqueue_step(session& on, token_data const& data) {
  session::step_scope step(on);
  for (std::uint32_t i = 0; i < options_.accumulate; ++i) {
    data.fill_batch(split::training, options_.seed, steps_done_ * options_.accumulate + i, model_.batch(),
                    model_.shape().context, tokens_.data(), targets_.data());
    model_.pass(on, tokens_, targets_, i, options_.accumulate);
  }
  step.end();
}

void trainer::enqueue_update(float rate) {
  auto const& layout = model_.layout();
  auto* const weight = model_.parameters().as<float>();
  auto* const gradient = model_.gradients().as<float>();
  auto* const clip = clip_.as<float>();
  ops_.gradient_norm(stream_, clip, gradient, norm_workspace_.as<double>(), layout.floats(), options_.clip);
  adamw_step how{.learning_rate = rate, .weight_decay = options_.weight_decay};
  auto const n = static_cast<double>(steps_done_ + 1);
  how.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(how.beta1), n));
  how.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(how.beta2), n));
  std::size_t const decayed = layout.decayed_floats();
  ops_.adamw(stream_, weight, gradient, m_.as<float>(), v_.as<float>(), clip, decayed, how);
  how.weight_decay = 0;
  ops_.adamw(stream_, weight + decayed, gradient + decayed, m_.as<float>() + decayed, v_.as<float>() + decayed, clip,
             layout.floats() - decayed, how);
}

double trainer::validate(session& on, token_data const& data, std::uint64_t batches) {
  double sum = 0;
  for (std::uint64_t i = 0; i < batches; ++i) {
    data.fill_batch(split::validation, options_.seed, i, model_.batch(), model_.shape().context, tokens_.data(),
                    targets_.data());
    sum += model_.evaluate(on, tokens_, targets_);
  }
  return sum / static_cast<double>(batches);
}

std::vector<float> trainer::download(memory const& from) {
  std::vector<float> values(from.bytes() / sizeof(float));
  staging_.download(values.data(), from.data(), from.bytes());
  return values;
}

std::vector<float> trainer::weights() { return download(model_.parameters()); }
std::vector<float> trainer::gradients() { return download(model_.gradients()); }
trainer::state trainer::save_state() { return {weights(), download(m_), download(v_), steps_done_}; }

void trainer::set_weights(std::span<float const> weights) {
  staging_.upload(model_.parameters().data(), weights.data(), weights.size_bytes());
}

void trainer::restore_state(state const& from) {
  set_weights(from.weights);
  staging_.upload(m_.data(), from.m.data(), from.m.size() * sizeof(float));
  staging_.upload(v_.data(), from.v.data(), from.v.size() * sizeof(float));
  steps_done_ = from.steps_done;
}

namespace {

/// Of all that a step asks for at once.
std::size_t largest_block_bytes(gpt_shape const& shape, int batch) {
  int const rows = batch * shape.context;
  std::size_t largest = static_cast<std::size_t>(rows_of_logits(shape, rows)) * shape.vocabulary;
  for (auto const& one : describe_items(shape, batch)) largest = std::max(largest, one.floats);
  return largest * sizeof(float);
}

}  // namespace

std::size_t smallest_budget(gpt_shape const& shape, int batch, std::uint32_t micro_batches, config settings,
                            std::size_t most_bytes) {
  constexpr int rehearsals = 3;  // the first finds out what later ones act on
  rehearsal stage({.settings = std::move(settings),
                   .most_bytes = most_bytes,
                   .unit_bytes = std::size_t{64} << 10,
                   .margin_bytes = largest_block_bytes(shape, batch)});
  stream const compute(stage.on(), stream_kind::compute, "rehearsal");
  auto const idle = make_idle_ops();
  gpt model(stage.on(), compute, *idle, shape, batch);
  return stage.smallest_budget([&](session& on) {
    for (int i = 0; i < rehearsals; ++i) model.rehearse(on, micro_batches);
  });
}

}  // namespace ferry::nn
