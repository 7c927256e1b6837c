// What `ferry train` was asked to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/nn/shape.hpp"
#include "ferry/nn/token_data.hpp"
#include "ferry/nn/trainer.hpp"

namespace CLI {
class App;
}

namespace ferry::command {

/// As typed.
struct train_flags {
  std::string data_file;
  std::string tokens;  ///< "uint16", "uint32" or nothing for text
  std::optional<std::string> preset;
  std::optional<int> layers, width, heads, context, vocabulary, batch;
  bool untied = false;
  std::string attention;
  std::optional<std::string> device, policy, budget;
  std::string init_file, save_file, gradients_file, profile_file, json_file, svg_file;
  bool resume = false;
  bool overwrite = false;
  bool compare = false;
  bool slow_link = false;
  bool explain = false;
  std::uint64_t save_every = 0;
  std::uint64_t validate_every = 50;
  std::uint64_t validation_batches = 4;
  int sample = 200;
  double temperature = 0.8;
  std::optional<std::string> prompt;
  nn::training_options training;
};

/// Adds the flags to `command`, which fills `into` when it is parsed.
void add_train_flags(CLI::App& command, train_flags& into);

/// What follows from the flags, the files they name and the environment.
struct train_plan {
  train_flags flags;
  nn::gpt_shape shape;
  int batch = 0;
  nn::token_data data;
  config settings;               ///< of the device and the session; budgets in bytes, and no `auto` device
  bool device_is_sized = false;  ///< FERRY_DEVICE_BYTES says how large it is
  std::size_t asked_bytes = 0;   ///< of which no more than `keep_all_bytes` are taken
  std::size_t budget_bytes = 0;
  std::vector<std::size_t> budgets{};  ///< all that --compare was given; `budget_bytes` is the first
  std::size_t keep_all_bytes = 0;      ///< what a step holds at its fullest if nothing leaves, about
  bool resumes = false;                ///< what --resume goes on from is there

  [[nodiscard]] std::size_t state_bytes() const { return nn::trainer::bytes_beside_budget(shape, batch); }
  [[nodiscard]] double tokens_per_step() const {
    return static_cast<double>(batch) * shape.context * flags.training.accumulate;
  }
  [[nodiscard]] bool on_gpu() const { return settings.device.starts_with("cuda"); }
  /// Of a device that has room for the state and that budget.
  [[nodiscard]] std::size_t device_bytes_for(std::size_t budget) const;
  /// Of a device that a trainer copies through, and to which all of a step may be offloaded.
  [[nodiscard]] std::size_t pinned_bytes() const;
  /// Where training goes on from: with --resume, once it is there.
  [[nodiscard]] std::string state_file() const { return flags.save_file + ".state"; }
};

/// Throws: `setting_error`, `invalid_argument`, `nn::file_error`: one line that names the flag or file and the fix.
[[nodiscard]] train_plan make_train_plan(train_flags flags);

/// Throws: `setting_error` if less can be had of this machine: asked first, because one that hands out memory it does
/// not have ends the program without a word.
void require_machine_memory(std::size_t bytes);

[[nodiscard]] bool is_set(char const* variable);
/// As --policy takes it.
[[nodiscard]] std::string policy_name(config const& settings);

/// Device bytes of a step that keeps everything: about, and never too few. Micro-batches go through one after the
/// other, so that their number does not matter.
[[nodiscard]] std::size_t bytes_to_keep_all(nn::gpt_shape const& shape, int batch);

}  // namespace ferry::command
