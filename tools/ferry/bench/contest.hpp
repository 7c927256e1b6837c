// Policies against each other: step time over device bytes, for Ferry's policies and for what others do.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

/// One policy under one budget.
struct contest_point {
  std::size_t budget_bytes = 0;
  bool measured = false;  ///< whether it fits is known
  bool fits = false;
  std::string failure;  ///< why it does not
  std::string knob;     ///< what a policy with a knob was set to
  std::size_t peak_bytes = 0;
  std::size_t host_peak_bytes = 0;
  double step_us = 0;
  /// Of it, as a share: what chance may have done to the measurement. 0 on the sim device; infinite where there were
  /// too few rounds to tell.
  double error = 0;
  double recompute_us = 0;
  double waiting_us = 0;
  std::size_t offloaded_bytes = 0;
  std::size_t fetched_bytes = 0;

  /// Nothing follows from a time that varies so much.
  [[nodiscard]] bool is_vague() const noexcept { return error > vague_error; }
  static constexpr double vague_error = 0.1;
};

struct contest_curve {
  std::string name;
  std::string words;  ///< what it does, in a line
  bool is_peer = false;
  std::vector<contest_point> points;  ///< one for each budget
};

/// Another curve is below `auto`.
struct lost_point {
  std::size_t budget_bytes = 0;
  std::string by;
  double ratio = 1;  ///< of auto's step time to the other's
};

struct contest {
  std::string device;    ///< "sim", "host", "cuda"
  std::string step;      ///< what was run
  std::string hardware;  ///< on what
  std::size_t keep_all_bytes = 0;
  double unlimited_us = 0;
  std::vector<std::size_t> budgets;  ///< ascending
  std::vector<contest_curve> curves;
  bool interrupted = false;
  /// Step times that differ by less than this are the same: what a measurement varies by; 0 on the sim device.
  double noise = 0;

  [[nodiscard]] bool means_little() const noexcept { return noise > contest_point::vague_error; }
  [[nodiscard]] contest_curve const* find(std::string_view name) const;
  /// Where `auto` is not on or below all others.
  [[nodiscard]] std::vector<lost_point> lost() const;
};

/// Ferry's policies that take part, as FERRY_POLICY takes them; those with a knob once for each setting of it.
struct entrant_policy {
  std::string name;
  std::string words;
  std::vector<std::string> settings;
};
[[nodiscard]] std::vector<entrant_policy> ferry_policies(std::size_t segments);

/// By more than what was measured varies by.
[[nodiscard]] bool is_slower(contest const& all, contest_point const& one, contest_point const& than);

/// The better of two for the same budget: one that fits, the faster one; of those that do not, one of which it is
/// known.
[[nodiscard]] contest_point better(contest_point a, contest_point b);

/// `count` budgets from the smallest that some plan fits to the one that keeps all, or that the device has; closer to
/// each other where memory is scarce.
[[nodiscard]] std::vector<std::size_t> spread_budgets(std::size_t smallest, std::size_t largest, std::size_t count);

/// A budget of which nothing was measured is only named.
[[nodiscard]] std::string table_of(contest const& all);
[[nodiscard]] std::string svg_of(contest const& all);
[[nodiscard]] nlohmann::ordered_json json_of(contest const& all);

}  // namespace ferry::command
