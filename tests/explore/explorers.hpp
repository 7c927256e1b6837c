// Processes that explore programs side by side, each program by its number, until time is up or something goes wrong.
// A process that crashes takes nobody along: which program it was at is known.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ferry::testing {

struct exploring {
  std::uint64_t first = 0;              ///< the first program's number; the others follow
  std::optional<std::uint64_t> most{};  ///< programs
  std::optional<std::chrono::seconds> time{};
  unsigned processes = 1;
  bool twice = false;     ///< sees whether each program repeats exactly
  bool go_on = false;     ///< after a failure
  bool progress = false;  ///< shows how far it is, on standard error
};

struct explored_failure {
  std::uint64_t number = 0;
  std::string problems;
};

struct exploration_result {
  std::uint64_t programs = 0;
  double seconds = 0;
  std::vector<explored_failure> failures;
  std::map<std::string, std::uint64_t> met;  ///< what happened how often
};

/// From now on an interruption (Ctrl-C) ends exploring early, with what it has so far.
void stop_when_interrupted();

[[nodiscard]] exploration_result explore_programs(exploring const& how);

}  // namespace ferry::testing
