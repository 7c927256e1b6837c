// A bound that no schedule can beat.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include "plan/chain.hpp"

namespace ferry::planning {

/// At the moment a stage's backward begins, every earlier S is on the device, or on the host (so it has gone out before
/// and comes back after), or will be made again. Letting each stage split between the three at will gives a linear
/// programme; any prices for memory and link give a bound by duality, and a few rounds of search find good ones.
/// O(stages).
[[nodiscard]] double lower_bound_s(chain const& c);

/// The least device bytes with which any schedule exists, given a link; and the stage that sets it.
struct byte_floor {
  double bytes = 0;
  std::uint32_t stage = 0;
  bool in_backward = false;
};
[[nodiscard]] byte_floor floor_of(chain const& c);

}  // namespace ferry::planning
