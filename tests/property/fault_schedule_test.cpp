// Whatever happens to the links, the kernels, the budget and the batch, training gives the bits of a run that keeps
// everything: many random schedules of such faults, half of them on the sim device, where time is virtual, and half on
// the host device with the stream-order checker on.
//
// FAULT_SCHEDULES=n runs n schedules of each test, and FAULT_SEED=s one schedule only.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "support/chain_run.hpp"
#include "support/fault_coverage.hpp"
#include "support/fault_schedule.hpp"

namespace {

using namespace ferry;
using namespace ferry::testing;

/// Where something else than the session decides what stays, it may be too much; and on the host device, whose
/// addresses are real, what is leased may stand in the midst of the free bytes. Then there is more the next time.
void run_schedule(fault_schedule const& s, fault_coverage& total) {
  chain_run chain(s);
  auto const expected = chain.expected();
  for (double more = 1;; more *= 1.3) {
    try {
      total.add(chain.run(expected, more * chain.enough(), 1.3 * chain.everything()));
      return;
    } catch (out_of_device_memory const& e) {
      ++total.refused;
      bool const in_pieces = !s.simulated && std::string_view(e.what()).find("largest gap") != std::string_view::npos;
      if (!(s.may_run_out() || in_pieces) || more > 10) {
        ADD_FAILURE() << e.what();
        return;
      }
    } catch (std::exception const& e) {
      ADD_FAILURE() << e.what();
      return;
    }
  }
}

constexpr std::uint64_t first_group = 1;
constexpr std::uint64_t groups = 8;
constexpr std::uint64_t schedules_each = 60;

class FaultSchedule : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FaultSchedule, OnTheSimDeviceChangesNoBit) {
  fault_coverage total;
  for_each_schedule(1000 * GetParam(), schedules_each, 5, [&](std::uint64_t seed) {
    auto const s = draw_fault_schedule(seed, true);
    SCOPED_TRACE(::testing::Message() << s);
    run_schedule(s, total);
    return !HasFailure();
  });
  total.print();
}

INSTANTIATE_TEST_SUITE_P(, FaultSchedule, ::testing::Range(first_group, first_group + groups),
                         [](auto const& of) { return std::to_string(of.param); });

/// Without those that plan, which take longest, but for one group's: so this test knows of nearly all groups.
TEST(FaultScheduleCoverage, TogetherTheyDoWhateverTheRuntimeCanDo) {
  constexpr std::uint64_t group_that_plans = 3;
  fault_coverage total;
  for (std::uint64_t group = first_group; group < first_group + groups; ++group) {
    for (std::uint64_t seed = 1000 * group; seed < 1000 * group + schedules_each; ++seed) {
      auto const s = draw_fault_schedule(seed, true);
      bool const plans = s.by == decider::automatic || s.by == decider::given_plan;
      if (plans && group != group_that_plans) continue;
      SCOPED_TRACE(::testing::Message() << s);
      run_schedule(s, total);
    }
  }
  total.print();
  total.expect_all();
}

class FaultScheduleChecked : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FaultScheduleChecked, OnTheHostDeviceChangesNoBit) {
  fault_coverage total;
  for_each_schedule(1000 * GetParam(), 40, 4, [&](std::uint64_t seed) {
    auto const s = draw_fault_schedule(seed, false);
    SCOPED_TRACE(::testing::Message() << s);
    run_schedule(s, total);
    return !HasFailure();
  });
  total.print();
}

INSTANTIATE_TEST_SUITE_P(, FaultScheduleChecked, ::testing::Range<std::uint64_t>(11, 24),
                         [](auto const& of) { return std::to_string(of.param); });

}  // namespace
