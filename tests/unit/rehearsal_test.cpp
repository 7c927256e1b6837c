#include "ferry/rehearsal.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "observe/step_tape.hpp"
#include "support/session_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::testing;
using observe::asked;
using observe::step_tape;

constexpr std::size_t kib = 1024;

/// So many items of 64 KiB, each from the one before.
void chain_of(session& on, stream_ref stream, std::uint32_t items) {
  session::step_scope step(on);
  for (std::uint32_t i = 0; i < items; ++i) {
    recipe how{[](recipe_context const&) {}, i == 0 ? item_list{} : item_list{{0, i - 1, "h"}}};
    on.save({0, i, "h"}, on.allocate(64 * kib, stream), stream, std::move(how));
  }
  for (std::uint32_t i = items; i-- > 0;) {
    on.restore({0, i, "h"}, stream).end();
    on.release({0, i, "h"});
  }
  step.end();
}

std::size_t enough_for_ten(policy_kind policy, std::size_t most = 4096 * kib) {
  config settings;
  settings.policy.kind = policy;
  rehearsal stage({.settings = settings, .most_bytes = most, .unit_bytes = kib, .margin_bytes = 64 * kib});
  stream const compute(stage.on(), stream_kind::compute, "rehearsal");
  return stage.smallest_budget([&](session& on) {
    for (int i = 0; i < 2; ++i) chain_of(on, compute, 10);
  });
}

TEST(Rehearsal, FindsWhatKeepingTakes) {
  std::size_t const found = enough_for_ten(policy_kind::keep);
  EXPECT_GE(found, 640 * kib);
  EXPECT_LE(found, 642 * kib);
}

TEST(Rehearsal, FindsThatMovingItemsTakesLess) {
  std::size_t const found = enough_for_ten(policy_kind::offload);
  EXPECT_GE(found, 128 * kib);
  EXPECT_LE(found, 320 * kib);
}

TEST(Rehearsal, SaysWhenNothingIsEnough) { EXPECT_EQ(enough_for_ten(policy_kind::keep, 512 * kib), 0U); }

TEST(Rehearsal, PassesOnWhatGoesWrongOtherwise) {
  rehearsal stage({.most_bytes = 1024 * kib});
  EXPECT_THROW((void)stage.smallest_budget([](session& on) { on.end_step(); }), error);
}

TEST(Rehearsal, IsMoreThanWhatWasNotEnough) {
  rehearsal stage(
      {.most_bytes = 1024 * kib, .unit_bytes = kib, .margin_bytes = 64 * kib, .too_small_bytes = 800 * kib});
  stream const compute(stage.on(), stream_kind::compute, "rehearsal");
  EXPECT_EQ(stage.smallest_budget([&](session& on) { chain_of(on, compute, 1); }), 865 * kib);
}

TEST(Rehearsal, IsMoreEvenWithoutAMargin) {
  rehearsal stage({.most_bytes = 1024 * kib, .unit_bytes = kib, .too_small_bytes = 800 * kib});
  stream const compute(stage.on(), stream_kind::compute, "rehearsal");
  EXPECT_EQ(stage.smallest_budget([&](session& on) { chain_of(on, compute, 1); }), 801 * kib);
}

using AdviceTest = SessionTest;

TEST_F(AdviceTest, NamesTheBudgetThatIsEnough) {
  start(policy_kind::keep, 3);
  session_->begin_step();
  std::size_t enough = 0;
  try {
    for (std::uint32_t i = 0; i < 4; ++i) save_filled({0, i, "h"}, std::byte{1});
  } catch (out_of_device_memory const& e) {
    enough = e.enough_bytes();
    EXPECT_EQ(enough, 4 * item_bytes);
    EXPECT_NE(std::string(e.what()).find("FERRY_BUDGET=256KiB is enough for the step so far"), std::string::npos)
        << e.what();
  }
  session_->abandon_step();
  session_->set_budget(byte_amount::exactly(enough));
  session_->begin_step();
  for (std::uint32_t i = 0; i < 4; ++i) save_filled({0, i, "h"}, std::byte{1});
  for (std::uint32_t i = 0; i < 4; ++i) restore_and_release({0, i, "h"}, std::byte{1});
  session_->end_step();
}

/// A step that was whole is known to its end.
TEST_F(AdviceTest, KnowsTheStepBefore) {
  start(policy_kind::keep, 8);
  auto const step = [&] {
    session::step_scope in_step(*session_);
    for (std::uint32_t i = 0; i < 6; ++i) save_filled({0, i, "h"}, std::byte{1});
    for (std::uint32_t i = 0; i < 6; ++i) restore_and_release({0, i, "h"}, std::byte{1});
    in_step.end();
  };
  step();
  session_->set_budget(byte_amount::exactly(2 * item_bytes));
  try {
    step();
    ADD_FAILURE() << "two items are no room for six";
  } catch (out_of_device_memory const& e) {
    EXPECT_EQ(e.enough_bytes(), 6 * item_bytes) << e.what();
  }
  session_->set_budget(byte_amount::exactly(6 * item_bytes));
  step();
}

TEST_F(AdviceTest, NamesTheItemAndItsPlace) {
  start(policy_kind::keep, 2);
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{1});
  std::vector<std::byte> mine(2 * item_bytes);
  expect_error<out_of_device_memory>(
      [&] {
        session_->save({3, 7, "wide"}, {mine.data(), mine.size()}, *stream_, {}, {});
      },
      "'wide' (segment 7, micro-batch 3)", "FERRY_BUDGET=192KiB is enough");
  session_->abandon_step();
}

TEST_F(AdviceTest, CountsWhatIsHeldFromBefore) {
  start(policy_kind::keep, 3);
  block const before = session_->allocate(2 * item_bytes, *stream_);
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{1});
  expect_error<out_of_device_memory>([&] { save_filled({0, 1, "h"}, std::byte{1}); }, "FERRY_BUDGET=256KiB is enough");
  session_->abandon_step();
}

TEST_F(AdviceTest, IsGivenOnceAStepAndNotWhereItIsOff) {
  start(policy_kind::keep, 1);
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{1});
  auto const told = [&] {
    try {
      save_filled({0, 1, "h"}, std::byte{1});
    } catch (out_of_device_memory const& e) {
      return e.enough_bytes() > 0;
    }
    return false;
  };
  EXPECT_TRUE(told());
  EXPECT_FALSE(told());
  session_->abandon_step();
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{1});
  EXPECT_TRUE(told());
  session_->abandon_step();
}

/// What is released makes room, and its name is free again.
TEST_F(AdviceTest, KnowsWhatWasReleased) {
  start(policy_kind::keep, 2);
  session_->begin_step();
  for (int i = 0; i < 4; ++i) {
    save_filled({0, 0, "h"}, std::byte{1});
    restore_and_release({0, 0, "h"}, std::byte{1});
  }
  save_filled({0, 1, "h"}, std::byte{1});
  expect_error<out_of_device_memory>([&] { (void)session_->allocate(2 * item_bytes, *stream_); },
                                     "FERRY_BUDGET=192KiB is enough");
  session_->abandon_step();
}

/// What a step did without is not asked again, and need not be known any more.
TEST_F(AdviceTest, LeavesOutWhatAWholeStepDidWithout) {
  start(policy_kind::keep, 4);
  std::vector<std::byte> mine(100 * item_bytes);
  for (int i = 0; i < 12; ++i) {
    session::step_scope step(*session_);
    save_filled({0, 0, "h"}, std::byte{1});
    EXPECT_THROW(session_->save({0, 1, "optional"}, {mine.data(), mine.size()}, *stream_, {}, {}),
                 out_of_device_memory);
    EXPECT_THROW((void)session_->allocate(100 * item_bytes, *stream_), out_of_device_memory);
    restore_and_release({0, 0, "h"}, std::byte{1});
    step.end();
  }
  session_->begin_step();
  for (std::uint32_t i = 0; i < 4; ++i) save_filled({0, i, "h"}, std::byte{1});
  expect_error<out_of_device_memory>([&] { save_filled({0, 4, "h"}, std::byte{1}); }, "FERRY_BUDGET=320KiB is enough");
  session_->abandon_step();
}

/// The rehearsal has the pinned memory that the session has: a share of it is not taken twice.
TEST(Advice, CountsWithAllOfThePinnedMemory) {
  sim_device_options options{.device_bytes = 4096 * kib, .pinned_bytes = 640 * kib, .gaps_cost = true};
  auto const on = make_sim_device(options);
  stream const compute(*on, stream_kind::compute, "compute");
  config settings;
  settings.policy.kind = policy_kind::offload;
  settings.budget = byte_amount::exactly(100 * kib);
  settings.log = log_level::off;
  session it(*on, settings);
  it.begin_step();
  try {
    for (std::uint32_t i = 0; i < 7; ++i) it.save({0, i, "h"}, it.allocate(64 * kib, compute), compute);
    ADD_FAILURE() << "a seventh item has no room anywhere";
  } catch (out_of_device_memory const& e) {
    // Five are in pinned memory, one on the device; and the margin.
    EXPECT_LE(e.enough_bytes(), 4 * 64 * kib) << e.what();
  }
  it.abandon_step();
}

TEST_F(AdviceTest, SaysThatTheDeviceHasLess) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  expect_error<out_of_device_memory>([&] { (void)session_->allocate(80 * item_bytes, *stream_); },
                                     "FERRY_BUDGET=5MiB is enough for the step so far, but the device has 4.00 MiB");
  session_->abandon_step();
}

TEST_F(AdviceTest, IsGivenForTheSessionsOwnErrors) {
  start(policy_kind::recompute, 4);
  drop_everything();
  session_->begin_step();
  recipe how{[](recipe_context const&) { throw infeasible_budget("of somebody else", 1, 2); }, {}};
  save_filled({0, 0, "h"}, std::byte{1}, std::move(how));
  EXPECT_THROW((void)session_->restore({0, 0, "h"}, *stream_), infeasible_budget);
  session_->abandon_step();
}

TEST_F(AdviceTest, CanBeSwitchedOff) {
  config settings;
  settings.advise = false;
  start(policy_kind::keep, 1, 64, settings);
  session_->begin_step();
  try {
    auto const first = session_->allocate(item_bytes, *stream_);
    auto const second = session_->allocate(item_bytes, *stream_);
    ADD_FAILURE() << "no error";
  } catch (out_of_device_memory const& e) {
    EXPECT_EQ(e.enough_bytes(), 0U);
  }
  session_->abandon_step();
}

TEST(StepTape, MarksWhatWasAnswered) {
  step_tape tape(true);
  tape.begin_step(1, step_kind::train, 5);
  auto const first = tape.note(asked::of_bytes(asked::what::allocate, 10));
  tape.answered_with(first, 3);
  (void)tape.note(asked::of_bytes(asked::what::allocate, 20));
  ASSERT_EQ(tape.now().calls.size(), 2U);
  EXPECT_EQ(tape.now().held_before_bytes, 5U);
  EXPECT_TRUE(tape.now().calls[0].answered);
  EXPECT_EQ(tape.now().calls[0].slot, 3U);
  EXPECT_FALSE(tape.now().calls[1].answered);
}

TEST(StepTape, KeepsTheLastWholeStep) {
  step_tape tape(true);
  tape.begin_step(1, step_kind::train, 0);
  tape.did(asked());
  tape.end_step(true);
  tape.begin_step(2, step_kind::train, 0);
  tape.did(asked::entering(pass::forward, {0, 0}));
  tape.did(asked());
  tape.end_step(false);
  EXPECT_EQ(tape.last().number, 1U);
  EXPECT_EQ(tape.last().calls.size(), 1U);
  tape.forget_before(2);
  EXPECT_TRUE(tape.last().calls.empty());
}

TEST(StepTape, WhatIsDoneWithAnItemRightAfterACallStandsWithTheCall) {
  auto const device = make_host_device({.device_bytes = 64 * kib, .pinned_bytes = 64 * kib});
  stream const compute(*device, stream_kind::compute, "compute");
  store::entry x({0, 0, "x"});
  store::entry y({0, 0, "y"});
  step_tape tape(true);
  tape.begin_step(1, step_kind::train, 0);
  auto const restored = [&](store::entry& item) {
    tape.answered(tape.note(asked::of_item(asked::what::restore, item), compute));
  };
  restored(x);
  tape.ended_lease(x, compute);
  tape.released(x);
  restored(x);
  tape.released(x);  // while it is held
  restored(y);
  tape.ended_lease(x, compute);  // not the one that was lent last
  tape.ended_lease(y, compute);
  auto const& calls = tape.now().calls;
  ASSERT_EQ(calls.size(), 6U);
  EXPECT_TRUE(calls[0].ended && calls[0].released);
  EXPECT_FALSE(calls[1].ended || calls[1].released);
  EXPECT_EQ(calls[2].call, asked::what::release);
  EXPECT_FALSE(calls[3].ended);
  EXPECT_EQ(calls[4].call, asked::what::end_lease);
  EXPECT_EQ(calls[4].item, &x);
  EXPECT_EQ(calls[5].call, asked::what::end_lease);
  EXPECT_EQ(calls[5].item, &y);
}

TEST(StepTape, TellsOnceAStepAndOnlyWithinOne) {
  step_tape tape(true);
  EXPECT_FALSE(tape.may_tell());
  tape.begin_step(1, step_kind::train, 0);
  EXPECT_TRUE(tape.may_tell());
  EXPECT_FALSE(tape.may_tell());
  step_tape off(false);
  off.begin_step(1, step_kind::train, 0);
  EXPECT_FALSE(off.may_tell());
}

}  // namespace
