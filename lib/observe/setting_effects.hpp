// Which settings made a difference: rule 4 of the design, "a setting that turned out to have no effect is reported".
// Threads: the session's only.
#pragma once

#include <vector>

#include "ferry/config.hpp"
#include "ferry/stats.hpp"

namespace ferry::observe {

/// What the statistics do not tell.
struct setting_effects {
  bool room_was_short = false;     ///< FERRY_BUDGET: device bytes were asked for that were not free
  bool weighed = false;            ///< FERRY_STALL_TOLERANCE_US: a transfer and a recipe were compared
  bool ran_further_ahead = false;  ///< FERRY_RUN_AHEAD: a lower bound would have held the host back
  bool planned = false;            ///< FERRY_INSURE: a plan was made here
  bool followed_a_plan = false;
  bool placed_by_function = false;  ///< the trainer decides, not FERRY_POLICY
  bool virtual_clock = false;
};

/// What holds, given or not.
[[nodiscard]] std::vector<used_setting> used_settings(config const& settings);

/// Of the settings that were given. A setting is without effect if nothing in the run would have been different with
/// its default, as far as what happened can tell.
[[nodiscard]] std::vector<idle_setting> settings_without_effect(session_stats const& stats, config const& settings,
                                                                setting_effects const& effects);

}  // namespace ferry::observe
