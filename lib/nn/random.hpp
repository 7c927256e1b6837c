// Random numbers by counting: any of a seed's sequence without those before, the same on every machine.
#pragma once

#include <cstdint>

namespace ferry::nn {

/// The `index`-th 64 bits of `seed`.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) noexcept {
  std::uint64_t z = seed * 0xD1342543DE82EF95ULL + (index + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// From 0 up to, not including, 1.
[[nodiscard]] constexpr double random_unit(std::uint64_t seed, std::uint64_t index) noexcept {
  return static_cast<double>(random_bits(seed, index) >> 11) * 0x1p-53;
}

}  // namespace ferry::nn
