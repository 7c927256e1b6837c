// The lanes of a few steps of a run for the page.
#pragma once

#include <nlohmann/json.hpp>

#include "report/page_data.hpp"
#include "report/page_items.hpp"

namespace ferry::command {

/// Requires: `of.trace`.
[[nodiscard]] nlohmann::ordered_json traced_json(run const& of, label_book& labels, page_limits const& limits);

}  // namespace ferry::command
