// Simulation: the real session and store, driven through a step by a profile, on a sim device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/plan.hpp"
#include "ferry/sim_device.hpp"
#include "ferry/stats.hpp"

namespace ferry {

struct simulation_options {
  config settings;                        ///< budgets and policy; budgets in shares are of the hardware's memory
  std::optional<plan> planned;            ///< followed from the first step on, instead of the policy
  std::uint32_t steps = 4;                ///< the last one is reported; `auto` and `selective` need a few to settle
  std::vector<sim_slow_down> slow_downs;  ///< in virtual time from the first step on
  /// Called before each step (from 0 on), when the one before is over: to change the link or to slow something down
  /// from `on.now()` on.
  std::function<void(std::uint32_t step, sim_device& on)> before_step;
};

/// A plan and the first step that it was followed in.
struct followed_plan {
  std::uint32_t from_step = 0;
  plan what;
};

struct simulation {
  double step_us = 0;                   ///< of the last step, to the end of its last kernel
  std::vector<double> steps_us;         ///< of each
  session_stats stats;                  ///< of all steps
  std::vector<sim_operation> timeline;  ///< of the last step, times from its beginning
  std::optional<plan> planned;          ///< what was followed in the last step, given or made by `auto`
  std::vector<followed_plan> plans;     ///< every plan that was followed, in the order of their steps
};

/// Throws: as the session does; `format_error` for a profile that contradicts itself.
[[nodiscard]] simulation simulate(profile const& step, hardware const& on, simulation_options const& how);

}  // namespace ferry
