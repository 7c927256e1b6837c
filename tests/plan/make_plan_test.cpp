// Plans of items: what make_plan promises, and that the real session on the sim device does what it predicts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ferry/error.hpp"
#include "ferry/model_profile.hpp"
#include "ferry/simulate.hpp"
#include "plan/chain_solver.hpp"
#include "plan/step_chain.hpp"
#include "support/case_step.hpp"
#include "support/planner_cases.hpp"

namespace ferry {
namespace {

using testing::bytes_of;

plan_options exactly(std::size_t budget) {
  plan_options how;
  how.budget_bytes = budget;
  how.insured = false;
  how.link_derating = 1;
  how.time_limit_ms = 200;
  return how;
}

profile small_gpt(hardware const& on) {
  return gpt_profile({.layers = 12, .width = 2048, .heads = 16, .context = 1024, .batch = 4}, on);
}

simulation run(profile const& step, hardware const& on, plan const& planned) {
  simulation_options how;
  how.settings.budget = byte_amount::exactly(planned.budget_bytes);
  how.settings.host_budget = byte_amount::exactly(on.host_bytes);
  how.settings.chunk_bytes = std::size_t{64} << 20;
  how.settings.min_bytes = 0;
  how.settings.stall_tolerance_us = 1e9;  // it does as planned, and no better
  how.planned = planned;
  how.steps = 2;
  return simulate(step, on, how);
}

TEST(MakePlan, TheSessionDoesWhatThePlannerPredictsOnEveryStoredCase) {
  for (auto const& name : testing::planner_case_names()) {
    SCOPED_TRACE(name);
    auto const c = testing::load_planner_case(name).problem;
    auto const on = testing::hardware_of(c);
    auto const step = testing::step_of(c);
    auto const how = exactly(testing::budget_of(c));
    auto const planned = make_plan(step, on, how);
    auto const did = run(step, on, planned);
    EXPECT_NEAR(did.step_us, planned.step_us, 0.01 * planned.step_us);
    EXPECT_LE(did.stats.device.peak_bytes, how.budget_bytes);
    EXPECT_LE(did.stats.pinned.peak_bytes, on.host_bytes);
  }
}

TEST(MakePlan, TheSessionDoesWhatThePlannerPredictsWhereCopiesCostTheComputation) {
  auto on = named_hardware("a100-80");
  on.beside = {.out_beside_back = 0.9,
               .back_beside_out = 0.6,
               .compute_beside_out = 0.9,
               .compute_beside_back = 0.8,
               .compute_beside_both = 0.75};
  auto const step = small_gpt(on);
  for (double const share : {0.2, 0.35, 0.6}) {
    SCOPED_TRACE(share);
    auto how = exactly(bytes_of(step, share));
    how.effort = 4000;
    auto const planned = make_plan(step, on, how);
    auto const did = run(step, on, planned);
    EXPECT_NEAR(did.step_us, planned.step_us, 0.01 * planned.step_us);
    EXPECT_GT(planned.slowed_us, 0);
    EXPECT_NEAR(planned.step_us, planned.unlimited_us + planned.waiting_us + planned.recompute_us + planned.slowed_us,
                1e-6 * planned.step_us);
    // A plan for the same step that does not know it takes longer there.
    auto undisturbed = on;
    undisturbed.beside = {};
    EXPECT_LE(did.step_us, run(step, on, make_plan(step, undisturbed, how)).step_us * 1.002);
  }
}

TEST(MakePlan, AStepsOwnContentionCountsWhereTheHardwareSaysNothing) {
  auto on = named_hardware("rtx4090");
  auto step = small_gpt(on);
  step.beside.compute_beside_out = step.beside.compute_beside_back = 0.7;
  auto how = exactly(bytes_of(step, 0.2));
  how.effort = 500;
  auto const by_step = make_plan(step, on, how);
  auto other = on;
  other.beside = step.beside;
  auto same = step;
  same.beside = {};
  EXPECT_EQ(by_step, make_plan(same, other, how));
  EXPECT_NE(by_step, make_plan(same, on, how));
}

TEST(MakePlan, TheSessionDoesWhatThePlannerPredictsForGpts) {
  for (char const* const gpu : {"a100-80", "rtx4090"}) {
    auto const on = named_hardware(gpu);
    auto const step = small_gpt(on);
    for (double const share : {0.2, 0.35, 0.6}) {
      SCOPED_TRACE(::testing::Message() << gpu << " " << share);
      auto how = exactly(bytes_of(step, share));
      how.effort = 4000;  // by the clock, a slower machine would find other plans
      auto const planned = make_plan(step, on, how);
      auto const did = run(step, on, planned);
      EXPECT_NEAR(did.step_us, planned.step_us, 0.01 * planned.step_us);
      EXPECT_LE(did.stats.device.peak_bytes, planned.budget_bytes);
    }
  }
}

TEST(MakePlan, WithAnEffortTheClockChangesNothing) {
  auto const on = named_hardware("rtx4090");
  auto const step = small_gpt(on);
  auto how = exactly(bytes_of(step) / 4);
  how.effort = 200;
  how.time_limit_ms = 1e-3;
  auto const hurried = make_plan(step, on, how);
  how.time_limit_ms = 1e6;
  EXPECT_EQ(make_plan(step, on, how), hurried);
  how.effort = 4000;
  EXPECT_LE(make_plan(step, on, how).step_us, hurried.step_us * (1 + 1e-9)) << "more effort, no worse a plan";
}

TEST(MakePlan, StaysInsideTheBudgetWhateverTheTiming) {
  auto const on = named_hardware("a100-80");
  auto const step = small_gpt(on);
  auto const planned = make_plan(step, on, exactly(bytes_of(step) / 4));
  for (double const factor : {0.3, 3.0, 20.0}) {
    for (auto const where : {sim_engine::compute, sim_engine::device_to_host, sim_engine::host_to_device}) {
      simulation_options how;
      how.settings.budget = byte_amount::exactly(planned.budget_bytes);
      how.settings.host_budget = byte_amount::exactly(on.host_bytes);
      how.planned = planned;
      how.steps = 2;
      how.slow_downs = {{.what = where, .factor = factor, .from = std::chrono::nanoseconds(0)}};
      auto const did = simulate(step, on, how);
      EXPECT_LE(did.stats.device.peak_bytes, planned.budget_bytes);
      EXPECT_GT(did.step_us, 0);
    }
  }
}

TEST(MakePlan, ItemsInsideSegmentsAreNeverWorseAndBeatWholeSegmentsOnGpts) {
  auto const on = named_hardware("a100-80");
  auto const step = small_gpt(on);
  for (double const share : {0.2, 0.3, 0.5}) {
    auto const how = exactly(bytes_of(step, share));
    planning::chain_solver whole(planning::make_step_chain(step, on, how, false).problem);
    auto const by_segments = whole.solve({});
    auto const planned = make_plan(step, on, how);
    ASSERT_TRUE(by_segments.feasible);
    EXPECT_LT(planned.step_us, by_segments.seconds * 1e6);
  }
}

TEST(MakePlan, InsuredPlansFerryOnlyWhatCouldBeRebuilt) {
  auto const on = named_hardware("rtx4090");
  auto const step = small_gpt(on);
  auto how = exactly(bytes_of(step) / 4);
  how.insured = true;
  auto const planned = make_plan(step, on, how);
  ASSERT_TRUE(planned.insured);
  EXPECT_GT(planned.offloaded_bytes, 0U);
  for (auto const& one : planned.items) {
    // Inputs of segments are what everything else is rebuilt from.
    EXPECT_FALSE(one.where == placement::offload && one.item.name == "x") << one.item.segment;
  }
}

TEST(MakePlan, SaysWhatIsNeededWhenNothingFits) {
  auto const on = named_hardware("a100-80");
  auto const step = small_gpt(on);
  try {
    (void)make_plan(step, on, exactly(1 << 20));
    FAIL() << "a plan for a megabyte";
  } catch (infeasible_budget const& refused) {
    EXPECT_NE(std::string(refused.what()).find("because of segment"), std::string::npos) << refused.what();
    EXPECT_NO_THROW((void)make_plan(step, on, exactly(refused.needed_bytes())));
    EXPECT_THROW((void)make_plan(step, on, exactly(refused.needed_bytes() / 2)), infeasible_budget);
  }
}

TEST(MakePlan, EveryItemHasAPlaceAndAReason) {
  auto const on = named_hardware("rtx4090");
  auto const step = small_gpt(on);
  auto const planned = make_plan(step, on, exactly(bytes_of(step) / 4));
  std::size_t items = 0;
  for (auto const& segment : step.segments) items += segment.items.size();
  EXPECT_EQ(planned.items.size(), items);
  for (auto const& one : planned.items) EXPECT_FALSE(one.reason.empty());
  EXPECT_NO_THROW(require_match(planned, step));
  EXPECT_LE(planned.lower_bound_us, planned.step_us * (1 + 1e-9));
  EXPECT_GE(planned.step_us, planned.unlimited_us * (1 - 1e-9));
  EXPECT_LE(planned.device.peak, planned.budget_bytes);
  EXPECT_NO_THROW((void)to_json(planned));
}

TEST(MakePlan, PositionsCountComputeAndWaitsNameEarlierTransfers) {
  auto const on = named_hardware("a100-80");
  auto const step = small_gpt(on);
  auto const planned = make_plan(step, on, exactly(bytes_of(step) / 4));
  using kind = plan_operation::kind;
  std::uint32_t computed = 0;
  std::set<std::pair<std::uint32_t, std::string>> gone_out;
  for (std::size_t k = 0; k < planned.operations.size(); ++k) {
    auto const& op = planned.operations[k];
    EXPECT_EQ(op.position, computed);
    for (auto const wait : op.after) {
      ASSERT_LT(wait, k);
      auto const what = planned.operations[wait].what;
      EXPECT_TRUE(what == kind::offload || what == kind::fetch);
    }
    if (op.what == kind::offload) gone_out.emplace(op.segment, op.item);
    EXPECT_TRUE(op.what != kind::fetch || gone_out.contains({op.segment, op.item}));
    EXPECT_GE(op.latest_start_us, op.start_us * (1 - 1e-12));
    if (op.what == kind::forward || op.what == kind::backward || op.what == kind::rebuild) ++computed;
  }
}

TEST(MakePlan, PolicyAutoPlansAfterTwoStepsAndIsFasterThanItsWarmUp) {
  auto const on = named_hardware("a100-80");
  auto const step = small_gpt(on);
  simulation_options how;
  how.settings.budget = byte_amount::exactly(bytes_of(step) / 4);
  how.settings.host_budget = byte_amount::exactly(std::size_t{1} << 38);
  how.settings.policy = {policy_kind::automatic};
  how.steps = 4;
  auto const did = simulate(step, on, how);
  ASSERT_TRUE(did.planned.has_value());
  EXPECT_LT(did.steps_us[3], 0.95 * did.steps_us[1]);
  // What the session measured of a profiled step is that profile again.
  EXPECT_NEAR(did.planned->unlimited_us, make_plan(step, on, exactly(2 * bytes_of(step))).unlimited_us,
              0.01 * did.planned->unlimited_us);
  EXPECT_NEAR(did.step_us, did.planned->step_us, 0.05 * did.planned->step_us);
}

}  // namespace
}  // namespace ferry
