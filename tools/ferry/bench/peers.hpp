// What other systems do with a step's activations, each as plans that a session can carry out: the same runtime, the
// same copies, the other's rule. So they run wherever Ferry does, and differ from Ferry by their decisions alone.
//
// A rule has a knob (how many layers, which groups). Plans are tried in the order of `plans_of`: from the one that
// moves or rebuilds the least; the first that fits a budget is what a careful user of that system would have set.
// Where a system leaves something open, its model gets the better of it; docs/benchmarks.md says what that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/plan.hpp"
#include "ferry/stats.hpp"

namespace ferry::command {

struct peer_plan {
  std::string knob;  ///< "first 12 of 32 layers"; empty if there is none
  plan what;
};

struct peer {
  std::string name;
  std::string words;      ///< one line
  bool rebuilds = false;  ///< recipes are part of its rule; otherwise a run that needed one did not fit
  /// For a budget, the least intrusive first.
  std::function<std::vector<peer_plan>(profile const& step, hardware const& on, std::size_t budget_bytes)> plans_of;
};

/// All of them. `time_limit_ms` is for the one that is an optimum.
[[nodiscard]] std::vector<peer> peers(double time_limit_ms);

/// The session does what the plan says and nothing else: it waits where the plan is late, and never plans again.
void keep_to_plan(config& settings);
/// Whether it got through without helping itself in a way that the other system does not know, which there is being out
/// of memory.
[[nodiscard]] bool keeps_to_rule(peer const& rule, session_stats const& stats);

/// Offloads every tensor of at least 1 KiB and fetches it when its layer's backward begins (torchtune, TRL).
[[nodiscard]] plan offload_everything(profile const& step);
/// Offloads the first `layers` segments whole; each comes back in the time of one backward, as many ahead as stay
/// (TransformerEngine).
[[nodiscard]] plan offload_first(profile const& step, std::uint32_t layers);
/// Offloads the items of these names; each segment's come back one segment ahead (Megatron, fine-grained).
[[nodiscard]] plan offload_groups(profile const& step, std::vector<std::string> const& names);
/// Offloads every segment's input of at least 2 MiB, one ahead on the way back, and rebuilds everything else (unsloth).
[[nodiscard]] plan offload_inputs(profile const& step);
/// Keeps until memory is short, then evicts what costs least per byte and time unused, and rebuilds on demand (DTR).
[[nodiscard]] plan evict_and_rebuild(profile const& step, std::size_t budget_bytes);

}  // namespace ferry::command
