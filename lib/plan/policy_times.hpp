// What the policies by hand would take, by the planner's own model: what a plan has to beat.
#pragma once

#include <vector>

#include "ferry/config.hpp"
#include "ferry/plan.hpp"

namespace ferry::planning {

struct policy_time {
  policy_choice how;
  double step_us = 0;
};

/// Of those that fit the budget: recompute, every=N and sqrt; and the least that offload may take. The quickest first.
[[nodiscard]] std::vector<policy_time> policy_times(profile const& step, hardware const& on, plan_options const& how);

}  // namespace ferry::planning
