// From what was measured to settings: what to export, and what each is expected to bring.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/contest.hpp"
#include "bench/link.hpp"

namespace ferry::command {

struct recommendation {
  std::string variable;
  std::string value;
  std::string why;             ///< what it is expected to gain, in words
  std::optional<double> gain;  ///< as a share of the step's time, where it is time that is gained
};

/// Overhead that is worth giving memory back for.
inline constexpr double tolerable_overhead = 0.05;

/// From points that got through their steps only, never from forecasts, nor from what varies too much. Either may be
/// null. Nothing where nothing can be said.
[[nodiscard]] std::vector<recommendation> recommend(contest const* policies, link_result const* link,
                                                    config const& now);

/// The same as `exports_of`, and where no policy is recommended, why. Nothing where the measurement was interrupted.
[[nodiscard]] std::string words_of_advice(contest const& measured, std::vector<recommendation> const& all,
                                          std::string const& for_what);
/// A block of `export` lines for a shell.
[[nodiscard]] std::string exports_of(std::vector<recommendation> const& all, std::string const& for_what);
[[nodiscard]] nlohmann::ordered_json json_of(std::vector<recommendation> const& all);

}  // namespace ferry::command
