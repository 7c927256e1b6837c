// The step clock on the sim device, where it is exact: what a segment takes of its own, and how long the device is busy
// yet.
#include "decide/step_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "ferry/sim_device.hpp"

namespace ferry::decide {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

class StepClock : public ::testing::Test {
 protected:
  static constexpr std::uint32_t segments = 3;

  StepClock() {
    sim_device_options options;
    options.kernel_cost = [this](label const&, auto) { return cost_; };
    device_ = make_sim_device(std::move(options));
    compute_.emplace(*device_, stream_kind::compute, "compute");
    events_.emplace(*device_);
    clock_.emplace(*device_);
  }
  ~StepClock() override {
    clock_.reset();
    compute_.reset();
  }

  void launch(nanoseconds cost) {
    cost_ = cost;
    device_->launch(*compute_, "kernel", {}, [] {});
  }
  void enter(pass which, std::uint32_t segment) { clock_->entered(which, {0, segment, "h"}, *compute_, *events_); }
  /// Two calls a segment, with half of its work behind each.
  void work(nanoseconds cost) {
    for (int half = 0; half < 2; ++half) {
      clock_->called();
      launch(cost / 2);
    }
  }
  static nanoseconds forward_of(std::uint32_t segment) { return 100us * (segment + 1); }
  static nanoseconds backward_of(std::uint32_t segment) { return 2 * forward_of(segment); }

  /// A whole step, seen to its end.
  void step() {
    clock_->begin_step();
    static_cast<void>(clock_->learn());
    for (std::uint32_t s = 0; s < segments; ++s) {
      enter(pass::forward, s);
      work(forward_of(s));
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      enter(pass::backward, s);
      work(backward_of(s));
    }
    clock_->end_step(*events_);
    compute_->synchronize();
  }
  /// After which the clock knows what a step looks like.
  void learn_a_step() {
    step();
    clock_->begin_step();
    ASSERT_TRUE(clock_->learn());
  }
  void let_pass(nanoseconds span) {
    auto const until = device_->now() + span;
    while (device_->now() < until) device_->pass_time(until - device_->now());
  }

  nanoseconds cost_{0};
  std::unique_ptr<sim_device> device_;
  std::optional<stream> compute_;
  std::optional<store::event_pool> events_;
  std::optional<step_clock> clock_;
};

TEST_F(StepClock, LearnsWhatEachSegmentTakes) {
  EXPECT_EQ(clock_->own_us(pass::forward, 0), std::nullopt);
  learn_a_step();
  for (std::uint32_t s = 0; s < segments; ++s) {
    EXPECT_EQ(clock_->own_us(pass::forward, s), 100.0 * (s + 1));
    EXPECT_EQ(clock_->own_us(pass::backward, s), 200.0 * (s + 1));
  }
  EXPECT_EQ(clock_->own_us(pass::forward, segments), std::nullopt);
  EXPECT_EQ(clock_->step_us(), 600 + 1200);
  EXPECT_FALSE(clock_->learn()) << "once is enough";
}

TEST_F(StepClock, LearnsNothingFromAStepThatIsNotOver) {
  clock_->begin_step();
  enter(pass::forward, 0);
  work(100us);
  clock_->end_step(*events_);
  EXPECT_FALSE(clock_->over());
  clock_->begin_step();
  EXPECT_FALSE(clock_->learn());
  compute_->synchronize();
  EXPECT_TRUE(clock_->learn()) << "but once it is";
  EXPECT_EQ(clock_->own_us(pass::forward, 0), 100);
}

TEST_F(StepClock, NorFromOneThatWasCutShort) {
  clock_->begin_step();
  enter(pass::forward, 0);
  work(100us);
  compute_->synchronize();
  clock_->begin_step();  // without an end
  EXPECT_FALSE(clock_->learn());
  EXPECT_EQ(clock_->own_us(pass::forward, 0), std::nullopt);
}

TEST_F(StepClock, RecipesAndStandingStillAreNotTheSegmentsOwn) {
  clock_->begin_step();
  enter(pass::backward, 1);
  auto const first = clock_->here();
  work(350us);
  enter(pass::backward, 0);
  auto const second = clock_->here();
  work(200us);
  clock_->end_step(*events_);
  compute_->synchronize();
  clock_->begin_step();
  // Known only after the next step has begun.
  clock_->recipe_took(first, 30);
  clock_->stood_still(first, 120);
  clock_->stood_still(second, 1000);
  ASSERT_TRUE(clock_->learn());
  EXPECT_EQ(clock_->own_us(pass::backward, 1), 200);
  EXPECT_EQ(clock_->own_us(pass::backward, 0), 0) << "never below nothing";
  EXPECT_EQ(clock_->step_us(), 550);
}

TEST_F(StepClock, MeasurementsOfStepsLongGoneAreLeftOut) {
  step();
  auto const long_ago = clock_->here();
  step();
  step();
  clock_->begin_step();
  clock_->recipe_took(long_ago, 1e9);
  ASSERT_TRUE(clock_->learn());
  EXPECT_EQ(clock_->own_us(pass::backward, 0), 200);
}

TEST_F(StepClock, NothingIsBusyThatIsNotKnown) {
  clock_->begin_step();
  EXPECT_EQ(clock_->busy_us(), 0);
  enter(pass::forward, 0);
  work(100us);
  EXPECT_EQ(clock_->busy_us(), 0);
}

TEST_F(StepClock, IsBusyWithWhatIsEnqueuedLessWhatHasPassed) {
  learn_a_step();
  enter(pass::forward, 0);
  work(forward_of(0));
  enter(pass::forward, 1);
  EXPECT_EQ(clock_->busy_us(), 100);
  let_pass(30us);
  EXPECT_EQ(clock_->busy_us(), 70);
  // Of the segment at hand as much as calls have been made before this one.
  clock_->called();
  EXPECT_EQ(clock_->busy_us(), 70);
  launch(forward_of(1) / 2);
  clock_->called();
  EXPECT_EQ(clock_->busy_us(), 70 + 100);
  launch(forward_of(1) / 2);
  enter(pass::forward, 2);
  EXPECT_EQ(clock_->busy_us(), 70 + 200);
  let_pass(70us + 50us);
  EXPECT_EQ(clock_->busy_us(), 150);
  compute_->synchronize();
  EXPECT_EQ(clock_->busy_us(), 0);
}

TEST_F(StepClock, IsNeverBusyForLessThanNothing) {
  learn_a_step();
  enter(pass::forward, 0);
  work(3 * forward_of(0));  // this time it takes longer
  enter(pass::forward, 1);
  EXPECT_EQ(clock_->busy_us(), 100);
  let_pass(250us);
  EXPECT_EQ(clock_->busy_us(), 0);
}

TEST_F(StepClock, RecipesThatWereEnqueuedCountToo) {
  learn_a_step();
  enter(pass::forward, 0);
  EXPECT_EQ(clock_->busy_us(), 0);
  clock_->will_take(40);
  launch(40us);
  EXPECT_EQ(clock_->busy_us(), 40);
  let_pass(25us);
  EXPECT_EQ(clock_->busy_us(), 15);
}

TEST_F(StepClock, FollowsAChangeInTwoSteps) {
  for (int i = 0; i < 3; ++i) step();
  auto const slower = [&] {
    clock_->begin_step();
    static_cast<void>(clock_->learn());
    enter(pass::forward, 0);
    work(500us);
    clock_->end_step(*events_);
    compute_->synchronize();
  };
  slower();
  slower();
  EXPECT_EQ(clock_->own_us(pass::forward, 0), 100) << "one may be an outlier";
  slower();
  EXPECT_EQ(clock_->own_us(pass::forward, 0), 500);
}

}  // namespace
}  // namespace ferry::decide
