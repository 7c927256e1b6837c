// What PyTorch users can set without Ferry, and what that is predicted to cost in the same memory: the rules of common
// systems, by formula. As in tools/ferry/bench/peers.hpp a model gets the better of what its system leaves open.
// Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/forecast.hpp"

namespace ferry::command {

struct torch_way {
  std::string name;
  std::string setting;           ///< where it is set, by system
  std::optional<forecast> cost;  ///< in the largest parts of the batch that fit; nothing if one sequence does not
};

/// The fastest first; what does not fit last.
[[nodiscard]] std::vector<torch_way> torch_ways(desk const& at);

}  // namespace ferry::command
