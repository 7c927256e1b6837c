// What the models by formula have in common: the time of an operation, and the limits of their dimensions.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/plan.hpp"

namespace ferry::planning {

struct work {
  double flops = 0;
  double bytes = 0;  ///< read and written

  friend work operator+(work a, work b) noexcept { return {a.flops + b.flops, a.bytes + b.bytes}; }
};

class roofline {
 public:
  /// Throws: `invalid_argument` if the hardware's rates are not known.
  explicit roofline(hardware const& on) : flops_per_us_(on.tflops * 1e6), bytes_per_us_(on.memory_gbps * 1e3) {
    if (flops_per_us_ > 0 && bytes_per_us_ > 0) return;
    throw invalid_argument(fmt::format("the hardware '{}' has no rates: give its tflops and memory_gbps", on.name));
  }

  /// Whole nanoseconds, so that every compiler gives the same.
  [[nodiscard]] double us(work const& of) const noexcept {
    return std::round(std::max(of.flops / flops_per_us_, of.bytes / bytes_per_us_) * 1e3) / 1e3;
  }

 private:
  double flops_per_us_;
  double bytes_per_us_;
};

/// Sums of times are rounded again: a sum of decimal fractions is rarely one.
[[nodiscard]] inline double to_nanoseconds(double us) noexcept { return std::round(us * 1e3) / 1e3; }

inline void require_between(std::string_view member, int value, int least, int most) {
  if (value >= least && value <= most) return;
  throw invalid_argument(fmt::format("{} = {}: give a number from {} to {}", member, value, least, most));
}

/// Throws: `invalid_argument` if these dimensions lead beyond what a profile may hold.
[[nodiscard]] inline profile checked(profile step) {
  try {
    step.check();
  } catch (format_error const& problem) {
    throw invalid_argument(fmt::format("the dimensions are too large: {}", problem.what()));
  }
  return step;
}

}  // namespace ferry::planning
