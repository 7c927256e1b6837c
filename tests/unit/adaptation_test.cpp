// When plans are made, without a session: steps are entered, saved and restored by hand. What a session does with them
// is in adapt_test.cpp.
#include "follow/adaptation.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "ferry/error.hpp"
#include "support/sim_of.hpp"

namespace ferry::follow {
namespace {

using namespace std::chrono_literals;

class AdaptationAlone : public ::testing::Test {
 protected:
  static constexpr std::uint32_t segments = 4;
  static constexpr std::size_t bytes = 1000;

  static config make_settings() {
    config settings;
    settings.log = log_level::off;
    settings.plan_effort = 50;
    return settings;
  }
  AdaptationAlone() {
    for (auto* const one : {&out_, &back_}) one->bytes_per_us = 1000;
  }

  /// As a session's steps: before it, the step itself, its end.
  void step(std::size_t item_bytes = bytes) {
    if (recorder_.on()) clock_.wait_until_over();
    adaptation_.plan_if_ready(steps_++);
    clock_.begin_step();
    if (clock_.can_learn()) adaptation_.note_learnt(clock_.learn());
    adaptation_.between_steps();
    plan_.take_up();
    adaptation_.choose_plan();
    recorder_.begin_step(adaptation_.wants_a_record());
    plan_.begin_step();
    for (std::uint32_t s = 0; s < segments; ++s) {
      enter(pass::forward, s);
      auto& e = store_.admit({0, s, "h"});
      store_.make_resident(e, std::move(*store_.device_tier().allocate(item_bytes, "h")),
                           store_.events().record(compute_));
      e.record.stats.bytes = item_bytes;
      if (recorder_.on()) recorder_.saved(e);
      if (!plan_.is_active()) {
        adaptation_.recognise(e);
      } else if (plan_.find(e.key)->bytes != item_bytes) {
        adaptation_.step_is_another(e, "its items have another size");
      }
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      enter(pass::backward, s);
      if (recorder_.on()) recorder_.restored(*store_.find({0, s, "h"}));
    }
    clock_.end_step(store_.events());
    compute_.synchronize();
    for (auto i = store_.live().begin(); i != store_.live().end();) store_.release(*i++);
  }
  void enter(pass which, std::uint32_t segment) {
    clock_.entered(which, {0, segment, "h"}, compute_, store_.events());
    if (recorder_.on()) recorder_.entered(which, {0, segment, "h"});
    device_->launch(compute_, "kernel", {}, [] {});
  }

  config settings_ = make_settings();
  support::logger log_{log_level::off};
  std::unique_ptr<sim_device> device_ = testing::make_sim_of(std::size_t{1} << 20, 100us);
  stream compute_{*device_, stream_kind::compute, "compute"};
  store::tiered_store store_{*device_, {16 * bytes, 64 * bytes, 16 * bytes}};
  decide::policy policy_{settings_};
  decide::step_clock clock_{*device_};
  decide::profile_recorder recorder_{clock_};
  decide::link_counters out_;
  decide::link_counters back_;
  plan_follower plan_;
  adaptation adaptation_{{*device_, settings_, log_, store_, policy_, clock_, recorder_,
                          decide::link_view(*device_, out_, back_, true), plan_}};
  std::uint64_t steps_ = 0;
};

TEST_F(AdaptationAlone, PlansOnceTwoStepsHaveBeenMeasured) {
  EXPECT_TRUE(adaptation_.wants_a_record());
  step();
  step();
  EXPECT_FALSE(plan_.is_active());
  EXPECT_FALSE(adaptation_.has_planned());
  step();
  ASSERT_TRUE(plan_.is_active());
  EXPECT_TRUE(adaptation_.has_planned());
  ASSERT_TRUE(adaptation_.measured());
  EXPECT_EQ(adaptation_.measured()->segments.size(), segments);
  EXPECT_EQ(plan_.followed()->items.size(), segments);
  EXPECT_FALSE(adaptation_.wants_a_record());
}

TEST_F(AdaptationAlone, AStepThatIsAnotherIsMeasuredAndPlannedForToo) {
  for (int i = 0; i < 4; ++i) step();
  ASSERT_TRUE(plan_.is_active());
  step(2 * bytes);
  EXPECT_FALSE(plan_.has_plan());
  EXPECT_FALSE(adaptation_.measured());
  EXPECT_TRUE(adaptation_.wants_a_record());
  step(2 * bytes);
  step(2 * bytes);
  ASSERT_TRUE(plan_.is_active()) << "one step of it is enough";
  EXPECT_EQ(plan_.followed()->items[0].bytes, 2 * bytes);
}

TEST_F(AdaptationAlone, AStepThatWasPlannedForBeforeIsRecognisedByItsFirstItem) {
  for (int i = 0; i < 4; ++i) step();
  for (int i = 0; i < 4; ++i) step(2 * bytes);
  ASSERT_TRUE(plan_.is_active());
  for (int i = 0; i < 6; ++i) {
    std::size_t const now = i % 2 == 0 ? bytes : 2 * bytes;
    step(now);
    ASSERT_TRUE(plan_.is_active());
    EXPECT_EQ(plan_.followed()->items[0].bytes, now);
    EXPECT_EQ(adaptation_.measured()->segments[0].items[0].bytes, now);
  }
  EXPECT_FALSE(adaptation_.wants_a_record()) << "there is nothing new";
}

TEST_F(AdaptationAlone, StepsThatNeverComeTwiceInARowArePlannedForAllTheSame) {
  for (int i = 0; i < 4; ++i) step();
  for (int i = 0; i < 5; ++i) step(i % 2 == 0 ? 2 * bytes : bytes);
  ASSERT_TRUE(plan_.is_active());
  EXPECT_EQ(plan_.followed()->items[0].bytes, 2 * bytes);
}

TEST_F(AdaptationAlone, OfManyShapesTheLatestAreRemembered) {
  for (int i = 0; i < 4; ++i) step();
  for (std::size_t shape = 1; shape <= 9; ++shape) {
    for (int i = 0; i < 3; ++i) step(bytes + 10 * shape);
    ASSERT_TRUE(plan_.is_active()) << shape;
  }
  step(bytes + 30);
  EXPECT_TRUE(plan_.is_active());
  step(bytes);
  EXPECT_FALSE(plan_.is_active()) << "nine others have come since";
}

TEST_F(AdaptationAlone, APlanThatWasGivenStays) {
  for (int i = 0; i < 3; ++i) step();
  plan const made = *plan_.followed();
  adaptation_.follow(made);
  EXPECT_THROW(step(2 * bytes), plan_mismatch);
  adaptation_.budget_changed(16 * bytes, 8 * bytes);
  EXPECT_TRUE(plan_.is_active());
  EXPECT_FALSE(adaptation_.change_plan_in_step());
}

TEST_F(AdaptationAlone, APlanOfItsOwnDoesNotSurviveASmallerBudget) {
  for (int i = 0; i < 3; ++i) step();
  ASSERT_TRUE(plan_.is_active());
  adaptation_.budget_changed(16 * bytes, 17 * bytes);
  EXPECT_TRUE(plan_.is_active()) << "with more bytes it does";
  adaptation_.budget_changed(17 * bytes, 16 * bytes);
  EXPECT_FALSE(plan_.has_plan());
  for (int i = 0; i < 3; ++i) step();
  EXPECT_TRUE(plan_.is_active());
}

TEST_F(AdaptationAlone, ALinkThatHasChangedIsPlannedFor) {
  for (int i = 0; i < 5; ++i) step();
  ASSERT_TRUE(plan_.is_active());
  for (auto* const one : {&out_, &back_}) one->bytes_per_us = 10;
  step();
  step();
  // All of the step fits, so the new plan promises no more than the old one has held, and no less.
  EXPECT_LE(adaptation_.plans(), 1U);
  EXPECT_TRUE(plan_.is_active());
}

TEST_F(AdaptationAlone, FourChunksTellThatTheLinkIsAnotherOne) {
  for (int i = 0; i < 5; ++i) step();
  ASSERT_TRUE(plan_.is_active());
  for (auto* const one : {&out_, &back_}) one->bytes_per_us = 300;
  EXPECT_FALSE(adaptation_.change_plan_in_step()) << "nothing has moved in this step";
  out_.chunks = out_.chunks + 4;
  EXPECT_TRUE(adaptation_.change_plan_in_step());
  EXPECT_EQ(adaptation_.changes_in_steps(), 1U);
  EXPECT_TRUE(plan_.has_changed_in_step());
}

}  // namespace
}  // namespace ferry::follow
