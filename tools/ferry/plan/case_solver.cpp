#include "plan/case_solver.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "plan/chain_simulator.hpp"
#include "plan/exact_search.hpp"

namespace ferry::planning {

namespace {

/// Exhaustive search is worth trying up to so many stages.
constexpr std::size_t searched_exhaustively = 8;

bool is_short(chain const& c) {
  return c.options.empty() && c.stalls.empty() && !c.beside.any() && c.stages() <= searched_exhaustively;
}

/// For as long as so many moves of a local search deserve.
void search_exhaustively(chain const& c, case_solution& found, std::uint64_t moves) {
  exact_limits limits;
  constexpr std::uint64_t most_nodes = 60'000;  // a tenth of a second
  constexpr std::uint64_t nodes_a_move = 12;
  limits.max_nodes = moves > 0 ? std::min(most_nodes, nodes_a_move * moves) : most_nodes;
  bool const first = !found.feasible;
  if (found.feasible) limits.upper_bound_s = found.seconds * (1 - 1e-9);
  auto better = exact_search(c, limits).solve();
  if (better.feasible) {
    found.feasible = true;
    found.seconds = better.makespan_s;
    if (first) found.first_seconds = found.seconds;
    found.schedule = std::move(better.schedule);
    found.plan.clear();
  }
  if (!found.feasible) return;
  found.proven = better.finished;
  found.lower_bound_s = std::max(found.lower_bound_s, better.finished ? found.seconds : better.lower_bound_s);
}

}  // namespace

case_solution solve_case(chain_solver& solver, solve_options const& options) {
  auto const began = std::chrono::steady_clock::now();
  auto const& c = solver.problem();
  case_solution found{solver.solve(options), {}};
  if (found.feasible) {
    chain_simulator simulator(c, solver.replays());
    simulator.run(found.plan);
    found.schedule = schedule_of(c, simulator);
  }
  bool const hopeless = c.device_bytes * (1 + 1e-9) < found.floor.bytes;
  bool const good_enough = found.feasible && (found.proven || !options.polish);
  if (is_short(c) && !hopeless && !good_enough) search_exhaustively(c, found, options.moves);
  found.solve_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  return found;
}

}  // namespace ferry::planning
