// Everything that could happen by name to items and transfers, and why some of it cannot.
#pragma once

#include <vector>

#include "explore/coverage.hpp"

namespace ferry::testing {

/// Every state, with every event and every evidence.
[[nodiscard]] std::vector<happening> const& all_happenings();

/// The reason, if it can never be met; else null.
[[nodiscard]] char const* why_impossible(happening const& what);
/// Each of them, once.
[[nodiscard]] std::vector<char const*> reasons_of_impossibility();

}  // namespace ferry::testing
