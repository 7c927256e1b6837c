// Tapes for machines; docs/formats.md describes the keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "tape/tape_record.hpp"
#include "tape/tape_text.hpp"

namespace ferry::command {

[[nodiscard]] nlohmann::ordered_json tape_json(std::span<tape const> tapes, std::span<tape_growth const> growth);

}  // namespace ferry::command
