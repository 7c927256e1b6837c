// Plans that follow the link, the computation, the budget and the batch; on the sim device, so that planning takes no
// time and every step the same.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"
#include "ferry/simulate.hpp"
#include "support/session_fixture.hpp"
#include "support/sim_chain.hpp"

namespace ferry::testing {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Eight segments, as in examples/profiles/chain_of_eight.json.
profile chain_of_eight() {
  profile step;
  step.name = "a chain of eight";
  for (std::uint32_t s = 0; s < 8; ++s) {
    profile_segment segment;
    segment.forward_us = 4000;
    segment.backward_us = 8000;
    segment.backward_scratch_bytes = 32 * mebibyte;
    profile_item x{"x", 16 * mebibyte, 100.0, {}, 0};
    if (s > 0) {
      x.recipe_us = 1300;
      x.inputs = {{s - 1, "h"}};
    }
    segment.items = {x, {"h", 48 * mebibyte, 1500.0, {{s, "x"}}, 0}};
    step.segments.push_back(segment);
  }
  for (std::uint32_t s = 8; s-- > 0;) {
    step.need_order.push_back({s, "h"});
    step.need_order.push_back({s, "x"});
  }
  return step;
}

/// A link of 12 GB/s; in step `fault_step` something befalls it.
class Adaptation : public ::testing::Test {
 protected:
  static constexpr std::uint32_t fault_step = 6;
  static constexpr double gbps = 12;

  using fault = std::function<void(sim_device&)>;
  static fault link_of(double speed) {
    return [=](sim_device& on) {
      for (auto const direction : {copy_direction::device_to_host, copy_direction::host_to_device}) {
        on.set_link(direction, {.gbps = speed, .latency_us = 10});
      }
    };
  }
  static simulation run(std::uint32_t steps, fault const& what = {}, config settings = {}) {
    hardware on;
    on.name = "a GPU";
    on.device_bytes = std::size_t{8} << 30;
    on.host_bytes = std::size_t{16} << 30;
    on.device_to_host = on.host_to_device = {.gbps = gbps, .latency_us = 10};
    simulation_options how;
    how.settings = std::move(settings);
    how.settings.budget = byte_amount::exactly(205 * mebibyte);
    how.settings.log = log_level::off;
    how.settings.plan_effort = 300;  // by the clock, a slower machine would find other plans
    how.steps = steps;
    how.before_step = [&](std::uint32_t step, sim_device& device) {
      if (step == fault_step && what) what(device);
    };
    return simulate(chain_of_eight(), on, how);
  }
  static config blind() {
    config settings;
    settings.adapt = false;
    settings.stall_tolerance_us = 1e9;
    return settings;
  }
};

TEST_F(Adaptation, AnUnchangedLinkCausesNothing) {
  auto const done = run(16);
  EXPECT_EQ(done.stats.plans, 0U);
  EXPECT_EQ(done.stats.plan_changes, 0U);
  ASSERT_EQ(done.plans.size(), 1U);
  EXPECT_EQ(done.plans[0].from_step, 2U) << "two are measured";
  for (std::size_t i = 3; i < done.steps_us.size(); ++i) EXPECT_EQ(done.steps_us[i], done.steps_us[2]);
}

TEST_F(Adaptation, NorDoesALinkThatIsALittleSlower) {
  auto const done = run(16, link_of(0.95 * gbps));
  EXPECT_EQ(done.stats.plans, 0U);
  EXPECT_EQ(done.stats.plan_changes, 0U);
}

TEST_F(Adaptation, TheStepInWhichTheLinkDropsGoesOnWithAnotherPlan) {
  auto const done = run(fault_step + 1, link_of(gbps / 3));
  EXPECT_EQ(done.stats.plan_changes, 1U);
  EXPECT_EQ(done.stats.plans, 0U) << "a new one is not there yet";
  auto const followed_blindly = run(fault_step + 1, link_of(gbps / 3), blind());
  EXPECT_EQ(done.steps_us[fault_step - 1], followed_blindly.steps_us[fault_step - 1]);
  EXPECT_LT(1.3 * done.steps_us[fault_step], followed_blindly.steps_us[fault_step]);
  ASSERT_TRUE(done.planned);
  EXPECT_GT(done.planned->step_us, done.plans[0].what.step_us);
}

TEST_F(Adaptation, ANewPlanIsTakenOverInTheThirdStep) {
  auto const slow = link_of(gbps / 8);  // for which the plans at hand were not made
  EXPECT_EQ(run(fault_step + 2, slow).stats.plans, 0U);
  EXPECT_EQ(run(fault_step + 3, slow).stats.plans, 1U);
  auto const later = run(fault_step + 12, slow);
  EXPECT_LE(later.stats.plans, 2U) << "if it does worse, the one before comes back, and that is all";
  EXPECT_LE(later.step_us, 1.01 * later.steps_us[fault_step + 1]);
}

TEST_F(Adaptation, AFasterLinkIsPlannedForToo) {
  auto const done = run(fault_step + 3, link_of(3 * gbps));
  EXPECT_EQ(done.stats.plans, 1U);
  EXPECT_LT(done.step_us, done.steps_us[fault_step - 1]);
}

TEST_F(Adaptation, StepsAreAsTheNewPlanForeseesThem) {
  auto const done = run(fault_step + 6, link_of(gbps / 3));
  auto const& last = done.plans.back();
  ASSERT_LT(last.from_step + 1, done.steps_us.size());
  EXPECT_NEAR(done.steps_us[last.from_step + 1] / last.what.step_us, 1, 0.01);
  EXPECT_LE(done.stats.device.peak_bytes, 205 * mebibyte);
}

TEST_F(Adaptation, ALinkThatComesBackIsFollowedToo) {
  auto const usual = run(fault_step).step_us;
  config settings;
  // The link changes at step 6, and is itself again from step 12 on.
  settings.link_schedule = {{0, gbps, gbps}, {6, gbps / 3, gbps / 3}, {12, gbps, gbps}};
  auto const done = run(18, {}, settings);
  EXPECT_GT(done.steps_us[8], 1.03 * usual);
  EXPECT_LE(done.stats.plans, 3U) << "if one of them comes back";
  EXPECT_NEAR(done.steps_us[17], usual, 1);
}

TEST_F(Adaptation, OffMeansOff) {
  config settings;
  settings.adapt = false;
  for (double const speed : {gbps / 3, gbps, 3 * gbps}) {
    auto const done = run(16, link_of(speed), settings);
    EXPECT_EQ(done.stats.plans, 0U);
    EXPECT_EQ(done.stats.plan_changes, 0U);
    EXPECT_EQ(done.plans.size(), 1U);
  }
  auto const by_rule = run(fault_step + 1, link_of(gbps / 3), settings);
  EXPECT_GT(by_rule.stats.count(reason::dropped_instead_of_waiting), 0U) << "the rule applies all the same";
  EXPECT_LT(by_rule.step_us, run(fault_step + 1, link_of(gbps / 3), blind()).step_us);
}

TEST_F(Adaptation, APlanThatWasGivenIsNeverChanged) {
  auto const own = run(fault_step);
  ASSERT_TRUE(own.planned);
  hardware on;
  on.name = "a GPU";
  on.device_bytes = std::size_t{8} << 30;
  on.host_bytes = std::size_t{16} << 30;
  on.device_to_host = on.host_to_device = {.gbps = gbps / 3, .latency_us = 10};
  simulation_options how;
  how.settings.budget = byte_amount::exactly(205 * mebibyte);
  how.settings.log = log_level::off;
  how.planned = own.planned;
  how.steps = 8;
  auto const done = simulate(chain_of_eight(), on, how);
  EXPECT_EQ(done.stats.plans, 0U);
  EXPECT_EQ(done.stats.plan_changes, 0U);
  EXPECT_EQ(done.planned, own.planned);
}

TEST_F(Adaptation, AComputationThatHasChangedIsPlannedForAnew) {
  auto const done = run(fault_step + 6, [](sim_device& on) {
    on.slow_down({.what = sim_engine::compute, .factor = 2, .from = on.now()});
  });
  EXPECT_GE(done.stats.plans, 1U);
  ASSERT_TRUE(done.planned);
  EXPECT_NEAR(done.planned->unlimited_us, 192'000, 1) << "made from the times of now";
}

TEST_F(Adaptation, TheSameRunGivesTheSameSteps) {
  auto const first = run(fault_step + 6, link_of(gbps / 3));
  auto const second = run(fault_step + 6, link_of(gbps / 3));
  EXPECT_EQ(first.steps_us, second.steps_us);
  EXPECT_EQ(to_json(first.stats), to_json(second.stats));
}

/// Policy `auto` in a trainer of its own.
class AutoSession : public SimChain {
 protected:
  void start(std::size_t budget_items, bool adapt = true) {
    config settings;
    settings.adapt = adapt;
    settings.plan_effort = 300;  // by the clock, a slower machine would find other plans
    SimChain::start(131'072ns, budget_items, settings);
  }
  /// How many steps it takes until a plan for this budget is followed; nothing if there is none after ten.
  std::optional<int> steps_until_planned_for(std::size_t budget_bytes, std::size_t bytes = item_bytes) {
    for (int i = 1; i <= 10; ++i) {
      step(true, bytes);
      auto const* const followed = session_->followed();
      if (followed != nullptr && followed->budget_bytes == budget_bytes && followed->items[0].bytes == bytes) return i;
    }
    return std::nullopt;
  }
};

TEST_F(AutoSession, PlansAfterTwoSteps) {
  start(5);
  EXPECT_EQ(session_->followed(), nullptr);
  EXPECT_EQ(steps_until_planned_for(5 * item_bytes), 3);
}

TEST_F(AutoSession, ASmallerBudgetIsPlannedForAnew) {
  for (bool const adapt : {true, false}) {
    start(6, adapt);
    ASSERT_TRUE(steps_until_planned_for(6 * item_bytes));
    for (int i = 0; i < 3; ++i) step();
    session_->set_budget(byte_amount::exactly(4 * item_bytes));
    EXPECT_EQ(session_->followed(), nullptr) << "what was planned with more may not fit";
    EXPECT_EQ(session_->stats().device.limit_bytes, 4 * item_bytes);
    EXPECT_EQ(steps_until_planned_for(4 * item_bytes), 2);
    for (int i = 0; i < 3; ++i) step();
    auto const* const followed = session_->followed();  // unless a policy by hand has taken its place
    if (followed != nullptr) {
      EXPECT_EQ(followed->budget_bytes, 4 * item_bytes);
    }
    TearDown();
  }
}

TEST_F(AutoSession, ALargerBudgetToo) {
  start(4);
  ASSERT_TRUE(steps_until_planned_for(4 * item_bytes));
  double const tight_us = session_->followed()->step_us;
  for (int i = 0; i < 3; ++i) step();
  session_->set_budget(byte_amount::exactly(20 * item_bytes));
  ASSERT_NE(session_->followed(), nullptr) << "until then the old one does";
  EXPECT_EQ(session_->followed()->budget_bytes, 4 * item_bytes);
  EXPECT_EQ(steps_until_planned_for(20 * item_bytes), 2);
  EXPECT_LE(session_->followed()->step_us, tight_us);
  EXPECT_EQ(session_->followed()->step_us, session_->followed()->unlimited_us) << "everything fits";
}

TEST_F(AutoSession, BudgetsThatChangeWhilePlansAreMadeEndWithTheLast) {
  start(6);
  ASSERT_TRUE(steps_until_planned_for(6 * item_bytes));
  for (std::size_t const budget : {5, 8, 7}) {
    session_->set_budget(byte_amount::exactly(budget * item_bytes));
    step();
  }
  EXPECT_TRUE(steps_until_planned_for(7 * item_bytes));
}

TEST_F(AutoSession, AnotherBatchIsMeasuredAndPlannedForAnew) {
  for (bool const adapt : {true, false}) {
    start(6, adapt);
    ASSERT_TRUE(steps_until_planned_for(6 * item_bytes));
    for (int i = 0; i < 2; ++i) step();
    // Half the batch: one step shows it, one is measured.
    EXPECT_EQ(steps_until_planned_for(6 * item_bytes, item_bytes / 2), 3) << adapt;
    for (int i = 0; i < 2; ++i) step(true, item_bytes / 2);
    EXPECT_EQ(steps_until_planned_for(6 * item_bytes, item_bytes), 1) << "and back: that is known";
    EXPECT_EQ(steps_until_planned_for(6 * item_bytes, item_bytes / 2), 1);
    EXPECT_LE(session_->stats().device.peak_bytes, 6 * item_bytes);
    TearDown();
  }
}

TEST_F(AutoSession, BatchesThatKeepChangingStillTrain) {
  start(6);
  for (int i = 0; i < 13; ++i) step(true, i % 5 < 3 ? item_bytes : item_bytes / 2);
  EXPECT_EQ(session_->stats().restores, 13U * segments);
  EXPECT_LE(session_->stats().device.peak_bytes, 6 * item_bytes);
}

TEST_F(AutoSession, ALastBatchThatIsSmallerHasAPlanOfItsOwn) {
  start(6);
  for (int i = 0; i < 12; ++i) step(true, i % 4 == 3 ? item_bytes / 2 : item_bytes);
  for (int i = 12; i < 20; ++i) {
    std::size_t const bytes = i % 4 == 3 ? item_bytes / 2 : item_bytes;
    step(true, bytes);
    ASSERT_NE(session_->followed(), nullptr) << i;
    EXPECT_EQ(session_->followed()->items[0].bytes, bytes) << i;
  }
  EXPECT_EQ(session_->stats().plans, 0U) << "nothing had to be planned anew";
}

TEST_F(AutoSession, EvaluationsBetweenStepsChangeNothing) {
  auto const evaluate = [&](step_kind kind) {
    session_->begin_step(kind);
    for (std::uint32_t s = 0; s < segments; ++s) {
      auto memory = session_->allocate(item_bytes / 2, *compute_);  // another batch, even
      device_->launch(*compute_, "forward", {}, [] {});
      session_->save(key(s), std::move(memory), *compute_, rebuilding(s));
    }
    compute_->synchronize();
    session_->end_step();
  };
  auto const times = [&](bool evaluating, step_kind kind) {
    start(5);
    std::vector<std::chrono::nanoseconds> took;
    for (int i = 0; i < 8; ++i) {
      if (evaluating) evaluate(kind);
      if (evaluating && i == 4) evaluate(kind);
      auto const before = device_->now();
      step();
      took.push_back(device_->now() - before);
    }
    EXPECT_NE(session_->followed(), nullptr);
    EXPECT_EQ(session_->stats().evaluations, evaluating ? 9U : 0U);
    EXPECT_EQ(session_->stats().plans, 0U);
    TearDown();
    return took;
  };
  auto const alone = times(false, step_kind::train);
  EXPECT_EQ(times(true, step_kind::evaluate), alone);
  // One that nobody announced is found out only at its end: what it sends out meanwhile may be in the way.
  auto const unannounced = times(true, step_kind::train);
  EXPECT_EQ(std::vector(unannounced.begin() + 4, unannounced.end()), std::vector(alone.begin() + 4, alone.end()));
}

/// A function of the trainer's decides in spite of a plan.
class PlacedByFunction : public AutoSession {
 protected:
  static constexpr std::size_t budget_items = 5;

  void SetUp() override {
    start(budget_items);
    ASSERT_TRUE(steps_until_planned_for(budget_items * item_bytes));
    for (int i = 0; i < 3; ++i) step();
  }
  /// Of one step, counted over all its items.
  std::uint64_t counted(reason why) {
    auto const before = session_->stats().count(why);
    step();
    return session_->stats().count(why) - before;
  }
  void send_everything_out() {
    session_->set_placement([](item_info const&) { return placement::offload; });
  }
};

TEST_F(PlacedByFunction, UnderAutoItDecidesAboutEveryItem) {
  EXPECT_LT(counted(reason::offloaded_by_policy), segments) << "the plan rebuilds some";
  send_everything_out();
  EXPECT_EQ(session_->followed(), nullptr);
  EXPECT_EQ(counted(reason::offloaded_by_policy), segments);
  EXPECT_EQ(counted(reason::offloaded_by_policy), segments);
}

TEST_F(PlacedByFunction, AnEmptyOneGoesBackToThePlan) {
  plan const made = *session_->followed();
  auto const by_plan = counted(reason::offloaded_by_policy);
  send_everything_out();
  for (int i = 0; i < 4; ++i) step();
  session_->set_placement({});
  ASSERT_NE(session_->followed(), nullptr);
  EXPECT_EQ(*session_->followed(), made);
  EXPECT_EQ(counted(reason::offloaded_by_policy), by_plan);
}

TEST_F(PlacedByFunction, InTheMidstOfAStepItDecidesFromThenOn) {
  auto const before = session_->stats().count(reason::offloaded_by_policy);
  std::uint64_t from_plan = 0;
  session_->begin_step();
  for (std::uint32_t s = 0; s < segments; ++s) {
    if (s == segments / 2) {
      from_plan = session_->stats().count(reason::offloaded_by_policy) - before;
      send_everything_out();
    }
    auto memory = session_->allocate(item_bytes, *compute_);
    device_->launch(*compute_, "forward", {}, [] {});
    session_->save(key(s), std::move(memory), *compute_, rebuilding(s));
  }
  EXPECT_EQ(session_->stats().count(reason::offloaded_by_policy) - before, from_plan + segments / 2);
  session_->set_placement({});
  EXPECT_EQ(session_->followed(), nullptr) << "the step has left its plan";
  for (std::uint32_t s = segments; s-- > 0;) {
    session_->restore(key(s), *compute_).end();
    session_->release(key(s));
  }
  compute_->synchronize();
  session_->end_step();
  step();
  EXPECT_NE(session_->followed(), nullptr);
}

TEST_F(PlacedByFunction, ItDecidesAboutStepsThatAPlanWasGivenForToo) {
  plan const given = *session_->followed();
  TearDown();
  start(budget_items);
  send_everything_out();
  session_->follow(given);
  EXPECT_EQ(counted(reason::offloaded_by_policy), segments);
  EXPECT_EQ(session_->followed(), nullptr);
  // What the plan does not know is none of its business meanwhile.
  EXPECT_NO_THROW(step(true, item_bytes / 2));
  session_->set_placement({});
  ASSERT_NE(session_->followed(), nullptr);
  EXPECT_LT(counted(reason::offloaded_by_policy), segments);
}

TEST_F(PlacedByFunction, AndWhereThePlanIsAFile) {
  auto const file = ::testing::TempDir() + "placed_by_function.json";
  std::ofstream(file) << to_json(*session_->followed());
  TearDown();
  config settings;
  settings.policy.kind = policy_kind::plan;
  settings.policy.file = file;
  SimChain::start(131'072ns, budget_items, settings);
  send_everything_out();
  EXPECT_EQ(counted(reason::offloaded_by_policy), segments);
  session_->set_placement({});
  EXPECT_LT(counted(reason::offloaded_by_policy), segments);
}

TEST_F(PlacedByFunction, ABudgetThatShrinksMeanwhileIsPlannedForAfterwards) {
  send_everything_out();
  step();
  session_->set_budget(byte_amount::exactly(4 * item_bytes));
  step();
  session_->set_placement({});
  EXPECT_TRUE(steps_until_planned_for(4 * item_bytes));
  EXPECT_LE(session_->stats().device.limit_bytes, 4 * item_bytes);
}

/// In real time, where plans are made while steps go on.
class HostAutoSession : public SessionTest {
 protected:
  void step(std::size_t bytes) {
    constexpr std::uint32_t segments = 8;
    session_->begin_step();
    for (std::uint32_t s = 0; s < segments; ++s) {
      auto memory = session_->allocate(bytes, *stream_);
      fill(memory.data(), std::byte(s), bytes);
      session_->save({0, s, "h"}, std::move(memory), *stream_, adding(std::byte(s), {}));
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      expect(session_->restore({0, s, "h"}, *stream_).data(), std::byte(s), bytes);
      session_->release({0, s, "h"});
    }
    stream_->synchronize();
    session_->end_step();
  }
  [[nodiscard]] bool step_until_planned(std::size_t bytes) {
    for (int i = 0; i < 1000; ++i) {
      step(bytes);
      auto const* const followed = session_->followed();
      if (followed != nullptr && followed->items[0].bytes == bytes) return true;
      std::this_thread::sleep_for(5ms);  // others may be busy planning
    }
    return false;
  }
};

TEST_F(HostAutoSession, ABudgetAndABatchThatChangeWhilePlansAreMadeArePlannedFor) {
  start(policy_kind::automatic, 6);
  ASSERT_TRUE(step_until_planned(item_bytes));
  // By now the plans for other links are being made.
  session_->set_budget(byte_amount::exactly(8 * item_bytes));
  step(item_bytes / 2);
  EXPECT_TRUE(step_until_planned(item_bytes / 2));
  EXPECT_TRUE(step_until_planned(item_bytes)) << "and back";
}

}  // namespace
}  // namespace ferry::testing
