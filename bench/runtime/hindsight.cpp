#include "runtime/hindsight.hpp"

#include <algorithm>

#include "ferry/simulate.hpp"
#include "plan/step_solver.hpp"

namespace ferry::bench {

namespace {

constexpr double planning_ms = 400;
constexpr double planning_around_stalls_ms = 300;  // once for every step, and from good starts

}  // namespace

double hindsight::step_us(fault const& which, std::uint32_t faulty_step) {
  auto const on = with_fault(chain_.on, which);
  plan_options how;
  how.budget_bytes = chain_.budget_bytes;
  how.insured = false;
  how.link_derating = 1;
  how.time_limit_ms = which.stalls ? planning_around_stalls_ms : planning_ms;
  how.seed = 1 + faulty_step;  // what one search misses another may find
  planning::head_start from{.replays = replays_, .whole = {}, .inside = {}};
  auto const solved = which.stalls ? planning::solve_around(stalls_of(chain_, which, faulty_step), chain_.step, on, how,
                                                            replays_, found_)
                                   : planning::solve_step(chain_.step, on, how, from);
  if (!solved.found.feasible) return make_plan(chain_.step, on, how).step_us;  // says what does not fit
  replays_ = solved.solver->share_replays();
  found_.push_back(solved.found.plan);
  double const done_us = carry_out(write_plan(chain_.step, on, how, solved), which, faulty_step);
  // The session issues operations in the planned order, which may lose a little where the link stands still.
  return which.stalls ? std::min(done_us, 1e6 * solved.found.seconds) : done_us;
}

double hindsight::carry_out(plan const& planned, fault const& which, std::uint32_t faulty_step) const {
  simulation_options options;
  options.settings = plain_;
  options.planned = planned;
  options.steps = 2;
  options.before_step = [&](std::uint32_t step, sim_device& on) {
    if (step == 1) inject(on, chain_, which, faulty_step);
  };
  return simulate(chain_.step, with_fault(chain_.on, which), options).step_us;
}

}  // namespace ferry::bench
