#include "doctor/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/saved.hpp"
#include "doctor/weights.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "plan/roofline.hpp"

namespace ferry::command {

namespace {

/// What one of `ranks` holds of a divided whole.
std::size_t part_of(double bytes, int ranks) { return static_cast<std::size_t>(std::ceil(bytes / ranks)); }

struct optimizer_bytes {
  double moments = 0;
  double copy = 0;  ///< of the weights, in fp32
};

std::vector<weight_group> trained_weights(model const& of, training const& how) {
  return how.lora > 0 ? adapters_of(of, how.lora) : unfrozen(of);
}

/// Of a trained weight: adapters are fp32.
double trained_element(model const& of, training const& how) {
  return how.lora > 0 ? 4 : static_cast<double>(element_bytes(of.numbers));
}

/// Moments are as wide as what they are the moments of: PyTorch makes them in the type of the weights that it steps.
optimizer_bytes optimizer_of(model const& of, training const& how) {
  optimizer_bytes made;
  if (how.optimizer == optimizer_kind::none) return made;
  double const stored = trained_element(of, how);
  bool const copied = how.master && stored < 4;
  for (auto const& one : trained_weights(of, how)) {
    made.moments += moment_bytes(how.optimizer, one, copied ? 4 : stored);
    if (copied) made.copy += 4 * static_cast<double>(one.numbers());
  }
  return made;
}

/// The largest matrix of a block, which a product needs in 16 bits.
std::size_t largest_matrix(model const& of) {
  std::size_t most = 0;
  for (auto const& one : weights_of(of)) {
    if (one.place == weight_place::block && one.matrices()) most = std::max(most, one.rows * one.columns);
  }
  return most;
}

/// What backward spares where weights are not trained: the products that would give their gradients.
void spare_gradients(profile& step, model const& of, hardware const& on) {
  planning::roofline const time(on);
  double const rows = static_cast<double>(of.batch) * of.context;
  auto const product_us = [&](double in, double out) {
    auto const each = static_cast<double>(element_bytes(of.numbers));
    return time.us({2 * rows * in * out, each * (rows * (in + out) + in * out)});
  };
  double block = 0;
  for (auto const& one : weights_of(of)) {
    if (one.linear)
      block += static_cast<double>(one.count) / of.layers *
               product_us(static_cast<double>(one.columns), static_cast<double>(one.rows));
  }
  if (of.experts > 0) block += 3 * product_us(of.width, of.experts_per_token * of.hidden);
  auto const less = [](profile_segment& in, double us) {
    in.backward_us = planning::to_nanoseconds(std::max(in.backward_us / 2, in.backward_us - us));
  };
  for (std::size_t i = 0; i + 1 < step.segments.size(); ++i) less(step.segments[i], block);
  less(step.segments.back(), product_us(of.width, of.vocabulary));
}

/// Frozen blocks save nothing, because no gradient passes them: their forward comes before the first that is trained.
void add_frozen_front(profile& step, int blocks) {
  if (blocks == 0) return;
  auto& first = step.segments.front();
  auto& input = first.items.front();
  double const more = blocks * first.forward_us;
  double flops = 0;
  for (auto const& item : first.items) flops += item.recipe_flops;
  first.forward_us = planning::to_nanoseconds(first.forward_us + more);
  input.recipe_us = planning::to_nanoseconds(*input.recipe_us + more);
  input.recipe_flops += blocks * flops;
}

}  // namespace

std::string_view to_string(kernel_kind which) noexcept {
  return which == kernel_kind::fused ? "fused" : which == kernel_kind::eager ? "eager" : "compile";
}

state_bytes states_of(model const& of, training const& how) {
  bool const trained = how.optimizer != optimizer_kind::none;
  auto const ranks_from = [&](int stage) { return how.zero >= stage ? how.ranks : 1; };
  state_bytes made;
  made.weights = part_of(stored_bytes_of(of, how), ranks_from(3));
  made.gradients = trained ? part_of(trained_bytes_of(of, how), ranks_from(2)) : 0;
  auto const held = optimizer_of(of, how);
  double const on_host =
      (moments_on_host(how.optimizer) ? held.moments : 0) + (steps_on_host(how.optimizer) ? held.copy : 0);
  made.optimizer = part_of(held.moments + held.copy - on_host, ranks_from(1));
  made.host = part_of(on_host, ranks_from(1)) + (steps_on_host(how.optimizer) ? made.gradients : 0);
  if (how.zero == 3 && how.ranks > 1) made.gathered = static_cast<std::size_t>(2 * stored_block_bytes_of(of, how));
  return made;
}

std::size_t trained_parameters_of(model const& of, training const& how) { return numbers_in(trained_weights(of, how)); }

double trained_bytes_of(model const& of, training const& how) {
  return trained_element(of, how) * static_cast<double>(trained_parameters_of(of, how));
}

double stored_bytes_of(model const& of, training const& how) {
  constexpr double nf4_each = 0.5 + 4.0 / 64;  // blocks of 64 share a scale in fp32
  double bytes = how.lora > 0 ? 4.0 * static_cast<double>(numbers_in(adapters_of(of, how.lora))) : 0;
  for (auto const& one : weights_of(of)) {
    bool const quantised = how.nf4 && one.place == weight_place::block && one.matrices();
    bytes +=
        static_cast<double>(one.numbers()) * (quantised ? nf4_each : static_cast<double>(element_bytes(of.numbers)));
  }
  return bytes;
}

double stored_block_bytes_of(model const& of, training const& how) {
  model one = of;
  model two = of;
  one.layers = 1;
  two.layers = 2;
  return stored_bytes_of(two, how) - stored_bytes_of(one, how);
}

std::string words_of_optimizer(model const& of, training const& how) {
  auto const held = optimizer_of(of, how);
  std::size_t const trained = trained_parameters_of(of, how);
  double const each = (held.moments + held.copy) / static_cast<double>(trained);
  std::string words = fmt::format("{}: {:.3g} bytes a {}weight", to_string(how.optimizer), each,
                                  trained == parameters_of(of) ? "" : "trained ");
  if (held.copy > 0) words += ", with an fp32 copy of it";
  if (std::size_t const host = states_of(of, how).host; host > 0) {
    words += fmt::format("; {} of host memory", format_bytes(host));
  }
  return words;
}

std::string words_of_training(model const& of, training const& how) {
  std::string words;
  if (how.kernels == kernel_kind::eager) words += "eager kernels; ";
  if (how.kernels == kernel_kind::compile) words += "compiled kernels; ";
  if (how.lora > 0) words += fmt::format("{} of rank {}; ", how.nf4 ? "QLoRA" : "LoRA", how.lora);
  if (of.frozen > 0) words += fmt::format("{} of {} blocks frozen; ", of.frozen, of.layers);
  return words + std::string(to_string(how.optimizer));
}

std::size_t logits_bytes(model const& of, bool whole) {
  double const rows = static_cast<double>(of.batch) * of.context;
  double const all = rows * of.vocabulary;
  auto const each = static_cast<double>(element_bytes(of.numbers));
  double const at_once = std::min(all, std::max<double>(of.vocabulary, rows * active_hidden(of)));
  // At the peak, as measured (scripts/saved-tensors): logits, log-probabilities, the gradient of these and their own.
  double const whole_each = each + 3 * 4;
  double const bytes = whole ? all * whole_each : at_once * each;
  return static_cast<std::size_t>(std::min(bytes, 0x1p60));
}

profile step_of(model const& of, training const& how, hardware const& on) {
  model trained = of;
  trained.layers -= of.frozen;
  profile step = profile_of(trained, on);
  add_frozen_front(step, of.frozen);
  add_saved(step, of, how, on);
  if (how.lora > 0) spare_gradients(step, of, on);
  if (how.nf4) {
    std::size_t const restored = largest_matrix(of) * element_bytes(of.numbers);
    for (auto& segment : step.segments) segment.backward_scratch_bytes += restored;
  }
  step = in_flags([&] { return planning::checked(std::move(step)); });
  if (!how.whole_logits) return step;
  constexpr std::size_t most = std::size_t{1} << 50;
  std::size_t const all = logits_bytes(of, true);
  if (all > most) throw setting_error("this model cannot be: its logits have more than 2^50 bytes; lower --vocab");
  step.segments.back().backward_scratch_bytes += all - logits_bytes(of, false);
  return step;
}

activation_bytes activations_of(model const& of, profile const& step) {
  activation_bytes made;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) {
      made.saved += item.bytes;
      auto const known = std::ranges::find(made.operations, item.name, &operation_bytes::name);
      if (known == made.operations.end()) {
        made.operations.push_back({item.name, item.bytes, 1});
      } else {
        ++known->count;
      }
    }
  }
  for (auto const& item : step.segments.front().items) made.per_layer += item.bytes;
  // While a segment's backward runs, its items and those before it are there.
  std::size_t there = 0;
  std::size_t peak = 0;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) there += item.bytes;
    peak = std::max(peak, there + segment.backward_scratch_bytes);
  }
  made.scratch = peak - made.saved;
  std::size_t const head_scratch = step.segments.back().backward_scratch_bytes;
  std::size_t const features = static_cast<std::size_t>(of.batch) * of.context * of.width * element_bytes(of.numbers);
  made.logits = head_scratch > 2 * features ? head_scratch - 2 * features : 0;
  return made;
}

memory_report memory_of(model const& of, training const& how, profile const& step, std::size_t device_bytes,
                        std::size_t reserve) {
  return {.parameters = parameters_of(of),
          .states = states_of(of, how),
          .activations = activations_of(of, step),
          .device_bytes = device_bytes,
          .reserve = reserve};
}

}  // namespace ferry::command
