// Simulation: the real session and store, driven through a step by a profile, on a sim device.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "ferry/export.h"
#include "ferry/label.hpp"
#include "ferry/plan.hpp"
#include "ferry/sim_device.hpp"
#include "ferry/stats.hpp"

namespace ferry {

class session;

/// A moment of a step that is watched: what the trainer has enqueued so far is over on the device.
struct simulation_moment {
  enum class kind : std::uint8_t {
    begun,     ///< the step
    computed,  ///< an item, which has been saved; what it was computed from is still held
    saved,     ///< the same item, and what nothing in forward reads any more may leave
    forward,   ///< of a segment is over
    restored,  ///< an item is there for backward: it never left, or has been fetched or rebuilt
    backward,  ///< of a segment has been computed; what it read is still held
    released,  ///< and is no longer wanted
    changed,   ///< in between: a transfer has ended, or bytes of a tier are others than before
  };
  kind what = kind::begun;
  std::uint32_t segment = 0;  ///< of what comes next, for `changed`
  label item;                 ///< that was computed, saved or restored
  double at_us = 0;           ///< from the beginning of the step
  session const& on;          ///< to be asked where items are
  session_stats const& stats;
};

/// How a step is simulated.
struct simulation_options {
  config settings;                        ///< budgets and policy; budgets in shares are of the hardware's memory
  std::optional<plan> planned;            ///< followed from the first step on, instead of the policy
  std::uint32_t steps = 4;                ///< the last one is reported; `auto` and `selective` need a few to settle
  std::vector<sim_slow_down> slow_downs;  ///< in virtual time from the first step on
  /// A step that takes longer ends the simulation: `step_too_long`.
  double longest_step_us = std::numeric_limits<double>::infinity();
  /// Called before each step (from 0 on), when the one before is over: to change the link or to slow something down
  /// from `on.now()` on.
  std::function<void(std::uint32_t step, sim_device& on)> before_step;
  /// Told of the moments of the last step, in their order. The host then waits for the device at each of them instead
  /// of running ahead, and the statistics are added up each time: for steps of up to some thousand items.
  std::function<void(simulation_moment const&)> watch;
};

/// A step took longer than `simulation_options::longest_step_us`.
class FERRY_API step_too_long : public error {
 public:
  using error::error;
  ~step_too_long() override;
};

/// A plan and the first step that it was followed in.
struct followed_plan {
  std::uint32_t from_step = 0;
  plan what;
};

/// What a simulation came to.
struct simulation {
  double step_us = 0;                   ///< of the last step, to the end of its last kernel
  std::vector<double> steps_us;         ///< of each
  session_stats stats;                  ///< of all steps
  std::vector<sim_operation> timeline;  ///< of the last step, times from its beginning
  std::optional<plan> planned;          ///< what was followed in the last step, given or made by `auto`
  std::vector<followed_plan> plans;     ///< every plan that was followed, in the order of their steps
};

/// Throws: as the session does; `step_too_long`; `format_error` for a profile that contradicts itself.
[[nodiscard]] FERRY_API simulation simulate(profile const& step, hardware const& on, simulation_options const& how);

}  // namespace ferry
