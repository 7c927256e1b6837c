// What befalls the link, from a certain step on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ferry/plan.hpp"
#include "ferry/sim_device.hpp"

namespace ferry::bench {

struct fault {
  char letter = 'a';
  std::string_view what;
  double speed = 1;  ///< of the link, as a share of what was planned
};

[[nodiscard]] std::span<fault const> all_faults();

/// The link as it is with the fault.
[[nodiscard]] hardware with_fault(hardware on, fault const& which);

/// Makes the device's link what `true_link` says.
void change_link(sim_device& of, hardware const& true_link);

}  // namespace ferry::bench
