// Random programs of a trainer, against a plain map as the model, on streams that are delayed and, in some, struck
// by failures. Whatever the timing: right bytes, no stream-order mistake, no byte over a budget and none left.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "ferry/stats.hpp"
#include "support/check_programs.hpp"
#include "support/session_program.hpp"
#include "support/session_runner.hpp"

namespace {

using ferry::reason;
using ferry::testing::any_program;
using ferry::testing::any_training;
using ferry::testing::any_training_behind_a_slow_link;
using ferry::testing::check_programs;
using ferry::testing::one_in;
using ferry::testing::program;
using ferry::testing::session_runner;

/// What all programs of a property did together, to see that none of it is missing.
struct coverage {
  std::uint64_t programs = 0;
  std::uint64_t comparisons = 0;
  std::uint64_t refused = 0;
  std::uint64_t strikes = 0;
  std::uint64_t abandoned = 0;
  std::uint64_t chunks = 0;
  std::array<std::uint64_t, ferry::reason_count> reasons{};

  void add(session_runner const& run) {
    ++programs;
    comparisons += run.world().comparisons;
    refused += run.refused();
    strikes += run.world().sky.strikes();
    auto const& stats = run.stats();
    abandoned += stats.device_to_host.abandoned + stats.host_to_device.abandoned;
    chunks += stats.device_to_host.chunks + stats.host_to_device.chunks;
    for (std::size_t i = 0; i < reasons.size(); ++i) reasons[i] += stats.reasons[i];
  }
  void print() const {
    std::printf("%llu programs, %llu comparisons, %llu refused for room, %llu strikes, %llu chunks, %llu abandoned\n",
                static_cast<unsigned long long>(programs), static_cast<unsigned long long>(comparisons),
                static_cast<unsigned long long>(refused), static_cast<unsigned long long>(strikes),
                static_cast<unsigned long long>(chunks), static_cast<unsigned long long>(abandoned));
    for (std::size_t i = 0; i < reasons.size(); ++i) {
      std::printf("%10llu  %s\n", static_cast<unsigned long long>(reasons[i]),
                  std::string(to_string(static_cast<reason>(i))).c_str());
    }
  }
  void expect(std::initializer_list<reason> wanted) const {
    for (auto const why : wanted) EXPECT_GT(reasons[static_cast<std::size_t>(why)], 0U) << to_string(why);
  }
};

/// Runs a program; what went wrong, or nothing.
std::string problems_of(program const& p, coverage& total) {
  session_runner runner(p);
  runner.run();
  total.add(runner);
  return runner.problems();
}

TEST(SessionProperty, BehavesLikeAPlainMap) {
  coverage total;
  bool const all = check_programs(1500, 10, any_program, [&](program const& p) { return problems_of(p, total); });
  total.print();
  if (!all) return;
  EXPECT_GT(total.refused, 0U);
  total.expect({reason::kept_by_policy, reason::kept_below_min_bytes, reason::kept_no_recipe, reason::kept_pinned_full,
                reason::kept_in_flight_full, reason::offloaded_by_policy, reason::deferred_in_flight_full,
                reason::dropped_by_policy, reason::dropped_pinned_full, reason::dropped_in_flight_full,
                reason::dropped_for_space, reason::evicted_for_space, reason::restored_resident,
                reason::restored_from_host, reason::offload_cancelled_by_restore, reason::recomputed_by_plan,
                reason::unused_at_end_of_step});
}

TEST(SessionProperty, LearnsTheOrderOfAnyTraining) {
  coverage total;
  bool const all = check_programs(500, 10, any_training, [&](program const& p) { return problems_of(p, total); });
  total.print();
  if (!all) return;
  total.expect({reason::offloaded_by_policy, reason::restored_from_host, reason::recomputed_by_plan,
                reason::evicted_for_space, reason::prefetch_cancelled_for_space});
}

TEST(SessionProperty, RecipesAndTransfersTakeOverFromEachOther) {
  coverage total;
  bool const all =
      check_programs(100, 8, any_training_behind_a_slow_link, [&](program const& p) { return problems_of(p, total); });
  total.print();
  if (!all) return;
  total.expect({reason::restored_from_host, reason::recomputed_by_plan, reason::recomputed_sooner_than_transfer});
}

program any_program_with_faults() {
  program p = *one_in(3) ? any_training() : any_program();
  p.faults.copies_per_mille = *rc::gen::element(10U, 50U, 200U);
  p.faults.kernels_per_mille = *rc::gen::element(0U, 0U, 10U, 40U);
  p.hold_over_steps = false;
  return p;
}

TEST(SessionProperty, LosesNothingToFaults) {
  coverage total;
  bool const all =
      check_programs(1000, 12, any_program_with_faults, [&](program const& p) { return problems_of(p, total); });
  total.print();
  if (!all) return;
  EXPECT_GT(total.strikes, 0U);
  total.expect({reason::dropped_after_failed_offload, reason::kept_after_failed_offload});
}

program any_simulated_program() {
  program p = *one_in(3) ? any_program_with_faults() : *one_in(2) ? any_training() : any_program();
  p.simulated = true;
  return p;
}

TEST(SessionProperty, OnTheSimDeviceEveryProgramRepeatsExactly) {
  coverage total;
  bool const all = check_programs(1500, 10, any_simulated_program, [&](program const& p) {
    session_runner first(p);
    session_runner second(p);
    first.run();
    second.run();
    total.add(first);
    if (auto problems = first.problems(); !problems.empty()) return problems;
    bool const same =
        to_json(first.stats()) == to_json(second.stats()) && first.world().dev->now() == second.world().dev->now();
    return std::string(same ? "" : "another outcome when run again\n");
  });
  total.print();
  if (!all) return;
  EXPECT_GT(total.refused, 0U);
  EXPECT_GT(total.strikes, 0U);
  total.expect({reason::offloaded_by_policy, reason::evicted_for_space, reason::restored_from_host,
                reason::recomputed_by_plan, reason::offload_cancelled_by_restore});
}

}  // namespace
