// What the page is made of, as compact JSON: series as columns, lanes of a few steps, the dearest items. Runs may be
// long; whatever is left out or put together for size is said in the data.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_data.hpp"

namespace ferry::command {

/// For the whole page; runs share it evenly.
struct page_limits {
  std::size_t steps = 3000;
  std::size_t slices = 24'000;
  std::size_t decisions = 6'000;
  std::size_t byte_points = 12'000;
  std::size_t curve_parts = 4'096;
  std::size_t items = 4'000;

  [[nodiscard]] page_limits divided_by(std::size_t parts) const;
};

[[nodiscard]] nlohmann::ordered_json page_data(run_data const& all, page_limits const& limits);

/// A step to look at closely, and why this one.
struct chosen_step {
  std::size_t index = 0;  ///< into `trace_data::steps`
  std::string why;        ///< "first", "slowest"
};
[[nodiscard]] std::vector<chosen_step> choose_steps(trace_data const& trace, page_limits const& limits);

}  // namespace ferry::command
