// Budgets of just what one segment needs: prefetches, recipes ahead of time and second thoughts have to do with what is
// left over, and may neither starve the step nor make it run out of memory. On the sim device, where a standstill of
// everything is an error that names who waits for whom.
//
// FAULT_SCHEDULES=n runs n schedules of each test, and FAULT_SEED=s one schedule only.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "ferry/error.hpp"
#include "support/chain_run.hpp"
#include "support/fault_coverage.hpp"
#include "support/fault_schedule.hpp"

namespace {

using namespace ferry;
using namespace ferry::testing;

/// Everything that the runtime does of its own accord is on, and what goes out finds pinned memory.
fault_schedule tight_schedule(std::uint64_t seed) {
  auto s = draw_fault_schedule(seed, true);
  dice d(seed + 2);
  s.by = d.one_in(2) ? decider::automatic : decider::offload;
  s.settings.policy = {s.by == decider::automatic ? policy_kind::automatic : policy_kind::offload};
  s.settings.adapt = true;
  s.settings.max_in_flight = byte_amount::share(1);
  s.settings.stall_tolerance_us = d.of({0.0, 0.0, 50.0});
  s.scarce_pinned = false;
  s.interleaved = false;
  return s;
}

class TightBudget : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(TightBudget, OfOneSegmentIsEnough) {
  fault_coverage total;
  for_each_schedule(1000 * GetParam(), 100, 5, [&](std::uint64_t seed) {
    auto const s = tight_schedule(seed);
    SCOPED_TRACE(::testing::Message() << s);
    chain_run chain(s);
    auto const least = static_cast<double>(chain.need().one_segment);
    double const more = dice(seed + 3).of({1.0, 1.0, 1.02, 1.1});
    try {
      total.add(chain.run(chain.expected(), more * least, 1.1 * least));
    } catch (std::exception const& e) {
      ADD_FAILURE() << "with " << more << " of " << least << " bytes: " << e.what();
    }
    return true;
  });
  total.print();
}

TEST_P(TightBudget, OfLessThanIsHeldIsNotEnough) {
  for_each_schedule(1000 * GetParam(), 100, 5, [&](std::uint64_t seed) {
    auto s = tight_schedule(seed);
    std::erase_if(s.faults, [](fault const& f) { return f.what == fault::kind::budget; });
    s.budget = 0;
    SCOPED_TRACE(::testing::Message() << s);
    chain_run chain(s);
    auto const less = static_cast<double>(chain.need().must_hold - 256);
    EXPECT_THROW(chain.run(chain.expected(), less, less), out_of_device_memory);
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(, TightBudget, ::testing::Range<std::uint64_t>(31, 34),
                         [](auto const& of) { return std::to_string(of.param); });

}  // namespace
