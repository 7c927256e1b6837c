// All that is left to chance in an explored run, drawn from one number: the same number, the same run.
#pragma once

#include <cstdint>

namespace ferry::testing {

class chance {
 public:
  explicit chance(std::uint64_t seed) noexcept : state_(seed) {}

  /// SplitMix64.
  std::uint64_t draw() noexcept {
    std::uint64_t value = state_ += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
  }
  /// Below `n`, which is above zero.
  std::uint64_t below(std::uint64_t n) noexcept { return draw() % n; }
  bool per_mille(unsigned rate) noexcept { return rate > 0 && below(1000) < rate; }
  /// From 1 to `most`; the small ones more often, every power of two about as often as the next.
  std::uint64_t up_to(std::uint64_t most) noexcept {
    std::uint64_t limit = 1;
    while (limit < most && below(4) != 0) limit *= 2;
    return 1 + below(limit < most ? limit : most);
  }

 private:
  std::uint64_t state_;
};

}  // namespace ferry::testing
