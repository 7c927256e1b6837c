// A step of a small GPT as this machine takes it: really trained, every recipe timed.
#pragma once

#include <string>

#include "ferry/model_profile.hpp"
#include "train/train_options.hpp"

namespace ferry::command {

/// Flags of a training of that shape on that device; empty: as FERRY_DEVICE says.
[[nodiscard]] train_flags training_of(gpt_dimensions const& shape, std::string const& device);

struct measured_step {
  profile step;
  hardware on;  ///< its link as it is paced, or as a GPU's was measured
};

/// Trains for a few steps. Throws: `failed` if the step could not be measured.
[[nodiscard]] measured_step measure_step(train_plan const& plan);

/// What sessions that share a device get: that budget, all the pinned memory of a step, and no files of their own.
[[nodiscard]] config settings_for_one(train_plan const& plan, std::size_t budget_bytes, std::string_view policy);

}  // namespace ferry::command
