// Which step on which hardware, under which budgets: what `ferry plan` and `ferry simulate` have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ferry/model_profile.hpp"
#include "ferry/plan.hpp"
#include "plan/gpus.hpp"

namespace CLI {
class App;
}

namespace ferry::command {

/// Hardware, as typed.
struct hardware_flags {
  std::string gpu, gpus_file, hardware_file;
};
void add_hardware_flags(CLI::App& command, hardware_flags& into);

/// The shipped GPUs, with those of --gpus. Throws: `format_error` that names the file.
[[nodiscard]] planning::gpu_catalogue load_gpus(hardware_flags const& flags);
/// Its rates are those of half precision, or of fp32. Throws: `setting_error` that names the flag, `format_error` that
/// names the file.
[[nodiscard]] hardware load_hardware(hardware_flags const& flags, bool half = true);

/// As typed.
struct step_flags : hardware_flags {
  std::string profile_file, gpt;
  std::optional<std::string> budget, host_budget;
};

/// Adds the flags to `command`, which fills `into` when it is parsed. `unless_given` says which budgets hold otherwise.
void add_step_flags(CLI::App& command, step_flags& into, std::string const& unless_given);

/// "32,4096,32,2048,4": layers, width, heads, context, batch. Throws: `setting_error`.
[[nodiscard]] gpt_dimensions read_gpt(std::string const& text);

struct given_step {
  profile step;
  hardware on;
  std::size_t keep_all_bytes = 0;  ///< of all items; budgets in shares are of it
};

/// Throws: `setting_error` that names the flag, `format_error` that names the file.
[[nodiscard]] given_step load_step(step_flags const& flags);

/// Moves of each search for a plan that is soon there: a move takes longer the longer the step is. As a number of
/// moves, so that every command finds the same plan, on every machine.
[[nodiscard]] std::uint64_t quick_effort(profile const& step) noexcept;

/// Nothing if it is not given. Throws: `setting_error`, also for more than the device has.
[[nodiscard]] std::optional<std::size_t> device_budget(step_flags const& flags, given_step const& given);
/// Shares are of the hardware's pinned memory.
[[nodiscard]] std::optional<std::size_t> host_budget(step_flags const& flags, given_step const& given);

}  // namespace ferry::command
