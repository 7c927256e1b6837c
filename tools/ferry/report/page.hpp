// The page: one HTML file that needs nothing else, in which whatever came from a file is inert.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/run_data.hpp"

namespace ferry::command {

/// JSON that may stand inside of a script element, whatever texts it holds.
[[nodiscard]] std::string script_text(nlohmann::ordered_json const& value);

inline constexpr std::size_t most_page_bytes = std::size_t{5} << 20;

/// Never more than `most_page_bytes`: the more there is, the more is left out, and the page says what.
[[nodiscard]] std::string make_page(run_data const& all);

}  // namespace ferry::command
