// `ferry train --compare --slow-link`: halfway the link drops to a third of its speed. A plan that stays waits for it,
// the rule alone recomputes instead, and `auto` plans again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "commands.hpp"
#include "train_options.hpp"

namespace ferry::command {

/// One way to go on, or the reference, which had all the memory it wanted and needs no link.
struct drop_row {
  std::string name;
  std::vector<double> seconds;          ///< of every step
  std::vector<double> recompute_share;  ///< of the step's FLOPs
  std::vector<double> waiting_us;
  std::size_t plans_after = 0;  ///< that were made or changed to after the drop
};

/// The first row is the reference.
struct link_drop {
  std::size_t step = 0;  ///< the place of the first slow one
  double gbps = 0;       ///< before
  double slow_gbps = 0;
  std::vector<drop_row> rows;
};

/// Steps before the drop, and from there on, that this needs.
inline constexpr std::size_t steps_to_drop = 8;

/// Time over the reference's in the same turn, for each step.
[[nodiscard]] std::vector<double> times_over_reference(link_drop const& all, drop_row const& one);
[[nodiscard]] std::string table_of(link_drop const& all);
[[nodiscard]] std::string words_of(link_drop const& all);
[[nodiscard]] std::string svg_of(link_drop const& all, std::string const& what);

/// Throws: `setting_error` where no link can be slowed down; `failed` if a policy does not fit or its gradients differ.
exit_code show_slow_link(train_plan const& plan);

}  // namespace ferry::command
