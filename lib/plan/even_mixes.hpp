// Even mixes: plans for chains most of whose stages are alike, as a transformer's blocks are.
//
// Where each stage has the same choice, how many of them are saved which way is a small linear programme: the least
// time to rebuild, under the bytes that may stay and those that the link can hide. Its solution mixes at most three
// ways. They are dealt out evenly along the chain, so that the link has as much to do everywhere and little lies in its
// queue.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_plan.hpp"
#include "plan/chain_simulator.hpp"

namespace ferry::planning {

/// The best of them by the simulator, which is for `c`, the best first and at most `count`; none if stages differ.
[[nodiscard]] std::vector<chain_plan> even_mixes(chain const& c, chain_simulator& simulator, std::size_t count);

}  // namespace ferry::planning
