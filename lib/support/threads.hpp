// How many threads computation may use: as many as a setting says, or else as OpenMP would in this process, less a core
// for the copies where nobody says anything. What the environment and the system say about that is read here and
// nowhere else.
//
// Shared with tools/: `ferry devices` shows the number and where it comes from.
//
// Threads: any; the affinity mask is the caller's.
#pragma once

#include <string>
#include <string_view>

namespace ferry::support {

/// The cores that may be used: those of the affinity mask, fewer where a control group has a quota for less. `root` is
/// where /proc and /sys are.
[[nodiscard]] unsigned usable_cores(std::string const& root = "");

struct thread_count {
  unsigned threads = 1;
  std::string_view from;  ///< what decided: a variable, or "cores of this process"
};

/// Those of a compute stream on the host device. `given` is FERRY_COMPUTE_THREADS; 0 stands for `auto`.
[[nodiscard]] thread_count compute_threads(unsigned given);

/// As many as OpenMP would use in this process.
[[nodiscard]] thread_count threads_as_openmp();

/// Copies are done by the CPU: of several cores they get one, unless a variable says how many compute.
[[nodiscard]] thread_count less_one_for_copies(thread_count all) noexcept;

/// The same from OMP_NUM_THREADS, of which the first number counts, and OMP_THREAD_LIMIT; null: not set. One that
/// OpenMP would not accept counts for nothing, as there. Never more than there are cores: threads without one would
/// only take turns.
[[nodiscard]] thread_count threads_as_openmp(char const* num_threads, char const* thread_limit, unsigned cores);

}  // namespace ferry::support
