#include "plan/chain_solver.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "plan/even_mixes.hpp"
#include "plan/label_pass.hpp"
#include "support/parallel.hpp"

namespace ferry::planning {

namespace {

using clock = std::chrono::steady_clock;
constexpr double never = std::numeric_limits<double>::infinity();

double milliseconds_since(clock::time_point then) {
  return std::chrono::duration<double, std::milli>(clock::now() - then).count();
}

/// What is worth spending: the quality that docs/planner.md states is reached well within it.
double worthwhile_ms(std::size_t stages) {
  if (stages <= 24) return 90;
  return stages <= 100 ? 90 + 4.0 * static_cast<double>(stages - 24) : 4.5 * static_cast<double>(stages);
}

bool is_best(chain_solution const& found) { return found.seconds <= found.lower_bound_s * (1 + 1e-12); }

label_grid grid_for(std::size_t stages) {
  if (stages <= 64) return {32, 6, 24};
  return stages <= 256 ? label_grid{24, 5, 16} : label_grid{16, 4, 12};
}

}  // namespace

chain_solver::chain_solver(chain of, std::shared_ptr<replay_table const> replays)
    : chain_(std::move(of)), replays_(std::move(replays)) {
  if (replays_ == nullptr) replays_ = std::make_shared<replay_table>(chain_);
}

void chain_solver::set_link(double d2h_bytes_per_s, double h2d_bytes_per_s) noexcept {
  chain_.d2h_bytes_per_s = d2h_bytes_per_s;
  chain_.h2d_bytes_per_s = h2d_bytes_per_s;
}

std::vector<chain_plan> chain_solver::starts(solve_options const& options) const {
  constexpr std::size_t from_labels = 48;
  auto const grid = grid_for(chain_.stages());
  std::vector<chain_plan> plans;
  std::vector<chain_plan> without_link;
  label_grid const without_queues{grid.kept_cells * 4, 1, grid.longest_run};
  std::size_t const passes = options.labels ? (chain_.has_link() ? 2 : 1) : 0;
  support::in_parallel(passes, [&](std::size_t which) {
    if (which + 1 < passes) {
      plans = label_pass(chain_, *replays_, grid, from_labels);
    } else {
      chain alone = chain_;
      alone.d2h_bytes_per_s = alone.h2d_bytes_per_s = 0;
      without_link = label_pass(alone, *replays_, without_queues, chain_.has_link() ? 4 : from_labels);
    }
  });
  auto const append = [&plans](std::vector<chain_plan> more) {
    plans.insert(plans.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  append(std::move(without_link));
  append(fixed_plans(chain_, *replays_));
  constexpr std::size_t mixes = 8;
  chain_simulator simulator(chain_, *replays_);
  append(even_mixes(chain_, simulator, mixes));
  for (auto plan : options.starts) {
    plan.resize(chain_.stages());
    settle(chain_, plan);
    plans.push_back(std::move(plan));
  }
  return plans;
}

chain_solution chain_solver::solve(solve_options const& options) {
  auto const began = clock::now();
  chain_solution found;
  found.floor = floor_of(chain_);
  if (chain_.device_bytes * (1 + 1e-9) < found.floor.bytes) {
    found.solve_ms = milliseconds_since(began);
    return found;
  }
  chain_simulator simulator(chain_, *replays_);
  std::vector<search_result> scored;
  for (auto& plan : starts(options)) {
    double const seconds = simulator.run(plan);
    if (seconds < never) scored.push_back({std::move(plan), seconds, simulator.sent_bytes()});
  }
  // Of equally fast plans the one that moves least.
  std::ranges::stable_sort(scored, {}, [](search_result const& r) { return std::pair(r.seconds, r.sent_bytes); });
  found.lower_bound_s = lower_bound_s(chain_);
  found.first_ms = milliseconds_since(began);
  if (scored.empty()) {
    found.solve_ms = milliseconds_since(began);
    return found;
  }
  found.feasible = true;
  found.plan = scored.front().plan;
  found.seconds = found.first_seconds = scored.front().seconds;
  double const limit_ms = options.time_limit_ms > 0 ? options.time_limit_ms : worthwhile_ms(chain_.stages());
  if (options.polish && !is_best(found)) {
    polish(found, scored, options, began + std::chrono::microseconds(static_cast<std::int64_t>(1000 * limit_ms)));
  }
  if (chain_.stages() <= 256) keep_what_can_stay(chain_, simulator, found.plan, found.seconds);
  found.seconds = simulator.run(found.plan);
  found.proven = is_best(found);
  found.solve_ms = milliseconds_since(began);
  return found;
}

/// Several searches side by side, from the best start and from a few that differ from it.
void chain_solver::polish(chain_solution& found, std::vector<search_result> const& from, solve_options const& options,
                          clock::time_point deadline) const {
  constexpr std::size_t searches = 4;
  bool const short_chain = chain_.stages() <= 8;
  std::vector<search_result> ends(searches);
  support::in_parallel(searches, [&](std::size_t k) {
    chain_simulator own(chain_, *replays_);
    search_limits limits;
    limits.moves = options.moves > 0 ? options.moves : short_chain ? 5000 : 20000;
    limits.seed = options.seed * searches + k;
    limits.good_enough_s = found.lower_bound_s * (1 + 1e-12);
    limits.deadline = deadline;
    std::size_t const start = std::min(k * (from.size() - 1) / 8, from.size() - 1);
    ends[k] = improve(chain_, own, from[start], limits);
  });
  for (auto& end : ends) {
    if (end.seconds >= found.seconds) continue;
    found.seconds = end.seconds;
    found.plan = std::move(end.plan);
  }
}

std::vector<chain_plan> fixed_plans(chain const& c, replay_table const& replays) {
  auto const stages = static_cast<std::uint32_t>(c.stages());
  std::vector<chain_plan> plans;
  auto const all = [&](std::int8_t saving, input_mark mark) { return chain_plan(stages, {saving, mark, 0}); };
  auto const add = [&](chain_plan plan) {
    settle(c, plan);
    plans.push_back(plan);
    if (!c.has_link()) return;
    plan.front().input = input_mark::ferried;
    settle(c, plan);
    plans.push_back(std::move(plan));
  };
  add(all(kept_whole, input_mark::kept));
  auto const root = static_cast<std::uint32_t>(std::ceil(std::sqrt(stages)));
  std::uint32_t const step = std::max(1U, stages / 64);
  for (std::uint32_t n = 1; n <= stages; n += n < 16 ? 1 : step) {
    chain_plan plan = all(replayed, input_mark::none);
    for (std::uint32_t i = 0; i < stages; i += n) plan[i].input = input_mark::kept;
    add(std::move(plan));
  }
  chain_plan by_root = all(replayed, input_mark::none);
  for (std::uint32_t i = 0; i < stages; i += root) by_root[i].input = input_mark::kept;
  add(std::move(by_root));

  // The recompute-only optimum, from the table.
  if (replays.longest() >= stages) {
    chain_plan plan = all(replayed, input_mark::none);
    double free = c.device_bytes - c.boundary_bytes[0];
    for (std::uint32_t s = 0; s < stages;) {
      auto const [keep_input_of, fits] = replays.best(run_kind::plain, s, stages - 1, free);
      if (!fits) break;
      if (keep_input_of == 0) {
        plan[s].saving = kept_whole;
        free -= c.saved_bytes[s];
        ++s;
      } else {
        plan[keep_input_of].input = input_mark::kept;
        free -= c.boundary_bytes[keep_input_of];
        s = keep_input_of;
      }
    }
    add(std::move(plan));
  }
  // Every input at hand, and the stages that are dearest per byte saved while they fit.
  std::vector<std::uint32_t> order(stages);
  for (std::uint32_t i = 0; i < stages; ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::uint32_t i) { return c.forward_s[i] / std::max(c.saved_bytes[i], 1.0); });
  chain_simulator simulator(c, replays);
  for (auto const mark : {input_mark::kept, input_mark::ferried}) {
    if (mark == input_mark::ferried && !c.has_link()) break;
    chain_plan plan = all(replayed, mark);
    settle(c, plan);
    add(plan);
    if (stages > 128) continue;  // a simulation for each stage would take too long
    double best = simulator.run(plan);
    int refused = 0;
    for (std::uint32_t const i : order) {
      plan[i].saving = kept_whole;
      double const seconds = simulator.run(plan);
      if (seconds < never && seconds <= best) {
        best = seconds;
      } else {
        plan[i].saving = replayed;
        if (++refused == 64) break;
      }
    }
    add(std::move(plan));
  }
  if (c.has_link()) {
    for (std::uint32_t n = 1; n <= stages; n += step) {
      chain_plan plan = all(kept_whole, input_mark::kept);
      for (std::uint32_t i = 0; i < n; ++i) plan[i].saving = ferried_whole;
      add(std::move(plan));
    }
  }
  return plans;
}

}  // namespace ferry::planning
