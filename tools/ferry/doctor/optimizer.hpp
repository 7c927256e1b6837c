// Optimizers: what they hold for a trained number, and where. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "doctor/weights.hpp"

namespace ferry::command {

enum class optimizer_kind : std::uint8_t {
  adamw,
  adamw_cpu,
  adamw_paged,
  adamw8bit,
  adamw8bit_paged,
  adafactor,
  muon,
  sgd,
  none
};
[[nodiscard]] std::string_view to_string(optimizer_kind which) noexcept;
[[nodiscard]] std::optional<optimizer_kind> optimizer_named(std::string_view name) noexcept;
[[nodiscard]] std::vector<std::string_view> optimizer_names();

/// Moments and the like lie in host memory while activations are there.
[[nodiscard]] bool moments_on_host(optimizer_kind which) noexcept;
/// So do the fp32 copy of the weights and a copy of the gradients, because the step is taken there.
[[nodiscard]] bool steps_on_host(optimizer_kind which) noexcept;

/// Bytes of moments and the like for these weights, whose states are kept in elements of `element` bytes.
[[nodiscard]] double moment_bytes(optimizer_kind which, weight_group const& of, double element) noexcept;

}  // namespace ferry::command
