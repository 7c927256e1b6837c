// Solves a step: as a chain of whole segments, and from there with the options inside them.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <memory>
#include <vector>

#include "ferry/plan.hpp"
#include "plan/chain_solver.hpp"
#include "plan/step_chain.hpp"

namespace ferry::planning {

struct solved_step {
  std::unique_ptr<step_chain> of;
  std::unique_ptr<chain_solver> solver;
  chain_solution found;
};

/// What one solution leaves to the next one of the same step and budget, for another link for instance.
struct head_start {
  std::shared_ptr<replay_table const> replays;
  std::vector<chain_plan> whole;   ///< plans of whole segments
  std::vector<chain_plan> inside;  ///< plans with the options inside them
};

/// `how.insured` is an order here: nothing else is tried. Infeasible if no plan fits. Leaves `from` to the next.
[[nodiscard]] solved_step solve_step(profile const& step, hardware const& on, plan_options const& how,
                                     head_start& from);

/// Looks for a better plan than those given, from an earlier solve for instance, for a link that will stand still.
/// `plans`: with the options inside segments, or without.
[[nodiscard]] solved_step solve_around(std::vector<link_stall> stalls, profile const& step, hardware const& on,
                                       plan_options const& how, std::shared_ptr<replay_table const> replays,
                                       std::vector<chain_plan> plans);

/// Requires: `solved` is feasible.
[[nodiscard]] plan write_plan(profile const& step, hardware const& on, plan_options const& how,
                              solved_step const& solved);

}  // namespace ferry::planning
