// Plans a chain: the label pass gives starts, the exact simulator scores them, local search improves the best.
//
// One solver per chain; the replay table is made once, so that planning again for another link speed is quick. The same
// options give the same plan, unless the time limit ends the search early. Threads: one caller at a time; uses others
// beside it.
//
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_plan.hpp"
#include "plan/chain_simulator.hpp"
#include "plan/local_search.hpp"
#include "plan/lower_bound.hpp"
#include "plan/replay_table.hpp"

namespace ferry::planning {

struct solve_options {
  static constexpr double no_time_limit = 1e12;
  double time_limit_ms = 0;  ///< 0: what the chain's length deserves
  bool polish = true;        ///< false: the first plan
  bool labels = true;        ///< false: no label pass, where `starts` are good or labels know too little
  std::uint64_t moves = 0;   ///< of each local search; 0: what the chain's length deserves
  std::uint64_t seed = 1;
  std::vector<chain_plan> starts{};  ///< plans to begin with, of an earlier solve for instance
};

struct chain_solution {
  bool feasible = false;
  byte_floor floor;
  chain_plan plan;
  bool proven = false;  ///< nothing is faster
  double seconds = 0;
  double first_seconds = 0;  ///< of the first plan
  double lower_bound_s = 0;
  double first_ms = 0;  ///< until the first plan, and in all
  double solve_ms = 0;
};

class chain_solver {
 public:
  /// `replays`: of a chain with the same stages and budget; made if it is null.
  explicit chain_solver(chain of, std::shared_ptr<replay_table const> replays = nullptr);
  chain_solver(chain_solver const&) = delete;
  chain_solver& operator=(chain_solver const&) = delete;

  [[nodiscard]] chain const& problem() const noexcept { return chain_; }
  [[nodiscard]] replay_table const& replays() const noexcept { return *replays_; }
  [[nodiscard]] std::shared_ptr<replay_table const> share_replays() const noexcept { return replays_; }
  /// Another link; everything else stays.
  void set_link(double d2h_bytes_per_s, double h2d_bytes_per_s) noexcept;

  [[nodiscard]] chain_solution solve(solve_options const& options);

 private:
  [[nodiscard]] std::vector<chain_plan> starts(solve_options const& options) const;
  void polish(chain_solution& found, std::vector<search_result> const& from, solve_options const& options,
              std::chrono::steady_clock::time_point deadline) const;

  chain chain_;
  std::shared_ptr<replay_table const> replays_;
};

/// The plans that people make by hand, as starts and so that no plan is worse: keep all, every=N, sqrt, checkpoint or
/// ferry every input, ferry the first n stages, rotor's optimum without a link, the best stages that fit kept.
[[nodiscard]] std::vector<chain_plan> fixed_plans(chain const& c, replay_table const& replays);

}  // namespace ferry::planning
