// A tape in words and letters: step by step, and several side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tape/tape_record.hpp"

namespace ferry::command {

/// Up to so many items each has its column; of more, a line has the numbers.
inline constexpr std::size_t most_item_columns = 16;
/// Of more steps, the first and last of forward and backward are shown.
inline constexpr std::size_t most_step_rows = 64;

/// The same net at another depth.
struct tape_growth {
  std::uint32_t layers = 0;
  std::string policy;
  std::size_t peak_bytes = 0;
  double extra_forward = 0;  ///< recipes' time as a share of forward's
};

[[nodiscard]] double extra_forward(tape const& of) noexcept;

[[nodiscard]] std::string tape_text(tape const& shown);
/// Requires: tapes of one net.
[[nodiscard]] std::string comparison_text(std::span<tape const> tapes, std::span<tape_growth const> growth);

}  // namespace ferry::command
