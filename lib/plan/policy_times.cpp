#include "plan/policy_times.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/chain_simulator.hpp"
#include "plan/replay_table.hpp"
#include "plan/step_chain.hpp"

namespace ferry::planning {

namespace {

/// A session ferries in chunks and frees by items, which the chain does not know, so that more fits and earlier: all
/// that is certain is that what the budget does not hold goes out in forward and comes back in backward. It never goes
/// quite so well.
double least_offload_s(chain const& c) {
  constexpr double never_less = 1.02;
  double bytes = 0;
  double forward_s = 0;
  double backward_s = 0;
  for (std::size_t i = 0; i < c.stages(); ++i) {
    bytes += c.saved_bytes[i];
    forward_s += c.forward_s[i];
    backward_s += c.backward_s[i];
  }
  double const moved = std::max(0.0, bytes + c.boundary_bytes[0] - c.device_bytes);
  return never_less *
         (std::max(forward_s, moved / c.d2h_bytes_per_s) + std::max(backward_s, moved / c.h2d_bytes_per_s));
}

}  // namespace

std::vector<policy_time> policy_times(profile const& step, hardware const& on, plan_options const& how) {
  auto as_said = how;
  as_said.insured = false;
  auto const problem = make_step_chain(step, on, as_said, false).problem;
  auto const stages = static_cast<std::uint32_t>(problem.stages());
  replay_table const replays(problem);
  chain_simulator simulator(problem, replays);
  std::vector<policy_time> fitting;
  auto const add = [&](policy_choice by_hand, chain_plan does) {
    settle(problem, does);
    double const seconds = simulator.run(does);
    if (std::isfinite(seconds)) fitting.push_back({std::move(by_hand), 1e6 * seconds});
  };
  auto const inputs_of_every = [&](std::uint32_t n) {
    chain_plan does(stages, {replayed, input_mark::none, 0});
    for (std::uint32_t i = 0; i < stages; i += n) does[i].input = input_mark::kept;
    return does;
  };
  add({policy_kind::recompute}, inputs_of_every(1));
  for (std::uint32_t n = 2; n < stages && n <= 16; n *= 2) add({policy_kind::every, n}, inputs_of_every(n));
  add({policy_kind::sqrt}, inputs_of_every(static_cast<std::uint32_t>(std::ceil(std::sqrt(stages)))));
  if (problem.has_link()) fitting.push_back({{policy_kind::offload}, 1e6 * least_offload_s(problem)});
  std::ranges::stable_sort(fitting, {}, &policy_time::step_us);
  return fitting;
}

}  // namespace ferry::planning
