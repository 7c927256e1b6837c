// A tape as a picture: time from left to right, a row for each item, the live bytes beneath.
#pragma once

#include <span>
#include <string>

#include "tape/tape_record.hpp"

namespace ferry::command {

/// A panel for each tape, one beneath the other, on one scale of time and of bytes. Requires: at least one.
[[nodiscard]] std::string tape_svg(std::span<tape const> tapes);

}  // namespace ferry::command
