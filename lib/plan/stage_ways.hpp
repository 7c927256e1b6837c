// The ways to save a stage that are worth looking at.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_plan.hpp"

namespace ferry::planning {

/// A way to save a stage, with its time; or, with `count` 0, bytes that nobody uses.
struct stage_way {
  std::int8_t saving = replayed;
  double count = 1;
  double kept = 0;
  double ferried = 0;
  double seconds = 0;
};

/// Whether two stages have the same choice.
[[nodiscard]] bool alike(chain const& c, std::size_t i, std::size_t k);

/// Those that no other way, and no mix of two others, replaces at no more bytes kept, bytes ferried and time.
/// `replayed` is among them as if each stage were replayed on its own.
[[nodiscard]] std::vector<stage_way> useful_ways(chain const& c, std::size_t stage);

}  // namespace ferry::planning
