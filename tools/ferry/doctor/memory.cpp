#include "doctor/memory.hpp"

#include <algorithm>
#include <cmath>

#include "ferry/error.hpp"

namespace ferry::command {

namespace {

/// What one of `ranks` holds of a divided whole.
std::size_t part_of(double bytes, int ranks) { return static_cast<std::size_t>(std::ceil(bytes / ranks)); }

}  // namespace

std::string_view to_string(optimizer_kind which) noexcept {
  switch (which) {
    case optimizer_kind::adamw:
      return "adamw";
    case optimizer_kind::adamw8bit:
      return "adamw8bit";
    case optimizer_kind::sgd:
      return "sgd";
    case optimizer_kind::none:
      break;
  }
  return "none";
}

double optimizer_bytes_each(optimizer_kind which, precision numbers) noexcept {
  if (which == optimizer_kind::none) return 0;
  double const copy = numbers == precision::fp32 ? 0 : 4;
  switch (which) {
    case optimizer_kind::adamw:
      return copy + 8;
    case optimizer_kind::adamw8bit:
      return copy + 2 + 2 * 4.0 / 256;  // blocks of 256 share a scale, of each moment
    default:
      return copy;
  }
}

state_bytes states_of(model const& of, training const& how) {
  auto const numbers = static_cast<double>(parameters_of(of));
  auto const each = static_cast<double>(element_bytes(of.numbers));
  bool const trained = how.optimizer != optimizer_kind::none;
  auto const ranks_from = [&](int stage) { return how.zero >= stage ? how.ranks : 1; };
  state_bytes made;
  made.weights = part_of(numbers * each, ranks_from(3));
  made.gradients = trained ? part_of(numbers * each, ranks_from(2)) : 0;
  made.optimizer = part_of(numbers * optimizer_bytes_each(how.optimizer, of.numbers), ranks_from(1));
  if (how.zero == 3 && how.ranks > 1) {
    made.gathered = static_cast<std::size_t>(2 * each * static_cast<double>(block_parameters_of(of)));
  }
  return made;
}

std::size_t logits_bytes(model const& of, bool whole) {
  double const rows = static_cast<double>(of.batch) * of.context;
  double const all = rows * of.vocabulary;
  auto const each = static_cast<double>(element_bytes(of.numbers));
  double const at_once = std::min(all, std::max<double>(of.vocabulary, rows * of.hidden));
  double const bytes = whole ? all * (each + 4) : at_once * each;  // whole with a copy in fp32 for the loss
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
