// FERRY_STATS: one step as a line of JSON.
#pragma once

#include <string>

#include "observe/step_record.hpp"

namespace ferry::observe {

/// With its line end. Requires: the book's stretches have their times.
[[nodiscard]] std::string step_line(step_record const& book);

}  // namespace ferry::observe
