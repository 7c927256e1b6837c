// Figures in words: why an item went where it went, and where a run's time was lost.
#pragma once

#include <string>

#include "ferry/config.hpp"
#include "ferry/stats.hpp"

namespace ferry::support {

/// "4.10 ms", "312 us"; three digits that count.
[[nodiscard]] std::string duration_words(double us);

/// How many recipes were checked, and why others were not.
[[nodiscard]] std::string recipe_check_words(recipe_check_stats const& checks);

/// The causes of lost time, dearest first, each with the settings that would change it; then what FERRY_VERIFY=recipes
/// has checked, and the settings without effect.
[[nodiscard]] std::string explain_losses(session_stats const& stats, config const& settings);

}  // namespace ferry::support
