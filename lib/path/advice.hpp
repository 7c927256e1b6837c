// Advice: which budget is enough for a step that found no room, found by rehearsing what it has asked so far.
#pragma once

#include <cstddef>
#include <optional>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "observe/step_tape.hpp"

namespace ferry::path {

/// A step that found no room, and where.
struct short_of_room {
  config const& settings;
  observe::step_tape const& tape;
  std::size_t device_bytes;
  std::size_t budget_bytes;
  std::size_t pinned_bytes;
  bool placed_by_others;  ///< by a function or a plan that was given, not by the settings' policy
};

/// The error with the smallest budget that is enough, as far as the step is known; nothing if none was found.
[[nodiscard]] std::optional<out_of_device_memory> with_advice(out_of_device_memory const& problem,
                                                              short_of_room const& found);

}  // namespace ferry::path
