#include "plan/step_solver.hpp"

#include <optional>
#include <utility>

#include "plan/plan_writer.hpp"

namespace ferry::planning {

namespace {

/// How a search goes that may have this share of all the time.
solve_options search_of(plan_options const& how, double share_of_time) {
  return {.time_limit_ms = how.effort > 0 ? solve_options::no_time_limit : share_of_time * how.time_limit_ms,
          .moves = how.effort,
          .seed = how.seed};
}

solved_step pose(profile const& step, hardware const& on, plan_options const& how, bool options_inside,
                 std::shared_ptr<replay_table const> replays, std::vector<link_stall> stalls = {}) {
  solved_step posed;
  posed.of = std::make_unique<step_chain>(make_step_chain(step, on, how, options_inside));
  posed.of->problem.stalls = std::move(stalls);
  posed.solver = std::make_unique<chain_solver>(posed.of->problem, std::move(replays));
  return posed;
}

/// The best plan with options inside segments on a device without a link: one of the starts, so that a link never makes
/// a plan worse.
std::optional<chain_plan> solve_without_link(profile const& step, hardware on, plan_options const& how,
                                             std::shared_ptr<replay_table const> replays) {
  on.device_to_host.gbps = on.host_to_device.gbps = 0;
  auto alone = pose(step, on, how, true, std::move(replays));
  auto options = search_of(how, 0.2);
  auto found = alone.solver->solve(options);
  return found.feasible ? std::optional(std::move(found.plan)) : std::nullopt;
}

}  // namespace

/// With whole segments first, whose best plan is one of the starts with options: so options never make it worse.
solved_step solve_step(profile const& step, hardware const& on, plan_options const& how, head_start& from) {
  auto whole = pose(step, on, how, false, from.replays);
  auto options = search_of(how, 0.2);
  options.starts = std::exchange(from.whole, {});
  whole.found = whole.solver->solve(options);
  from.replays = whole.solver->share_replays();
  auto starts = std::exchange(from.inside, {});
  if (whole.found.feasible) {
    from.whole.push_back(whole.found.plan);
    starts.push_back(whole.found.plan);
  }
  if (whole.of->problem.has_link()) {
    if (auto alone = solve_without_link(step, on, how, from.replays)) starts.push_back(std::move(*alone));
  }
  auto inside = pose(step, on, how, true, from.replays);
  options = search_of(how, 0.6);
  options.starts = std::move(starts);
  inside.found = inside.solver->solve(options);
  if (inside.found.feasible) from.inside.push_back(inside.found.plan);
  bool const better = inside.found.feasible && (!whole.found.feasible || inside.found.seconds <= whole.found.seconds);
  return better ? std::move(inside) : std::move(whole);
}

solved_step solve_around(std::vector<link_stall> stalls, profile const& step, hardware const& on,
                         plan_options const& how, std::shared_ptr<replay_table const> replays,
                         std::vector<chain_plan> plans) {
  auto solved = pose(step, on, how, true, std::move(replays), std::move(stalls));
  auto options = search_of(how, 1);
  options.labels = false;
  options.starts = std::move(plans);
  solved.found = solved.solver->solve(options);
  return solved;
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
