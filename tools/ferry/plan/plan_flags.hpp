// What `ferry plan` was asked to do, and its three ways to do it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "commands.hpp"
#include "common/step_flags.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

/// As typed.
struct plan_flags {
  step_flags step;
  bool not_insured = false;
  double derating = plan_options{}.link_derating;
  double margin = plan_options{}.fragmentation_margin;
  std::optional<double> time_limit_ms;
  std::uint64_t effort = 0;  ///< moves of each search; 0: not given
  std::uint64_t seed = 1;
  std::string plan_file, json_file;
  std::optional<std::string> why;  ///< empty: of every item
  unsigned sweep = 0;              ///< budgets; 0: no sweep
  std::string case_file;
  bool schedule = false;
  bool first = false;

  /// Standard output is for a file's content, not for words.
  [[nodiscard]] bool silent() const noexcept { return plan_file == "-" || json_file == "-"; }
};

/// For this step; the budgets are left to the caller.
[[nodiscard]] plan_options options_of(plan_flags const& flags, profile const& step);

/// A chain of the planner cases, planned exactly as the file states it.
[[nodiscard]] exit_code plan_case(plan_flags const& flags);
/// Plans from the smallest budget to the one that keeps all.
[[nodiscard]] exit_code sweep_budgets(plan_flags const& flags);

}  // namespace ferry::command
