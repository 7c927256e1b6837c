// One explored run: the program that a number stands for, what becomes of it, and the smallest one that still fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "explore/coverage.hpp"
#include "support/session_program.hpp"

namespace ferry::testing {

/// The same number, the same program.
[[nodiscard]] program explored_program(std::uint64_t number);

/// What one run came to; all of it is the same when the program is run again.
struct explored {
  std::string problems;  ///< empty if nothing went wrong
  coverage met;
  std::string figures;  ///< all that the session counts
  std::chrono::nanoseconds time{};
  friend bool operator==(explored const&, explored const&) = default;
};
[[nodiscard]] explored explore(program const& p);

/// A smaller program with problems of the same kind. Runs at most so many.
[[nodiscard]] program smallest_failing(program failing, int most_runs);

/// The program as text.
[[nodiscard]] std::string text_of(program const& p);

}  // namespace ferry::testing
