// The three formats from and to streams, and the rules that their values keep. docs/formats.md describes them.
#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string_view>

#include "ferry/plan.hpp"

namespace ferry::planning {

/// What the public functions do for files. Throws: `bad_field`.
[[nodiscard]] profile parse_profile(std::istream& in);
[[nodiscard]] hardware parse_hardware(std::istream& in);
[[nodiscard]] plan parse_plan(std::istream& in);

/// Throws: `bad_field`. `rows`, if not empty, says in which row of a file each segment stands.
void check_profile(profile const& step, std::span<std::uint32_t const> rows = {});
void check_hardware(hardware const& on);
void check_plan(plan const& planned);

/// Of an item. Throws: `bad_field` if it is empty or too long.
void check_name(std::string_view name, std::string const& place);
/// Of anything else; may be empty. Throws: `bad_field` if it is too long.
void check_text(std::string_view text, std::string const& place);

}  // namespace ferry::planning
