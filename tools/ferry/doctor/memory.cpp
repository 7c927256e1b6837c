#include "doctor/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/weights.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

/// What one of `ranks` holds of a divided whole.
std::size_t part_of(double bytes, int ranks) { return static_cast<std::size_t>(std::ceil(bytes / ranks)); }

struct optimizer_bytes {
  double moments = 0;
  double copy = 0;  ///< of the weights, in fp32
};

/// Moments are as wide as what they are the moments of: PyTorch makes them in the type of the weights that it steps.
optimizer_bytes optimizer_of(model const& of, training const& how) {
  optimizer_bytes made;
  if (how.optimizer == optimizer_kind::none) return made;
  bool const copied = how.master && of.numbers != precision::fp32;
  double const element = copied ? 4 : static_cast<double>(element_bytes(of.numbers));
  for (auto const& one : weights_of(of)) {
    made.moments += moment_bytes(how.optimizer, one, element);
    if (copied) made.copy += 4 * static_cast<double>(one.numbers());
  }
  return made;
}

}  // namespace

state_bytes states_of(model const& of, training const& how) {
  auto const numbers = static_cast<double>(parameters_of(of));
  auto const each = static_cast<double>(element_bytes(of.numbers));
  bool const trained = how.optimizer != optimizer_kind::none;
  auto const ranks_from = [&](int stage) { return how.zero >= stage ? how.ranks : 1; };
  state_bytes made;
  made.weights = part_of(numbers * each, ranks_from(3));
  made.gradients = trained ? part_of(numbers * each, ranks_from(2)) : 0;
  auto const held = optimizer_of(of, how);
  double const on_host =
      (moments_on_host(how.optimizer) ? held.moments : 0) + (steps_on_host(how.optimizer) ? held.copy : 0);
  made.optimizer = part_of(held.moments + held.copy - on_host, ranks_from(1));
  made.host = part_of(on_host, ranks_from(1)) + (steps_on_host(how.optimizer) ? made.gradients : 0);
  if (how.zero == 3 && how.ranks > 1) {
    made.gathered = static_cast<std::size_t>(2 * each * static_cast<double>(block_parameters_of(of)));
  }
  return made;
}

std::string words_of_optimizer(model const& of, training const& how) {
  auto const held = optimizer_of(of, how);
  double const each = (held.moments + held.copy) / static_cast<double>(parameters_of(of));
  std::string words = fmt::format("{}: {:.3g} bytes a weight", to_string(how.optimizer), each);
  if (held.copy > 0) words += ", with an fp32 copy of it";
  if (std::size_t const host = states_of(of, how).host; host > 0) {
    words += fmt::format("; {} of host memory", format_bytes(host));
  }
  return words;
}

std::size_t logits_bytes(model const& of, bool whole) {
  double const rows = static_cast<double>(of.batch) * of.context;
  double const all = rows * of.vocabulary;
  auto const each = static_cast<double>(element_bytes(of.numbers));
  double const at_once = std::min(all, std::max<double>(of.vocabulary, rows * of.hidden));
  // At the peak, as measured (scripts/saved-tensors): logits, log-probabilities, the gradient of these and their own.
  double const whole_each = each + 3 * 4;
  double const bytes = whole ? all * whole_each : at_once * each;
  return static_cast<std::size_t>(std::min(bytes, 0x1p60));
}

profile step_of(model const& of, training const& how, hardware const& on) {
  profile step = profile_of(of, on);
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
