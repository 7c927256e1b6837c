#include "simulate/enough_budget.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "commands.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t kib = 1024;

bool fits(config settings, std::size_t budget, std::function<void(config const&)> const& attempt) {
  settings.budget = byte_amount::exactly(budget);
  try {
    attempt(settings);
    return true;
  } catch (out_of_memory const&) {
    return false;
  } catch (deadlock_error const&) {  // it waits for bytes that nothing gives back
    return false;
  }
}

}  // namespace

std::optional<std::size_t> smallest_that_works(std::size_t too_small, std::size_t guess, std::size_t most,
                                               std::function<bool(std::size_t)> const& works) {
  std::size_t const end = most / kib;
  std::size_t low = too_small / kib;
  std::size_t high = std::max(low + 1, (guess + kib - 1) / kib);
  while (high < end && !works(high * kib)) {
    low = high;
    high *= 2;
  }
  if (high >= end) {
    high = end;
    if (high <= low || !works(high * kib)) return std::nullopt;
  }
  constexpr std::size_t fineness = 64;
  while (high - low > 1 + high / fineness) {
    std::size_t const middle = low + (high - low) / 2;
    (works(middle * kib) ? high : low) = middle;
  }
  return high * kib;
}

void with_room(config const& settings, std::string const& following, std::size_t most_bytes,
               std::function<void(config const&)> const& attempt) {
  try {
    attempt(settings);
  } catch (out_of_device_memory const& problem) {
    std::size_t const budget = problem.limit_bytes();
    auto const enough = smallest_that_works(budget, problem.enough_bytes(), most_bytes,
                                            [&](std::size_t bytes) { return fits(settings, bytes, attempt); });
    if (!enough) throw failed(problem.what());
    throw infeasible_budget(fmt::format("out of device memory: a step with {} does not fit the budget of {}; the "
                                        "smallest that works is --budget {}KiB",
                                        following, format_bytes(budget), *enough / kib),
                            *enough, budget);
  }
}

}  // namespace ferry::command
