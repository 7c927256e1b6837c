// What an out-of-memory message means, what to do about it, and what has to be known to say more. Values; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "doctor/model.hpp"
#include "doctor/oom_text.hpp"
#include "plan/gpus.hpp"

namespace ferry::command {

struct finding {
  std::string kind;   ///< "fragmentation", for programs
  std::string words;  ///< a sentence with its numbers
  std::string cure;   ///< what to do
};

struct diagnosis {
  oom_message message;
  std::vector<finding> findings;  ///< the likeliest first
  std::vector<std::string> asks;  ///< what is still needed for a prescription; none if nothing is
};

/// `of`: the model, if it was given; `gpu_given`: whether the hardware was; `known`: to guess it by its memory.
[[nodiscard]] diagnosis diagnose_oom(oom_message message, std::optional<model> const& of, bool gpu_given,
                                     planning::gpu_catalogue const& known);

[[nodiscard]] std::string text_of_diagnosis(diagnosis const& made);
[[nodiscard]] nlohmann::ordered_json json_of_diagnosis(diagnosis const& made);

}  // namespace ferry::command
