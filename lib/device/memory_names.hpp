// How the kinds of memory are called, and what to change when one runs out: the same words for every device that
// takes its sizes from the settings.
#pragma once

#include "ferry/device.hpp"

namespace ferry {

struct space_names {
  char const* words;
  char const* variable;
};
inline constexpr space_names device_names{"device memory", "FERRY_DEVICE_BYTES"};
inline constexpr space_names pinned_names{"pinned memory", "FERRY_PINNED_BYTES"};

[[nodiscard]] constexpr space_names names_of(memory_space space) noexcept {
  return space == memory_space::device ? device_names : pinned_names;
}

}  // namespace ferry
