// FERRY_STATS: one step as a line of JSON.
#pragma once

#include <string>

#include "path/step_book.hpp"

namespace ferry::path {

/// With its line end. Requires: the book's stretches have their times.
[[nodiscard]] std::string step_line(step_book const& book);

}  // namespace ferry::path
