// What befalls the link, from a certain step on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ferry/sim_device.hpp"
#include "plan/chain.hpp"
#include "runtime/chains.hpp"

namespace ferry::bench {

struct fault {
  char letter = 'a';
  std::string_view what;
  double speed = 1;     ///< of the link, as a share of what was planned
  bool stalls = false;  ///< now and then it stands still, in every step at other times
};

[[nodiscard]] std::span<fault const> all_faults();

/// The link as it is with the fault.
[[nodiscard]] hardware with_fault(hardware on, fault const& which);

/// When the link stands still in a faulty step, counted from the first one: once or twice, for 1 to 20 segments' time,
/// always within the time that the step takes at least. So no stall reaches into the next step. Always the same for the
/// same chain and step.
[[nodiscard]] std::vector<planning::link_stall> stalls_of(judged_chain const& chain, fault const& which,
                                                          std::uint32_t faulty_step);

/// To be called before a faulty step.
void inject(sim_device& into, judged_chain const& chain, fault const& which, std::uint32_t faulty_step);

}  // namespace ferry::bench
