// A step as a chain: what stands between profiles, whose items have names, and the chain planner.
//
// Stage i is segment i. X[i] is the segment's input, S[i] its other items and the next segment's input. Inside a stage
// the items' placements give options: each set of rebuilt items on the front of bytes against time, with the rest kept,
// ferried, or half and half. The cost of rebuilding adds up item by item, because backward needs every item anyway.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ferry/plan.hpp"
#include "plan/chain.hpp"
#include "plan/chain_plan.hpp"

namespace ferry::planning {

/// One segment's items as a stage sees them.
struct stage_items {
  std::optional<std::uint32_t> input;  ///< index of the segment's input among its items
  std::vector<std::uint32_t> inner;    ///< the others, in the order of saving
  /// Of each inner item: the last of them (or `inner.size()`, the next segment's input) whose recipe reads it.
  std::vector<std::uint32_t> last_reader;
};

struct step_chain {
  chain problem;
  std::vector<stage_items> stages;

  /// Where the inner items of a stage go with a way to save it, in the order of `inner`.
  [[nodiscard]] std::vector<placement> placements(std::uint32_t stage, std::int8_t saving) const;
};

/// Budgets, insurance and derating are taken from the options. With `options_inside` false a stage is kept or ferried
/// whole.
[[nodiscard]] step_chain make_step_chain(profile const& step, hardware const& on, plan_options const& how,
                                         bool options_inside);

/// The smallest budget, to a thousandth, for which a plan is found.
[[nodiscard]] std::size_t smallest_budget(profile const& step, hardware const& on, plan_options const& how);

/// The bytes on the device when everything is kept, at the fullest moment of the step.
[[nodiscard]] std::size_t keep_all_peak(profile const& step, hardware const& on);

}  // namespace ferry::planning
