// What many fault schedules did together, to see that none of what the runtime can do is missing; and how many of them
// are run.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "ferry/stats.hpp"
#include "support/time_box.hpp"

namespace ferry::testing {

struct fault_coverage {
  std::uint64_t schedules = 0;
  std::uint64_t refused = 0;  ///< runs that were done again with a larger budget
  std::uint64_t plans = 0;
  std::uint64_t plan_changes = 0;
  std::uint64_t chunks = 0;
  std::array<std::uint64_t, reason_count> reasons{};

  void add(session_stats const& stats) {
    ++schedules;
    plans += stats.plans;
    plan_changes += stats.plan_changes;
    chunks += stats.device_to_host.chunks + stats.host_to_device.chunks;
    for (std::size_t i = 0; i < reasons.size(); ++i) reasons[i] += stats.reasons[i];
  }
  void print() const {
    auto const number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%llu schedules, %llu refused for room, %llu chunks, %llu plans, %llu plan changes\n",
                number(schedules), number(refused), number(chunks), number(plans), number(plan_changes));
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      std::printf("%10llu  %s\n", number(reasons[i]), std::string(to_string(static_cast<reason>(i))).c_str());
    }
  }
  /// Everything that departs from a plan, and changes of the plan, have happened.
  void expect_all() const {
    EXPECT_GT(plans, 0U);
    EXPECT_GT(plan_changes, 0U);
    for (auto const why :
         {reason::recomputed_sooner_than_transfer, reason::recomputed_rows_still_missing, reason::recomputed_ahead,
          reason::dropped_instead_of_waiting, reason::restored_from_host, reason::offload_cancelled_by_restore}) {
      EXPECT_GT(reasons[static_cast<std::size_t>(why)], 0U) << to_string(why);
    }
  }
};

/// Calls `run(seed)` for `count` seeds from `first` on, as long as it returns true; or for as many as the seconds
/// permit, from another one of them on each time, which is printed. FAULT_SCHEDULES=n makes it so many, FAULT_SEED=s
/// that one only.
template <typename Run>
void for_each_schedule(std::uint64_t first, std::uint64_t count, double everyday_seconds, Run const& run) {
  if (char const* const only = std::getenv("FAULT_SEED")) {
    static_cast<void>(run(std::strtoull(only, nullptr, 10)));
    return;
  }
  if (char const* const fewer = std::getenv("FAULT_SCHEDULES")) count = std::strtoull(fewer, nullptr, 10);
  if (count == 0) return;
  time_box const time(everyday_seconds);
  std::uint64_t const start = std::random_device()() % count;
  std::printf("from FAULT_SEED=%llu on\n", static_cast<unsigned long long>(first + start));
  for (std::uint64_t i = 0; i < count && (i == 0 || !time.is_over()); ++i) {
    if (!run(first + (start + i) % count)) return;
  }
}

}  // namespace ferry::testing
