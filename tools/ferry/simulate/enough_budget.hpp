// A simulated step that finds no room: which budget is enough, found by simulating it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "ferry/config.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

/// The smallest budget above `too_small` that `works`, in whole KiB and to a 64th; none if not even `most` does.
/// `guess` is where the search begins.
[[nodiscard]] std::optional<std::size_t> smallest_that_works(std::size_t too_small, std::size_t guess, std::size_t most,
                                                             std::function<bool(std::size_t)> const& works);

/// Runs `attempt` with these settings. Throws: where it has no room, `infeasible_budget` with a budget that was seen to
/// be enough, up to `most_bytes`; else `failed`. `following`: "--policy keep", as typed.
void with_room(config const& settings, std::string const& following, std::size_t most_bytes,
               std::function<void(config const&)> const& attempt);

}  // namespace ferry::command
