// Steps without a backward: nothing is saved, ferried or learnt.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class Evaluation : public SessionTest {
 protected:
  static constexpr std::uint32_t segments = 6;

  /// Each segment's item is the one before plus one, and goes with the lease.
  void evaluate(step_kind kind = step_kind::evaluate) {
    session::step_scope step(*session_, kind);
    for (std::uint32_t s = 0; s < segments; ++s) save_filled({0, s, "h"}, ones, adding(ones, {}));
    stream_->synchronize();
    step.end();
  }
  void train() {
    session::step_scope step(*session_);
    for (std::uint32_t s = 0; s < segments; ++s) save_filled({0, s, "h"}, twos, adding(twos, {}));
    for (std::uint32_t s = segments; s-- > 0;) restore_and_release({0, s, "h"}, twos);
    stream_->synchronize();
    step.end();
  }
};

TEST_F(Evaluation, NeedsNoMoreThanIsHeldAtOnce) {
  for (auto const policy : {policy_kind::keep, policy_kind::offload, policy_kind::recompute, policy_kind::automatic}) {
    start(policy, 2);
    for (int i = 0; i < 3; ++i) evaluate();
    auto const stats = session_->stats();
    EXPECT_LE(stats.device.peak_bytes, 2 * item_bytes);
    EXPECT_EQ(stats.device.now_bytes, 0U);
    EXPECT_EQ(stats.device_to_host.transfers, 0U);
    EXPECT_EQ(stats.steps, 0U);
    EXPECT_EQ(stats.saves, 0U);
    EXPECT_EQ(stats.evaluations, 3U);
    TearDown();
  }
}

TEST_F(Evaluation, AnItemLivesAsLongAsItsLease) {
  start(policy_kind::recompute, 4);
  session::step_scope step(*session_, step_kind::evaluate);
  lease held = save_filled({0, 0, "h"}, ones, adding(ones, {}));
  lease other = save_filled({0, 1, "h"}, twos);
  expect(held.data(), ones);
  session_->release({0, 0, "h"});  // as a training step would; it says nothing new here
  expect(held.data(), ones);
  EXPECT_TRUE(session_->state({0, 0, "h"}));
  held.end();
  EXPECT_FALSE(session_->state({0, 0, "h"}));
  EXPECT_NO_THROW(session_->release({0, 0, "h"}));
  expect(other.data(), twos);
  stream_->synchronize();
  step.end();  // the lease outlives it
  other.end();
  EXPECT_EQ(session_->stats().device.now_bytes, 0U);
}

TEST_F(Evaluation, NothingCanBeRestored) {
  start(policy_kind::keep, 4);
  session::step_scope step(*session_, step_kind::evaluate);
  lease const held = save_filled({0, 0, "h"}, ones);
  expect_error<unknown_key>(
      [&] {
        static_cast<void>(session_->restore({0, 0, "h"}, *stream_));
      },
      "an evaluation saves nothing", "begin a training step");
  EXPECT_THROW(session_->begin_step(), error) << "no step in a step";
}

TEST_F(Evaluation, SaysWhereItIsWithoutBeingMeasured) {
  start(policy_kind::automatic, 4);
  session::step_scope step(*session_, step_kind::evaluate);
  {
    session::segment_scope const here(*session_, pass::forward, 0, *stream_);
    save_filled({0, 0, "h"}, ones);
    EXPECT_THROW(session_->enter_segment(pass::forward, 1, *stream_), error);
  }
  session_->enter_segment(pass::forward, 1, *stream_);
  step.end();  // leaves the segment too
  EXPECT_NO_THROW(train());
}

TEST_F(Evaluation, MayBeAbandoned) {
  start(policy_kind::offload, 3);
  {
    session::step_scope const step(*session_, step_kind::evaluate);
    save_filled({0, 0, "h"}, ones);
  }
  EXPECT_NO_THROW(train());
  session_->synchronize();  // what was still on its way out had its bytes
  EXPECT_EQ(session_->stats().device.now_bytes, 0U);
}

TEST_F(Evaluation, AdoptedMemoryIsTheTrainersAgainWithTheLease) {
  start(policy_kind::offload, 3);
  memory own(*device_, memory_space::device, item_bytes);
  bool told = false;
  session::step_scope step(*session_, step_kind::evaluate);
  fill(own.data(), ones);
  lease held = session_->save({0, 0, "h"}, {own.data(), item_bytes}, *stream_, [&](event_ref) { told = true; });
  expect(held.data(), ones);
  EXPECT_FALSE(told);
  held.end();
  stream_->synchronize();
  step.end();
  session_->synchronize();
  EXPECT_TRUE(told);
}

TEST_F(Evaluation, BesideTrainingBytesStayRight) {
  for (auto const policy : {policy_kind::offload, policy_kind::recompute, policy_kind::automatic, policy_kind::sqrt,
                            policy_kind::selective}) {
    start(policy, 3);
    for (int i = 0; i < 4; ++i) {
      evaluate(i == 2 ? step_kind::train : step_kind::evaluate);
      train();
    }
    EXPECT_EQ(session_->stats().evaluations, 4U) << "the one that was not announced too";
    TearDown();
  }
}

TEST_F(Evaluation, ForwardOnlyStepsDoNotMakeAutoGiveUp) {
  start(policy_kind::automatic, 2 * segments);
  for (int i = 0; i < 3; ++i) evaluate(step_kind::train);
  EXPECT_EQ(session_->followed(), nullptr);
  for (int i = 0; i < 3; ++i) train();
  EXPECT_NE(session_->followed(), nullptr) << "as if there had been none";
}

TEST_F(Evaluation, IsNoPartOfAProfile) {
  start(policy_kind::keep, 2 * segments);
  session_->record_profile(true);
  train();
  auto const before = session_->recorded_profile();
  ASSERT_TRUE(before);
  evaluate();
  auto const after = session_->recorded_profile();
  ASSERT_TRUE(after);
  EXPECT_EQ(after->segments.size(), before->segments.size());
  EXPECT_EQ(after->segments[0].items.size(), 1U);
}

TEST_F(Evaluation, AutoWithoutAPlanAfterFiveStepsSaysWhyOnce) {
  start(policy_kind::automatic, 6);
  session_.reset();
  config settings;
  settings.budget = byte_amount::exactly(6 * item_bytes);
  settings.host_budget = byte_amount::exactly(64 * item_bytes);
  ::testing::internal::CaptureStderr();
  session_.emplace(*device_, settings);
  for (int i = 0; i < 12; ++i) {
    if (i == 1) evaluate(step_kind::train);  // does not count
    session::step_scope step(*session_);
    for (std::uint32_t batch = 0; batch < 2; ++batch) save_filled({batch, 0, "h"}, twos);
    for (std::uint32_t batch = 0; batch < 2; ++batch) restore_and_release({batch, 0, "h"}, twos);
    stream_->synchronize();
    step.end();
    bool const said = ::testing::internal::GetCapturedStderr().find(
                          "FERRY_POLICY=auto has no plan after 5 steps: "
                          "micro-batches are interleaved") != std::string::npos;
    EXPECT_EQ(said, i == 5) << "before the sixth step of step " << i;
    ::testing::internal::CaptureStderr();
  }
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace ferry::testing
