// Solves a step: as a chain of whole segments, and from there with the options inside them.
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

/// What may be known beforehand.
struct step_hints {
  std::shared_ptr<replay_table const> replays{};  ///< of the same step and budget
  std::vector<chain_plan> starts{};               ///< plans to begin with
  std::vector<link_stall> stalls{};               ///< when the link will stand still
};

/// `how.insured` is an order here: nothing else is tried. Infeasible if no plan fits.
[[nodiscard]] solved_step solve_step(profile const& step, hardware const& on, plan_options const& how,
                                     step_hints hints = {});

/// Requires: `solved` is feasible.
[[nodiscard]] plan write_plan(profile const& step, hardware const& on, plan_options const& how,
                              solved_step const& solved);

}  // namespace ferry::planning
