#include "plan/step_solver.hpp"

#include <utility>

#include "plan/plan_writer.hpp"

namespace ferry::planning {

namespace {

solved_step solve(profile const& step, hardware const& on, plan_options const& how, bool options_inside,
                  double time_limit_ms, step_hints hints) {
  solved_step solved;
  solved.of = std::make_unique<step_chain>(make_step_chain(step, on, how, options_inside));
  solved.of->problem.stalls = std::move(hints.stalls);
  solved.solver = std::make_unique<chain_solver>(solved.of->problem, std::move(hints.replays));
  solve_options options;
  options.time_limit_ms = time_limit_ms;
  options.seed = how.seed;
  options.starts = std::move(hints.starts);
  solved.found = solved.solver->solve(options);
  return solved;
}

}  // namespace

/// With whole segments first, whose best plan is one of the starts with options: so options never make it worse.
solved_step solve_step(profile const& step, hardware const& on, plan_options const& how, step_hints hints) {
  auto whole = solve(step, on, how, false, 0.25 * how.time_limit_ms, {hints.replays, {}, hints.stalls});
  hints.replays = whole.solver->share_replays();
  if (whole.found.feasible) hints.starts.push_back(whole.found.plan);
  auto inside = solve(step, on, how, true, 0.75 * how.time_limit_ms, std::move(hints));
  bool const better = inside.found.feasible && (!whole.found.feasible || inside.found.seconds <= whole.found.seconds);
  return better ? std::move(inside) : std::move(whole);
}

plan write_plan(profile const& step, hardware const& on, plan_options const& how, solved_step const& solved) {
  chain_simulator simulator(solved.solver->problem(), solved.solver->replays());
  simulator.run(solved.found.plan);
  plan made = write_plan(step, *solved.of, solved.found, simulator);
  made.hardware_name = on.name;
  made.budget_bytes = how.budget_bytes;
  return made;
}

}  // namespace ferry::planning
