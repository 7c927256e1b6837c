// The contest on this machine: a small GPT is really trained, all policies in turns.
#pragma once

#include "bench/contest.hpp"
#include "common/progress.hpp"
#include "ferry/model_profile.hpp"

namespace ferry::command {

struct host_contest_options {
  gpt_dimensions shape{.layers = 6, .width = 256, .heads = 4, .context = 128, .batch = 4, .vocabulary = 256};
  std::string device;  ///< "host", "cuda", ...
  std::size_t budgets = 4;
  std::size_t rounds = 5;  ///< timed steps of each policy
};

/// What was found, and what it was planned with.
struct host_contest_result {
  contest all;
  profile step;  ///< as measured
  hardware on;   ///< this machine: its link as it is paced, or as a GPU's was measured
};

/// Throws: `setting_error`, `invalid_argument`; ends early, with what it has, if interrupted.
[[nodiscard]] host_contest_result run_host_contest(host_contest_options const& how, progress& shown);

}  // namespace ferry::command
