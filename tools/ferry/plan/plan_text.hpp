// A plan in words, and as JSON for whoever compares plans.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/step_flags.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

/// A letter for every item, a line for every segment; equal ones that follow each other share a line.
[[nodiscard]] std::string placement_table(plan const& planned);
/// What it costs and where the bytes are.
[[nodiscard]] std::string forecast(plan const& planned);
/// Its three lanes over time.
[[nodiscard]] std::string timeline(plan const& planned);
/// Why every item is where it is: of all if `of` is empty, of those with that name, or of the segment with that number.
[[nodiscard]] std::string reasons(plan const& planned, std::string const& of);

/// How far above the lower bound a step is, at most.
[[nodiscard]] double gap(plan const& planned) noexcept;
[[nodiscard]] double recompute_flops(plan const& planned) noexcept;
/// "3" or "3-11"
[[nodiscard]] std::string words_of_range(std::size_t first, std::size_t last);

/// The forecast's numbers and every item; operations are in the plan file.
[[nodiscard]] nlohmann::ordered_json report(plan const& planned, given_step const& given);

}  // namespace ferry::command
