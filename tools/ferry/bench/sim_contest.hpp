// The contest on the sim device: hardware that is not there, the real session, virtual time.
#pragma once

#include "bench/contest.hpp"
#include "common/progress.hpp"
#include "common/step_flags.hpp"

namespace ferry::command {

struct sim_contest_options {
  std::size_t budgets = 12;
  double plan_ms = 200;  ///< for the search of each plan
  std::size_t host_budget_bytes = 0;
  config settings;  ///< of the sessions; budgets and policy are the contest's
};

/// Throws: `setting_error`; ends early, with what it has, if interrupted.
[[nodiscard]] contest run_sim_contest(given_step const& given, sim_contest_options const& how, progress& shown);

}  // namespace ferry::command
