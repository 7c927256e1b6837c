// From a simulated chain plan to a plan of items: operations in the order in which the host issues them, with positions
// and waits; a placement and a reason for every item; and the forecast.
#pragma once

#include "ferry/plan.hpp"
#include "plan/chain_simulator.hpp"
#include "plan/chain_solver.hpp"
#include "plan/step_chain.hpp"

namespace ferry::planning {

/// `simulated` has just run `found.plan`.
[[nodiscard]] plan write_plan(profile const& step, step_chain const& of, chain_solution const& found,
                              chain_simulator const& simulated);

}  // namespace ferry::planning
