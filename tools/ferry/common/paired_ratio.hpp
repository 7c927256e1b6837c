// How much slower one of two is that took their steps in turns: what else the machine does falls on both alike, so each
// step is compared with the other's of the same turn.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ferry::command {

/// Requires: not empty.
[[nodiscard]] double median(std::vector<double> values);

struct paired_ratio {
  double middle = 1;            ///< median of one's time over the other's
  std::optional<double> error;  ///< of the median; nothing where there were too few turns to tell
  double mostly = 1;            ///< five turns in six are above it

  /// True if it is above `than` by more than chance, in five turns of six, and by more than anybody would mind.
  [[nodiscard]] bool clearly_above(double than) const noexcept;
  /// True if a verdict would be one on what else the machine does.
  [[nodiscard]] bool scatters() const noexcept;
};

/// A line of its own, where times scatter.
inline constexpr char const* busy_machine =
    "Times scatter widely, as if something else ran here: run it again when the machine is quiet\n";

/// Fewer turns say nothing about how far they scatter.
inline constexpr std::size_t turns_for_an_error = 4;

/// Steps of equal places belong together; where one has fewer, the others are left out. Requires: neither is empty.
[[nodiscard]] paired_ratio ratio_of(std::span<double const> seconds, std::span<double const> reference);

}  // namespace ferry::command
