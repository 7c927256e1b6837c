// Local search: improves a chain plan by small moves, each scored by the exact simulator.
#pragma once

#include <chrono>
#include <cstdint>

#include "plan/chain_plan.hpp"
#include "plan/chain_simulator.hpp"

namespace ferry::planning {

struct search_limits {
  std::uint64_t moves = 10000;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  double good_enough_s = 0;  ///< stop at this makespan
  std::uint64_t seed = 1;
};

struct search_result {
  chain_plan plan;
  double seconds = 0;
  double sent_bytes = 0;
};

/// Anneals from `start`, which must fit. The same seed and number of moves give the same result.
[[nodiscard]] search_result improve(chain const& c, chain_simulator& simulator, search_result start,
                                    search_limits const& limits);

/// The same time with less to ferry: whatever can as well stay does.
void keep_what_can_stay(chain const& c, chain_simulator& simulator, chain_plan& plan, double seconds);

}  // namespace ferry::planning
