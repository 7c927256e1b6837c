// Steps that are left by an exception, and sessions that are moved.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class StepScope : public SessionTest {
 protected:
  /// Saves an item, brings it back, and leaves by an exception if asked.
  void step(bool fails) {
    session::step_scope step(*session_);
    save_filled({0, 0, "a"}, ones);
    save_filled({0, 1, "b"}, ones, adding(ones, {}));
    if (fails) throw std::runtime_error("the loss is no number");
    restore_and_release({0, 1, "b"}, ones);
    restore_and_release({0, 0, "a"}, ones);
    step.end();
  }
};

TEST_F(StepScope, AStepThatIsLeftByAnExceptionIsAbandoned) {
  for (auto const policy : {policy_kind::keep, policy_kind::offload, policy_kind::recompute, policy_kind::automatic}) {
    start(policy, 4);
    for (int i = 0; i < 8; ++i) {
      if (i % 3 == 1) {
        EXPECT_THROW(step(true), std::runtime_error);
      } else {
        EXPECT_NO_THROW(step(false)) << "the session goes on";
      }
    }
    session_->synchronize();
    EXPECT_EQ(session_->stats().device.now_bytes, 0U);
    EXPECT_EQ(session_->stats().count(reason::unused_at_end_of_step), 0U) << "nobody can tell";
    TearDown();
  }
}

TEST_F(StepScope, ALeaseMayOutliveIt) {
  start(policy_kind::keep, 4);
  std::optional<lease> held;
  {
    session::step_scope step(*session_);
    held = save_filled({0, 7, "held"}, ones);
  }
  expect(held->data(), ones);
  EXPECT_NO_THROW(step(false));
  held.reset();
  session_->synchronize();
  EXPECT_EQ(session_->stats().device.now_bytes, 0U);
}

TEST_F(StepScope, CanBeMoved) {
  start(policy_kind::keep, 4);
  session::step_scope first(*session_);
  session::step_scope second(std::move(first));
  save_filled({0, 0, "a"}, ones);
  restore_and_release({0, 0, "a"}, ones);
  second.end();
  EXPECT_NO_THROW(step(false));
}

TEST_F(StepScope, WithoutAStepThereIsNothingToAbandon) {
  start(policy_kind::keep, 4);
  session_->abandon_step();
  step(false);
  session_->abandon_step();
  EXPECT_NO_THROW(step(false));
}

class MovedSession : public SessionTest {
 protected:
  static config settings_of(std::size_t bytes) {
    config settings;
    settings.budget = byte_amount::exactly(bytes);
    settings.host_budget = byte_amount::exactly(item_bytes);
    settings.log = log_level::off;
    return settings;
  }
};

TEST_F(MovedSession, OneThatWasMovedFromSaysSo) {
  start(policy_kind::keep, 4);
  session other(std::move(*session_));
  expect_error<error>([&] { session_->begin_step(); }, "moved from");
  expect_error<error>([&] { static_cast<void>(session_->stats()); }, "moved from");
  expect_error<error>([&] { static_cast<void>(session_->settings()); }, "moved from");
  EXPECT_EQ(session_->followed(), nullptr);
  session_->abandon_step();
  other.begin_step();
  other.end_step();
  *session_ = std::move(other);
  EXPECT_NO_THROW(session_->begin_step());
  session_->end_step();
}

TEST_F(MovedSession, AssignmentGivesTheOldMemoryBack) {
  start(policy_kind::keep, 4);
  // Two thirds of what the device has: never two of them at once.
  std::size_t const most = device_->capabilities().device_bytes / 3 * 2;
  session_.reset();
  session large(*device_, settings_of(most));
  session small(*device_, settings_of(item_bytes));
  large = std::move(small);
  EXPECT_NO_THROW(session(*device_, settings_of(most)));
  EXPECT_EQ(large.stats().device.limit_bytes, item_bytes);
}

}  // namespace
}  // namespace ferry::testing
