// What to try next, from what a run shows. Each piece of advice says what was seen, what it costs and which setting
// changes it; the words are those of `ferry train --explain`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_data.hpp"

namespace ferry::command {

enum class urgency : std::uint8_t { good, hint, costly };

struct advice {
  urgency how = urgency::hint;
  std::string seen;      ///< "Compute stood still for 12% of the time, ..."
  std::string remedy;    ///< "Raise FERRY_BUDGET, ..."; "" if there is none
  std::string variable;  ///< the setting that matters most; "" if none
  double weight = 0;     ///< share of the step's time, to sort by
};

/// The costliest first; never empty for a run with steps.
[[nodiscard]] std::vector<advice> advise(run const& of);

/// Sums that advice and page have in common; shares are of the steps' time.
struct run_sums {
  double median_us = unknown;  ///< of a step, without the first two if there are more
  double total_us = 0;
  double recompute_share = unknown;
  double arrival_share = unknown;
  double bytes_share = unknown;
};
[[nodiscard]] run_sums sums_of(run const& of);

}  // namespace ferry::command
