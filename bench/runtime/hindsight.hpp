// The best possible step, had the fault been known: what the planner makes of the true link.
#pragma once

#include <memory>
#include <vector>

#include "ferry/config.hpp"
#include "plan/chain_plan.hpp"
#include "plan/replay_table.hpp"
#include "runtime/chains.hpp"
#include "runtime/faults.hpp"

namespace ferry::bench {

/// One per chain: what was found for one fault helps to plan for the next.
class hindsight {
 public:
  /// `plain`: settings with which the session does no more than carry out its plan.
  hindsight(judged_chain const& chain, config plain) : chain_(chain), plain_(std::move(plain)) {}

  /// Of a faulty step, counted from the first one.
  [[nodiscard]] double step_us(fault const& which, std::uint32_t faulty_step);

 private:
  [[nodiscard]] double carry_out(plan const& planned, fault const& which, std::uint32_t faulty_step) const;

  judged_chain const& chain_;
  config plain_;
  std::shared_ptr<planning::replay_table const> replays_;
  std::vector<planning::chain_plan> found_;  // for other faults and steps
};

}  // namespace ferry::bench
