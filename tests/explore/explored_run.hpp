// One explored run: the program that a number stands for, what becomes of it, and the smallest one that still fails.
#pragma once

#include <cstdint>
#include <string>

#include "explore/coverage.hpp"
#include "support/session_program.hpp"

namespace ferry::testing {

/// The same number, the same program.
[[nodiscard]] program explored_program(std::uint64_t number);

/// What one run came to.
struct explored_outcome {
  std::string problems;  ///< empty if nothing went wrong
  std::string digest;    ///< of everything that was counted and timed: the same for the same program
};
[[nodiscard]] explored_outcome explore(program const& p, coverage& total);

/// A smaller program with problems of the same kind. Runs at most so many.
[[nodiscard]] program smallest_failing(program failing, int most_runs);

/// The program as text.
[[nodiscard]] std::string text_of(program const& p);

}  // namespace ferry::testing
