// The label pass: a fast programme over the chain that treats the link as a fluid, to find good plans to start from.
//
// A label stands for the stages before i: extra time so far, bytes kept on the device, bytes queued to go out at that
// point of forward, bytes queued to come back (backward seen from its end, where a fetch is a mirror image of an
// offload), and host bytes. One label survives per cell of a grid over these. docs/planner.md has the transitions.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_plan.hpp"
#include "plan/replay_table.hpp"

namespace ferry::planning {

struct label_grid {
  int kept_cells = 32;
  int queue_cells = 6;
  std::uint32_t longest_run = 16;
};

/// The best plans by the fluid estimate, best first; at most `count`. They may still fail the exact simulator.
[[nodiscard]] std::vector<chain_plan> label_pass(chain const& c, replay_table const& replays, label_grid const& grid,
                                                 std::size_t count);

}  // namespace ferry::planning
