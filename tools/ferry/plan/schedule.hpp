// A chain's schedule as timed rows: what `ferry plan --case --schedule` writes and a referee judges. The planner itself
// needs none; it has plans and what the simulator makes of them. Threads: values.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_simulator.hpp"

namespace ferry::planning {

/// One row. Compute operations name a stage, the others a tensor.
struct scheduled {
  double start_s = 0;
  double end_s = 0;
  chain_op op{};
  std::uint32_t stage = 0;
  chain_tensor tensor{};
};

/// The simulator's last run, which fitted. `of` is its chain.
[[nodiscard]] inline std::vector<scheduled> schedule_of(chain const& of, chain_simulator const& done) {
  std::vector<scheduled> rows;
  auto const drop = [&rows](double at, chain_op op, chain_tensor what) { rows.push_back({at, at, op, 0, what}); };
  for (auto const& op : done.ops()) {
    rows.push_back({op.start_s, op.end_s, op.op, op.stage, {}});
    if (op.drops_input) drop(op.end_s, chain_op::drop_device, {chain_tensor::kind::boundary, op.stage});
    bool const last_output = op.op == chain_op::forward_only && op.stage + 1 == of.stages();
    if (last_output) drop(op.end_s, chain_op::drop_device, {chain_tensor::kind::boundary, op.stage + 1});
  }
  for (auto const& out : done.outs()) {
    rows.push_back({out.start_s, out.end_s, chain_op::d2h, 0, out.tensor});
    drop(out.free_s, chain_op::drop_device, out.tensor);
  }
  for (auto const& in : done.ins()) {
    auto const tensor = done.outs()[in.out].tensor;
    rows.push_back({in.start_s, in.end_s, chain_op::h2d, 0, tensor});
    drop(in.end_s, chain_op::drop_host, tensor);
  }
  return rows;
}

}  // namespace ferry::planning
