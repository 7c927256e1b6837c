// One explored run: the program that a number stands for, what becomes of it, and the smallest one that still fails.
#pragma once

#include <cstdint>
#include <string>

#include "explore/coverage.hpp"
#include "support/session_program.hpp"

namespace ferry::testing {

/// The same number, the same program.
[[nodiscard]] program explored_program(std::uint64_t number);

/// What went wrong, or nothing.
[[nodiscard]] std::string explore(program const& p, coverage& total);

/// True if everything that can be counted and timed is the same when the program is run again.
[[nodiscard]] bool repeats(program const& p);

/// A smaller program with problems of the same kind. Runs at most so many.
[[nodiscard]] program smallest_failing(program failing, int most_runs);

/// The program as text.
[[nodiscard]] std::string text_of(program const& p);

}  // namespace ferry::testing
