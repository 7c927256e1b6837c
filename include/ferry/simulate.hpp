// Simulation: the real session and store, driven through a step by a profile, on a sim device.
#pragma once

#include <cstdint>
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
};

struct simulation {
  double step_us = 0;                   ///< of the last step, to the end of its last kernel
  std::vector<double> steps_us;         ///< of each
  session_stats stats;                  ///< of all steps
  std::vector<sim_operation> timeline;  ///< of the last step, times from its beginning
  std::optional<plan> planned;          ///< what was followed in the last step, given or made by `auto`
};

/// Throws: as the session does; `format_error` for a profile that contradicts itself.
[[nodiscard]] simulation simulate(profile const& step, hardware const& on, simulation_options const& how);

}  // namespace ferry
