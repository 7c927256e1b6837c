// Vector clocks: what each stream and host thread is known to come after.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferry/label.hpp"

namespace ferry {

/// A stream or a host thread, as an index into every vector clock.
using participant_id = std::uint32_t;

/// One access of the past: who made it, when on their own clock, and in which operation.
struct past_access {
  participant_id by = 0;
  std::uint64_t tick = 0;  ///< 0: no access
  label operation;

  explicit operator bool() const noexcept { return tick != 0; }
  // An operation has one tick, so its name need not be compared.
  friend bool operator==(past_access const& a, past_access const& b) noexcept {
    return a.by == b.by && a.tick == b.tick;
  }
};

class vector_clock {
 public:
  [[nodiscard]] std::uint64_t at(participant_id who) const noexcept { return who < ticks_.size() ? ticks_[who] : 0; }

  /// Whether everything up to `past` is known to be over at this clock.
  [[nodiscard]] bool is_after(past_access const& past) const noexcept { return at(past.by) >= past.tick; }

  std::uint64_t tick(participant_id who) {
    if (who >= ticks_.size()) ticks_.resize(std::size_t{who} + 1);
    return ++ticks_[who];
  }

  void join(vector_clock const& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

 private:
  std::vector<std::uint64_t> ticks_;  // participants beyond the end are at 0
};

}  // namespace ferry
