// Traffic: when bytes were under way lately, each way, on the device's clock; and how much of a stretch of time that
// was.
//
// Threads: the session's only.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "ferry/device.hpp"

namespace ferry::decide {

/// How long the link was at work in a stretch of time.
struct link_use {
  double out_us = 0;   ///< out only
  double back_us = 0;  ///< back only
  double both_us = 0;
  [[nodiscard]] double sum_us() const noexcept { return out_us + back_us + both_us; }
  [[nodiscard]] link_use times(double share) const noexcept {
    return {share * out_us, share * back_us, share * both_us};
  }
};

class traffic {
 public:
  /// Anything has ever moved.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// Bytes were under way between these times. Each direction's are noted in the order in which they end.
  void moved(copy_direction direction, std::chrono::nanoseconds since, std::chrono::nanoseconds until);
  [[nodiscard]] link_use between(std::chrono::nanoseconds from, std::chrono::nanoseconds until) const;
  /// Nobody will ask about times before that one.
  void forget_before(std::chrono::nanoseconds when);

 private:
  struct span {
    std::chrono::nanoseconds since;
    std::chrono::nanoseconds until;
  };
  using spans = std::vector<span>;  // in order and apart
  [[nodiscard]] static std::chrono::nanoseconds within(spans const& of, std::chrono::nanoseconds from,
                                                       std::chrono::nanoseconds until);

  std::array<spans, 2> moved_;  // by copy_direction
  bool any_ = false;
};

}  // namespace ferry::decide
