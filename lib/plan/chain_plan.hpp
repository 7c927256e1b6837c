// A plan of a chain, as the search changes it: for every stage how it is saved, and what becomes of its input.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/chain.hpp"

namespace ferry::planning {

enum class input_mark : std::uint8_t {
  none,  ///< not kept: the run of replayed stages goes on
  kept,  ///< stays on the device
  ferried
};

/// How a stage is saved.
inline constexpr std::int8_t replayed = -1;  ///< not at all
inline constexpr std::int8_t kept_whole = 0;
inline constexpr std::int8_t ferried_whole = 1;
inline constexpr std::int8_t first_option = 2;  ///< and on: `chain::options`

struct stage_plan {
  std::int8_t saving = kept_whole;
  input_mark input = input_mark::kept;  ///< in force where the stage before is replayed, and for the first stage
  std::uint8_t reserve = 0;             ///< a replay that starts here leaves room for so many of the next fetches

  friend bool operator==(stage_plan, stage_plan) noexcept = default;
};

using chain_plan = std::vector<stage_plan>;

/// The bytes of each way to save a stage.
[[nodiscard]] inline saving_option saving_of(chain const& c, std::size_t stage, std::int8_t saving) {
  if (saving == kept_whole) return {.kept_bytes = c.saved_bytes[stage]};
  if (saving == ferried_whole) return {.ferried_bytes = c.saved_bytes[stage], .output_stays = false};
  return c.options[stage][static_cast<std::size_t>(saving - first_option)];
}

/// How many ways there are.
[[nodiscard]] inline std::int8_t savings(chain const& c, std::size_t stage) {
  auto const more = c.options.empty() ? 0 : c.options[stage].size();
  return static_cast<std::int8_t>(first_option + static_cast<std::int8_t>(more));
}

/// Makes marks consistent: the first stage's input must be somewhere, and that of a stage saved in part, which is
/// rebuilt from it.
inline void settle(chain const& c, chain_plan& plan) {
  if (plan.front().input == input_mark::none) plan.front().input = input_mark::kept;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    auto& stage = plan[i];
    if (stage.saving >= savings(c, i)) stage.saving = kept_whole;
    if (stage.saving == replayed && !c.may_replay(i)) stage.saving = kept_whole;
    if (c.insured && stage.saving == ferried_whole)
      stage.saving = savings(c, i) > first_option ? first_option : kept_whole;
    if (c.insured && stage.input == input_mark::ferried) stage.input = input_mark::kept;
    if (stage.saving >= first_option && stage.input == input_mark::none) stage.input = input_mark::kept;
  }
}

}  // namespace ferry::planning
