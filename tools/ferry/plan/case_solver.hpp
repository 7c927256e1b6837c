// A chain as a planner case states it: what the chain solver finds, with its schedule, and for short chains the
// optimum. Steps have options inside segments, which the exhaustive search does not know; so only those who judge the
// planner need this. Threads: one caller at a time for a solver.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/chain_solver.hpp"
#include "plan/schedule.hpp"

namespace ferry::planning {

/// Its plan is empty if only the exhaustive search found the schedule.
struct case_solution : chain_solution {
  std::vector<scheduled> schedule;  ///< what `seconds` is the length of
};

/// What `solver` finds, and then a schedule of any form that is faster, if the chain has at most eight stages.
[[nodiscard]] case_solution solve_case(chain_solver& solver, solve_options const& options = {});

}  // namespace ferry::planning
