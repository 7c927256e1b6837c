#include "support/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>

#include "support/control_groups.hpp"
#include "support/parse.hpp"

namespace ferry::support {

namespace {

constexpr std::string_view all_cores = "cores of this process";

unsigned cores_of_the_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return std::max(1U, static_cast<unsigned>(CPU_COUNT(&mask)));
  return std::max(1U, std::thread::hardware_concurrency());  // more cores than the mask has room for
}

/// How many cores' time a group may take; none: as much as there is. `folder` is of either version.
std::optional<double> quota_of(std::string const& folder) {
  double quota = 0;
  double period = 0;
  std::ifstream version_2(folder + "/cpu.max");  // "max 100000" where there is none
  if (!(version_2 >> quota >> period)) {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;  // -1 where there is none
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

/// Whole cores of the tightest quota on this process's groups and on those around them.
unsigned cores_of_the_quota(std::string const& root, unsigned most) {
  double least = most;
  for (auto const& folder : control_groups("cpu", root)) {
    if (auto const quota = quota_of(folder)) least = std::min(least, *quota);
  }
  return std::max(1U, static_cast<unsigned>(std::ceil(least)));
}

/// A number above zero as OpenMP reads it, and what follows it. None: no such number.
std::optional<unsigned> positive(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  unsigned long number = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size() || number == 0) return std::nullopt;
  return static_cast<unsigned>(std::min(number, 1UL << 20));
}

/// The first of a list of such numbers.
std::optional<unsigned> first_positive(std::string_view list) {
  std::optional<unsigned> first;
  for (;;) {
    auto const comma = list.find(',');
    auto const number = positive(list.substr(0, comma));
    if (!number) return std::nullopt;
    if (!first) first = number;
    if (comma == std::string_view::npos) return first;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

unsigned usable_cores(std::string const& root) {
  unsigned const cores = cores_of_the_mask();
  return std::min(cores, cores_of_the_quota(root, cores));
}

thread_count threads_as_openmp(char const* num_threads, char const* thread_limit, unsigned cores) {
  thread_count chosen{cores, all_cores};
  auto const lower = [&chosen](std::optional<unsigned> to, std::string_view from) {
    if (to && *to <= chosen.threads) chosen = {*to, from};
  };
  if (num_threads != nullptr) lower(first_positive(num_threads), "OMP_NUM_THREADS");
  if (thread_limit != nullptr) {
    auto const limit = positive(thread_limit);
    if (limit && *limit < chosen.threads) lower(limit, "OMP_THREAD_LIMIT");
  }
  return chosen;
}

thread_count threads_as_openmp() {
  return threads_as_openmp(std::getenv("OMP_NUM_THREADS"), std::getenv("OMP_THREAD_LIMIT"), usable_cores());
}

thread_count less_one_for_copies(thread_count all) noexcept {
  if (all.from != all_cores || all.threads < 2) return all;
  return {all.threads - 1, "cores of this process but one, which is for copies"};
}

thread_count compute_threads(unsigned given) {
  if (given != 0) return {given, "FERRY_COMPUTE_THREADS"};
  return less_one_for_copies(threads_as_openmp());
}

}  // namespace ferry::support
