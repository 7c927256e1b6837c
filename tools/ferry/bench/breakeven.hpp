// Moving against rebuilding: for every kind of item the link speed at which both take the same time, and what follows
// for which items are kept, ferried and rebuilt.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ferry/plan.hpp"

namespace ferry::command {

/// All items of one name; one that comes from nothing, as the first segment's input does, apart as "first x".
struct item_cost {
  std::string name;
  std::size_t count = 0;
  std::size_t bytes = 0;             ///< of all of them
  std::optional<double> rebuild_us;  ///< of all; nothing if one of them has no recipe
  double out_us = 0;                 ///< over the link, all of them
  double in_us = 0;
  double ferried_share = 0;  ///< of the bytes, where nothing is kept: as far as the link hides them
  placement advice = placement::recompute;

  /// The link speed above which bringing it back is quicker than rebuilding it; nothing without a recipe.
  [[nodiscard]] std::optional<double> even_gbps() const;
  /// Time that a byte kept saves.
  [[nodiscard]] double us_per_mib() const;
};

struct break_even_table {
  std::vector<item_cost> items;  ///< the dearest to rebuild for its bytes first: kept first
  double forward_us = 0;
  double backward_us = 0;
  double hidden_bytes = 0;  ///< that the link can carry both ways behind one step's compute
};

[[nodiscard]] break_even_table weigh(profile const& step, hardware const& on);

/// Break-even speeds of each kind of item as one dimension changes.
struct break_even_sweep {
  std::string axis;  ///< "context"
  std::vector<int> values;
  std::vector<std::string> items;
  std::vector<std::vector<double>> gbps;  ///< by item, by value; 0 where there is none
};
/// As far as there are steps.
[[nodiscard]] break_even_sweep sweep_axis(std::string axis, std::vector<int> const& values,
                                          std::function<std::optional<profile>(int)> const& step_of);

/// The best plan for the same step on faster and slower links.
struct link_choice {
  double out_gbps = 0;
  double in_gbps = 0;
  bool fits = false;
  double overhead = 0;
  std::size_t ferried_bytes = 0;
  double rebuilt_us = 0;
};
[[nodiscard]] std::vector<link_choice> sweep_link(profile const& step, hardware const& on, std::size_t budget_bytes,
                                                  double time_limit_ms);

struct break_even {
  std::string step;
  std::string hardware_name;
  double out_gbps = 0;
  double in_gbps = 0;
  bool measured = false;   ///< on this machine; otherwise by formula or from a file
  std::string link_words;  ///< where that speed comes from, if it needs saying
  break_even_table table;
  std::vector<break_even_sweep> sweeps;
  std::vector<std::string> not_measured;  ///< axes whose sweeps an interruption cut short, or off
  std::size_t budget_bytes = 0;           ///< of `links`
  std::vector<link_choice> links;
};

[[nodiscard]] std::string text_of(break_even const& all);
/// The first sweep as curves, with the link's own speed.
[[nodiscard]] std::string svg_of(break_even const& all);
[[nodiscard]] nlohmann::ordered_json json_of(break_even const& all);

}  // namespace ferry::command
