// Chains from files of the planner cases' format. Such a file is untrusted: everything in it is checked before it is
// used, and what is read is bounded whatever the file claims. Any thread may call.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>

#include "plan/chain.hpp"

namespace ferry::planning {

inline constexpr std::size_t max_case_stages = 100'000;

/// The chain in `file`. Keys that are not the problem's are ignored.
/// *Throws* format_error naming the file, the place and the fix.
[[nodiscard]] chain read_chain(std::filesystem::path const& file);
/// The same from a stream of any length; `file` is for messages.
[[nodiscard]] chain parse_chain(std::istream& in, std::filesystem::path const& file);

}  // namespace ferry::planning
