// What GPUs that share weights, gradients or optimizer (ZeRO) send each other in a step, how long that takes, and what
// of it compute does not hide. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "doctor/memory.hpp"
#include "doctor/model.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

enum class interconnect_kind : std::uint8_t { nvlink, pcie, ethernet };
[[nodiscard]] std::string_view to_string(interconnect_kind which) noexcept;
/// Nothing for another word.
[[nodiscard]] std::optional<interconnect_kind> interconnect_named(std::string_view word) noexcept;

/// Between the GPUs, all of them at work.
struct interconnect {
  interconnect_kind kind = interconnect_kind::pcie;
  double gbps = 0;  ///< that each GPU sends, and at once receives
  /// Its bytes take the lanes that offloading takes.
  [[nodiscard]] bool shares_the_link() const noexcept { return kind != interconnect_kind::nvlink; }
};

/// GPUs of one machine; more stand in several, with Ethernet between them.
inline constexpr int gpus_of_a_machine = 8;

/// Assumed: what such GPUs typically have between them.
[[nodiscard]] interconnect_kind usual_interconnect(hardware const& on, int ranks) noexcept;
[[nodiscard]] double usual_gbps(interconnect_kind kind, hardware const& on) noexcept;

/// Bytes that each GPU sends, and receives, in a step.
struct exchange {
  std::size_t forward_bytes = 0;   ///< weights, for forward
  std::size_t backward_bytes = 0;  ///< weights again, and sums of gradients
  std::size_t after_bytes = 0;     ///< weights, once they have changed
  std::size_t first_bytes = 0;     ///< of the first block of each pass, which nothing hides
  double backward_share = 1;       ///< of backward's time, that its bytes may travel in
  [[nodiscard]] std::size_t sum() const noexcept { return forward_bytes + backward_bytes + after_bytes; }
};
/// Of a step in so many micro-batches.
[[nodiscard]] exchange exchange_of(model const& of, training const& how, int accumulate);

/// What an exchange does to a step.
struct exchange_times {
  double all_us = 0;
  double exposed_us = 0;  ///< compute standing still for it
};
/// Beside a step's forward and backward of these lengths. `ferrying`: copies to the host are on their way too.
[[nodiscard]] exchange_times times_of(exchange const& of, interconnect const& over, double forward_us,
                                      double backward_us, bool ferrying) noexcept;

/// The link that such an exchange leaves to offloading, beside a step of these lengths.
[[nodiscard]] hardware beside_exchange(hardware on, exchange const& of, interconnect const& over, double forward_us,
                                       double backward_us) noexcept;

}  // namespace ferry::command
