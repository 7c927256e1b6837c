// What an out-of-memory message means, what to do about it, and what has to be known to say more. Values; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "doctor/memory.hpp"
#include "doctor/model.hpp"
#include "doctor/oom_text.hpp"
#include "plan/gpus.hpp"

namespace ferry::command {

struct finding {
  std::string kind;   ///< "fragmentation", for programs
  std::string words;  ///< a sentence with its numbers
  std::string cure;   ///< what to do
};

/// What a message says of a run of the model that was asked about, beside what is estimated of it.
struct calibration {
  std::size_t estimated = 0;            ///< of tensors, at the peak that keeping everything has
  std::size_t measured = 0;             ///< in tensors, with what was asked for: the peak was that or more
  std::optional<std::size_t> beside{};  ///< device bytes in no tensor of this run; nothing if it is not told

  [[nodiscard]] bool too_low() const noexcept { return measured > estimated; }
  [[nodiscard]] double off() const noexcept {
    return static_cast<double>(measured) / static_cast<double>(estimated) - 1;
  }
  /// Of tensors that the estimate does not know.
  [[nodiscard]] std::size_t missing() const noexcept { return too_low() ? measured - estimated : 0; }
};

/// Nothing where the message does not say what its program had allocated.
[[nodiscard]] std::optional<calibration> calibrated(oom_message const& message, memory_report const& estimate);

struct diagnosis {
  oom_message message;
  std::optional<calibration> against{};  ///< the estimate, if there is one
  std::vector<finding> findings;         ///< the likeliest first
  std::vector<std::string> asks;         ///< what is still needed for a prescription; none if nothing is
};

/// `of`: the model, if it was given; `gpu_given`: whether the hardware was; `known`: to guess it by its memory.
[[nodiscard]] diagnosis diagnose_oom(oom_message message, std::optional<model> const& of, bool gpu_given,
                                     planning::gpu_catalogue const& known);

[[nodiscard]] std::string text_of_diagnosis(diagnosis const& made);
[[nodiscard]] nlohmann::ordered_json json_of_diagnosis(diagnosis const& made);

}  // namespace ferry::command
