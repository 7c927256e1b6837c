// What a profile, a hardware description and a plan may hold at most. The limits are far beyond any real step; they
// keep sums exact (bytes in a double, nanoseconds in 64 bits) and a hostile file cheap to refuse.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferry/label.hpp"

namespace ferry::planning::limits {

inline constexpr std::size_t file_bytes = std::size_t{256} << 20;
inline constexpr std::size_t depth = 8;            // arrays and objects inside each other
inline constexpr std::size_t row_values = 10'000;  // of a file, held before they are converted

inline constexpr std::size_t segments = 100'000;
inline constexpr std::size_t items = 1'000'000;
inline constexpr std::size_t operations = 2'000'000;
inline constexpr std::size_t inputs = 1024;  // of a recipe
inline constexpr std::size_t all_inputs = 2'000'000;
inline constexpr std::size_t waits = 4'096;  // of an operation
inline constexpr std::size_t all_waits = 10'000'000;
inline constexpr std::size_t recomputed = 10'000;
inline constexpr std::size_t name_chars = label::max_length;
inline constexpr std::size_t text_chars = 1'000;

inline constexpr std::size_t bytes = std::size_t{1} << 50;
inline constexpr std::size_t all_bytes = std::size_t{1} << 53;
inline constexpr double us = 1e12;
inline constexpr double all_us = 1e15;
inline constexpr double flops = 1e24;
inline constexpr double gbps = 1e6;
inline constexpr double tflops = 1e6;

/// False for what is no number, too.
[[nodiscard]] constexpr bool within(double value, double most) noexcept { return value >= 0 && value <= most; }

}  // namespace ferry::planning::limits
