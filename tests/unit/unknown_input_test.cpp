// Recipes that name items which their step never saves: found at the step's end, whether they were needed or not.
#include <utility>

#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class UnknownInput : public SessionTest {
 protected:
  /// Saves x and, made from `input`, y; brings both back.
  void forward_and_backward(item_list input) {
    save_filled({0, 0, "x"}, ones);
    save_filled({0, 1, "y"}, twos, adding(ones, std::move(input)));
    restore_and_release({0, 1, "y"}, twos);
    restore_and_release({0, 0, "x"}, ones);
  }
  void step(item_list input) {
    session::step_scope step(*session_);
    forward_and_backward(std::move(input));
    step.end();
  }
  static constexpr char const* words = "the recipe of y (segment 1, micro-batch 0) names w (segment 0, micro-batch 0)";
};

TEST_F(UnknownInput, IsFoundAtTheEndOfTheFirstStep) {
  for (auto const policy : {policy_kind::keep, policy_kind::offload}) {
    start(policy, 4);
    session_->begin_step();
    forward_and_backward({{0, 0, "x"}, {0, 0, "w"}});
    for (int i = 0; i < 2; ++i) expect_error<recipe_error>([&] { session_->end_step(); }, words, "has not saved");
    session_->abandon_step();
    EXPECT_NO_THROW(step({{0, 0, "x"}})) << "the session goes on";
    session_->synchronize();
    EXPECT_EQ(session_->stats().device.now_bytes, 0U);
    TearDown();
  }
}

TEST_F(UnknownInput, LeavesTheStepWithItsScope) {
  start(policy_kind::keep, 4);
  for (int i = 0; i < 3; ++i) {
    expect_error<recipe_error>([&] { step({{0, 0, "w"}}); }, words);
    EXPECT_EQ(session_->stats().device.now_bytes, 0U);
  }
  EXPECT_NO_THROW(step({{0, 0, "x"}}));
}

TEST_F(UnknownInput, MayBeSavedLaterInTheStep) {
  start(policy_kind::keep, 6);
  for (int i = 0; i < 3; ++i) {
    session_->begin_step();
    save_filled({0, 1, "y"}, twos, adding(ones, {{0, 2, "later"}, {0, 0, "x"}}));
    save_filled({0, 0, "x"}, ones);
    save_filled({0, 2, "later"}, ones);
    for (std::uint32_t s : {2U, 0U}) session_->release({0, s, s == 0 ? "x" : "later"});
    restore_and_release({0, 1, "y"}, twos);
    EXPECT_NO_THROW(session_->end_step());
  }
}

TEST_F(UnknownInput, OfTheStepBeforeIsNotThere) {
  start(policy_kind::keep, 6);
  step({{0, 0, "x"}});
  session_->begin_step();
  save_filled({0, 1, "z"}, twos, adding(ones, {{0, 0, "x"}}));  // without x, this time
  restore_and_release({0, 1, "z"}, twos);
  expect_error<recipe_error>([&] { session_->end_step(); }, "z (segment 1", "x (segment 0");
  session_->abandon_step();
}

TEST_F(UnknownInput, IsFoundWhenARecipeBeginsToNameIt) {
  start(policy_kind::keep, 4);
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(step({{0, 0, "x"}}));
  expect_error<recipe_error>([&] { step({{0, 0, "w"}}); }, words);
  expect_error<recipe_error>([&] { step({{0, 0, "x"}, {0, 0, "w"}}); }, words);
  EXPECT_NO_THROW(step({{0, 0, "x"}}));
}

TEST_F(UnknownInput, DoesNotCountInStepsThatTrainNothing) {
  start(policy_kind::keep, 4);
  auto const forward = [&] {
    save_filled({0, 0, "x"}, ones);
    save_filled({0, 1, "y"}, twos, adding(ones, {{0, 0, "w"}}));
  };
  {
    session::step_scope step(*session_, step_kind::evaluate);
    forward();
    EXPECT_NO_THROW(step.end());
  }
  {
    session::step_scope step(*session_);  // an evaluation that nobody announced
    forward();
    EXPECT_NO_THROW(step.end());
  }
  session_->begin_step();
  forward();
  restore_and_release({0, 1, "y"}, twos);
  session_->abandon_step();
  expect_error<recipe_error>([&] { step({{0, 0, "w"}}); }, words);
}

TEST_F(UnknownInput, OfAnItemThatIsSavedAgainWithoutARecipe) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  save_filled({0, 1, "y"}, twos, adding(ones, {{0, 0, "w"}}));
  session_->release({0, 1, "y"});
  save_filled({0, 1, "y"}, twos);
  restore_and_release({0, 1, "y"}, twos);
  EXPECT_NO_THROW(session_->end_step());
}

}  // namespace
}  // namespace ferry::testing
