// Contention as a part of Ferry's files: an object whose members are shares, each 1 where it is left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferry/link.hpp"
#include "plan/json_reader.hpp"

namespace ferry::planning {

/// Its members' names.
[[nodiscard]] std::vector<std::string_view> contention_keys();
/// Throws: `bad_field`.
[[nodiscard]] contention contention_of(fields const& from);
/// Throws: `bad_field` for a share that is none.
void check_contention(contention const& beside, std::string const& place);
[[nodiscard]] std::string json_of(contention const& beside);

}  // namespace ferry::planning
