// How long random programs of one property may take. Everyday runs have a few seconds for each, so that nobody waits
// for what gets rarer with every program; `scripts/test --long` gives them minutes. What they were drawn from is
// printed.
#pragma once

#include <chrono>
#include <cstdlib>

namespace ferry::testing {

class time_box {
 public:
  /// `everyday_seconds` unless PROPERTY_SECONDS gives every property so many.
  explicit time_box(double everyday_seconds) {
    double seconds = everyday_seconds;
    if (char const* const given = std::getenv("PROPERTY_SECONDS")) seconds = std::strtod(given, nullptr);
    end_ = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  }
  [[nodiscard]] bool is_over() const noexcept { return clock::now() >= end_; }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point end_;
};

}  // namespace ferry::testing
