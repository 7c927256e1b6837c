// The prescription: whether a model's step fits a GPU, what to do about it, and what that is predicted to cost. Where
// common advice is wrong for this model on this GPU, it says so. Values; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doctor/forecast.hpp"
#include "doctor/memory.hpp"
#include "doctor/torch_ways.hpp"

namespace ferry::command {

/// What is asked.
struct question {
  model of;
  training how;
  hardware on;
  std::size_t reserve = 0;                     ///< device bytes that are nobody's: context, workspaces, gaps
  bool reserve_measured = false;               ///< and not assumed, or given
  std::size_t missing = 0;                     ///< of `reserve`: tensors that a run had and the estimate has not
  std::size_t host_memory = 0;                 ///< of the machine, for this GPU
  bool bf16 = true;                            ///< the GPU has it
  std::optional<interconnect_kind> between{};  ///< the GPUs; what such GPUs usually have if it is not said
  std::optional<double> between_gbps{};
};

/// Between the GPUs that share as `how` says.
[[nodiscard]] interconnect interconnect_of(question const& asked, training const& how) noexcept;

/// Another way to hold weights, gradients and optimizer.
struct remedy {
  std::string flags;  ///< "--zero 3 --ranks 8"
  std::size_t states = 0;
  bool enough = false;  ///< with it some plan fits
};

struct prescription {
  question asked;
  memory_report memory;  ///< as asked

  /// Where weights, gradients and optimizer alone do not fit: what would help, and with which of them the rest is.
  std::vector<remedy> remedies;
  std::optional<training> instead;
  memory_report memory_instead;

  std::size_t budget = 0;              ///< device bytes for activations
  std::size_t least_bytes = 0;         ///< that some schedule of the whole batch exists with
  std::size_t least_bytes_of_one = 0;  ///< and of one sequence
  std::optional<forecast> advised;
  std::vector<forecast> alternatives;  ///< the best first: of each policy, whole and in parts
  interconnect between{};              ///< what the GPUs exchange over
  std::vector<std::string> unfit;      ///< policies that do not fit
  std::vector<torch_way> in_torch;     ///< for those who cannot link Ferry
  largest batch;
  largest context;

  /// Whether everything stays, and nothing needs to be done.
  [[nodiscard]] bool keeps_all() const noexcept {
    return advised && advised->policy == "keep" && advised->accumulate == 1;
  }

  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> assumptions;
};

[[nodiscard]] prescription prescribe(question const& asked);

/// The best first: by time, and where that is within half a percent by what it needs of link, host memory and trainer.
[[nodiscard]] std::vector<forecast> ranked(std::vector<forecast> all);

/// What of the host's memory may be pinned.
[[nodiscard]] std::size_t pinnable(std::size_t host_memory) noexcept;

}  // namespace ferry::command
