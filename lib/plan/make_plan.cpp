// make_plan: a step is solved freely and insured, and the solution that is worth its price becomes a plan of items.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "ferry/plan.hpp"
#include "plan/chain_simulator.hpp"
#include "plan/limits.hpp"
#include "plan/replay_table.hpp"
#include "plan/step_chain.hpp"
#include "plan/step_solver.hpp"

namespace ferry {

namespace planning {

namespace {

/// An insured plan may cost so much more than one that is not.
constexpr double price_of_insurance = 1.03;

/// The better of both kinds, for one link; nothing if neither fits.
std::optional<plan> plan_for_one_link(profile const& step, hardware const& on, plan_options const& how,
                                      head_start& from_free, head_start& from_insured) {
  plan_options free = how;
  free.insured = false;
  auto best = solve_step(step, on, free, from_free);
  if (!best.found.feasible) return std::nullopt;
  if (how.insured) {
    from_insured.replays = from_free.replays;
    auto insured = solve_step(step, on, how, from_insured);
    bool const affordable = insured.found.feasible && insured.found.seconds <= price_of_insurance * best.found.seconds;
    insured.found.lower_bound_s = best.found.lower_bound_s;
    if (affordable) best = std::move(insured);
  }
  return write_plan(step, on, how, best);
}

void require_plannable(profile const& step, plan_options const& how) {
  step.check();
  if (step.segments.empty())
    throw format_error(fmt::format("profile '{}' has no segments: nothing to plan", step.name));
  if (how.budget_bytes == 0) throw invalid_argument("a plan needs a budget: set plan_options::budget_bytes");
}

[[noreturn]] void refuse(profile const& step, hardware const& on, plan_options const& how) {
  std::size_t const needed = smallest_budget(step, on, how);
  plan_options least = how;
  least.budget_bytes = needed;
  auto const floor = floor_of(make_step_chain(step, on, least, false).problem);
  throw infeasible_budget(
      fmt::format("no plan for '{}' fits a budget of {}: at least {} are needed, because of segment {}'s {}; raise the "
                  "budget (FERRY_BUDGET, --budget) or use a smaller batch",
                  step.name, format_bytes(how.budget_bytes), format_bytes(needed), floor.stage,
                  floor.in_backward ? "backward: its items, its input and its gradients at once"
                                    : "forward: its items and scratch memory at once"),
      needed, how.budget_bytes);
}

}  // namespace

std::size_t smallest_budget(profile const& step, hardware const& on, plan_options const& how) {
  plan_options trial = how;
  trial.insured = false;
  auto const feasible = [&](double bytes) {
    trial.budget_bytes = static_cast<std::size_t>(std::ceil(bytes));
    chain_solver solver(make_step_chain(step, on, trial, true).problem);
    return solver.solve({.polish = false}).feasible;
  };
  trial.budget_bytes = 1;
  auto const chain = make_step_chain(step, on, trial, false).problem;
  double low = std::ceil(floor_of(chain).bytes / (1 - how.fragmentation_margin));
  if (feasible(low)) return static_cast<std::size_t>(low);
  double high = low;
  do {
    high *= 2;
  } while (!feasible(high) && high < 1e18);
  while (high - low > 1e-3 * high) {
    double const middle = 0.5 * (low + high);
    (feasible(middle) ? high : low) = middle;
  }
  return static_cast<std::size_t>(std::ceil(high));
}

std::size_t keep_all_peak(profile const& step, hardware const& on) {
  plan_options unlimited;
  unlimited.budget_bytes = limits::all_bytes;
  auto const problem = make_step_chain(step, on, unlimited, false).problem;
  replay_table const replays(problem);
  chain_simulator simulator(problem, replays);
  simulator.run(chain_plan(problem.stages()));
  double peak = 0;
  for (auto const& op : simulator.ops()) peak = std::max(peak, op.bytes);
  return static_cast<std::size_t>(std::ceil(peak));
}

}  // namespace planning

plan make_plan(profile const& step, hardware const& on, plan_options const& how) {
  double const as_it_is = 1;
  auto made = make_plans(step, on, how, {&as_it_is, 1});
  if (!made.front()) planning::refuse(step, on, how);
  return std::move(*made.front());
}

std::vector<std::optional<plan>> make_plans(profile const& step, hardware const& on, plan_options const& how,
                                            std::span<double const> link_factors) {
  planning::require_plannable(step, how);
  planning::head_start free;
  planning::head_start insured;
  std::vector<std::optional<plan>> made;
  for (double const factor : link_factors) {
    hardware other = on;
    other.device_to_host.gbps *= factor;
    other.host_to_device.gbps *= factor;
    made.push_back(planning::plan_for_one_link(step, other, how, free, insured));
  }
  return made;
}

}  // namespace ferry
