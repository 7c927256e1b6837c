// make_plan: a step is solved freely and insured, and the solution that is worth its price becomes a plan of items.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "ferry/plan.hpp"
#include "plan/step_chain.hpp"
#include "plan/step_solver.hpp"

namespace ferry {

namespace planning {

namespace {

/// An insured plan may cost so much more than one that is not.
constexpr double price_of_insurance = 1.03;

struct solved_step {
  std::unique_ptr<step_chain> of;
  std::unique_ptr<chain_solver> solver;
  chain_solution found;
};

solved_step solve(profile const& step, hardware const& on, plan_options const& how, bool options_inside,
                  double time_limit_ms, std::vector<chain_plan> starts, std::shared_ptr<replay_table const> replays) {
  solved_step solved;
  solved.of = std::make_unique<step_chain>(make_step_chain(step, on, how, options_inside));
  solved.solver = std::make_unique<chain_solver>(solved.of->problem, std::move(replays));
  solve_options options;
  options.time_limit_ms = time_limit_ms;
  options.seed = how.seed;
  options.starts = std::move(starts);
  solved.found = solved.solver->solve(options);
  return solved;
}

/// What one solution leaves to the next, for another link.
struct head_start {
  std::shared_ptr<replay_table const> replays;
  std::vector<chain_plan> whole;
  std::vector<chain_plan> inside;
};

/// With whole segments first, whose best plan is one of the starts with options: so options never make it worse.
solved_step solve_both(profile const& step, hardware const& on, plan_options const& how, head_start& from) {
  auto whole = solve(step, on, how, false, 0.25 * how.time_limit_ms, from.whole, from.replays);
  from.replays = whole.solver->share_replays();
  auto starts = from.inside;
  if (whole.found.feasible) {
    starts.push_back(whole.found.plan);
    from.whole = {whole.found.plan};
  }
  auto inside = solve(step, on, how, true, 0.75 * how.time_limit_ms, std::move(starts), from.replays);
  if (inside.found.feasible) from.inside = {inside.found.plan};
  bool const better = inside.found.feasible && (!whole.found.feasible || inside.found.seconds <= whole.found.seconds);
  return better ? std::move(inside) : std::move(whole);
}

/// Of the plans for one link.
struct head_starts {
  head_start free;
  head_start insured;
};

std::optional<plan> plan_once(profile const& step, hardware const& on, plan_options const& how, head_starts& from) {
  plan_options free = how;
  free.insured = false;
  auto best = solve_both(step, on, free, from.free);
  if (!best.found.feasible) return std::nullopt;
  if (how.insured) {
    from.insured.replays = from.free.replays;
    auto insured = solve_both(step, on, how, from.insured);
    bool const affordable = insured.found.feasible && insured.found.seconds <= price_of_insurance * best.found.seconds;
    insured.found.lower_bound_s = best.found.lower_bound_s;
    if (affordable) best = std::move(insured);
  }
  chain_simulator simulator(best.solver->problem(), best.solver->replays());
  simulator.run(best.found.plan);
  plan made = write_plan(step, *best.of, best.found, simulator);
  made.hardware_name = on.name;
  made.budget_bytes = how.budget_bytes;
  return made;
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

}  // namespace planning

plan make_plan(profile const& step, hardware const& on, plan_options const& how) {
  planning::require_plannable(step, how);
  planning::head_starts none;
  auto made = planning::plan_once(step, on, how, none);
  if (!made) planning::refuse(step, on, how);
  return std::move(*made);
}

std::vector<std::optional<plan>> make_plans(profile const& step, hardware const& on, plan_options const& how,
                                            std::span<double const> link_factors) {
  planning::require_plannable(step, how);
  planning::head_starts from;
  std::vector<std::optional<plan>> made;
  for (double const factor : link_factors) {
    hardware other = on;
    other.device_to_host.gbps *= factor;
    other.host_to_device.gbps *= factor;
    made.push_back(planning::plan_once(step, other, how, from));
  }
  return made;
}

}  // namespace ferry
