// Plans for several links: which one is chosen, and where the next one goes on.
#include "follow/plan_set.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ferry::follow {
namespace {

using kind = plan_operation::kind;

constexpr double derating = 0.9;

plan_set all_links() {
  std::vector<plan_set::choice> choices;
  for (double const factor : plan_set::link_factors) choices.push_back({factor, followed_plan(plan{})});
  return plan_set(std::move(choices));
}

TEST(PlanSet, ASingleOneIsNeverChanged) {
  plan_set none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.at_hand(), nullptr);
  EXPECT_FALSE(none.choose(0.1, derating));
  plan_set one{plan{}};
  for (double const speed : {0.01, 1.0, 100.0}) EXPECT_FALSE(one.choose(speed, derating));
  EXPECT_EQ(one.factor(), 1);
}

TEST(PlanSet, BeginsWithTheOneForTheLinkAsItIs) {
  auto plans = all_links();
  EXPECT_EQ(plans.factor(), 1);
  EXPECT_FALSE(plans.choose(1, derating));
  EXPECT_EQ(plans.factor(), 1);
}

TEST(PlanSet, TakesTheFastestThatTheLinkBears) {
  struct expected {
    double speed;
    double factor;
  };
  for (auto const& [speed, factor] : {expected{0.05, 0.25},
                                      {0.23, 0.25},
                                      {0.32, 0.35},
                                      {1.0 / 3, 0.35},
                                      {0.46, 0.5},
                                      {0.65, 0.71},
                                      {1.0, 1.0},
                                      {1.28, 1.41},
                                      {1.9, 2.0},
                                      {50.0, 2.0}}) {
    auto plans = all_links();
    EXPECT_EQ(plans.choose(speed, derating), factor != 1) << speed;
    EXPECT_EQ(plans.factor(), factor) << speed;
    EXPECT_FALSE(plans.choose(speed, derating)) << "it stays at " << speed;
  }
}

TEST(PlanSet, AStepDownWaitsUntilThePlanIsClearlyTooFast) {
  auto plans = all_links();
  double const needed = 1 * derating;
  EXPECT_FALSE(plans.choose(needed, derating));
  EXPECT_FALSE(plans.choose(needed / 1.049, derating)) << "a little less is forgiven";
  EXPECT_TRUE(plans.choose(needed / 1.051, derating));
  EXPECT_EQ(plans.factor(), 0.71);
}

TEST(PlanSet, AndAStepUpUntilTheLinkBearsIt) {
  auto plans = all_links();
  ASSERT_TRUE(plans.choose(0.8, derating));
  ASSERT_EQ(plans.factor(), 0.71);
  EXPECT_FALSE(plans.choose(0.899, derating)) << "what would be forgiven is not enough to change";
  EXPECT_TRUE(plans.choose(0.9, derating));
  EXPECT_EQ(plans.factor(), 1);
}

TEST(PlanSet, SpeedsThatTrembleChangeItOnce) {
  auto plans = all_links();
  int changes = 0;
  for (int i = 0; i < 100; ++i) changes += plans.choose(i % 2 == 0 ? 0.87 : 0.89, derating) ? 1 : 0;
  EXPECT_EQ(changes, 0);
  for (int i = 0; i < 100; ++i) changes += plans.choose(i % 2 == 0 ? 0.84 : 0.89, derating) ? 1 : 0;
  EXPECT_EQ(changes, 1);
}

TEST(PlanSet, ClimbsDownAndUpTheLadder) {
  auto plans = all_links();
  double before = 3;
  auto const look = [&](double speed, bool down) {
    static_cast<void>(plans.choose(speed, derating));
    double const now = plans.factor();
    EXPECT_TRUE(down ? now <= before : now >= before) << "at " << speed;
    bool const slowest = now == 0.25;
    EXPECT_TRUE(slowest || now * derating <= 1.05 * speed) << now << " at " << speed;
    before = now;
  };
  for (double speed = 3; speed > 0.1; speed *= 0.97) look(speed, true);
  EXPECT_EQ(before, 0.25);
  for (double speed = 0.1; speed < 3; speed /= 0.97) look(speed, false);
  EXPECT_EQ(before, 2);
}

TEST(PlanSet, DoesWithThosePlansThereAre) {
  std::vector<plan_set::choice> choices;
  choices.push_back({1, followed_plan(plan{})});
  choices.push_back({0.25, followed_plan(plan{})});  // none fitted in between
  plan_set plans(std::move(choices));
  EXPECT_TRUE(plans.choose(0.7, derating));
  EXPECT_EQ(plans.factor(), 0.25);
  EXPECT_FALSE(plans.choose(0.01, derating));
  EXPECT_TRUE(plans.choose(5, derating));
  EXPECT_EQ(plans.factor(), 1);
}

/// Three segments: forward takes 10 us, backward 20; before backward of segment 1 its item is fetched, and `waiting_us`
/// are planned to be waited for it.
plan three_segments(double waiting_us = 0) {
  plan made;
  made.items.push_back({{1, "h"}, 64, placement::offload, 5.0, ""});
  double at_us = 0;
  auto const add = [&](kind what, std::uint32_t segment, double takes_us) {
    plan_operation op;
    op.what = what;
    op.segment = segment;
    op.start_us = at_us;
    op.end_us = at_us += takes_us;
    if (what == kind::fetch) op.item = "h";
    made.operations.push_back(op);
  };
  for (std::uint32_t s = 0; s < 3; ++s) add(kind::forward, s, 10);
  add(kind::backward, 2, 20);
  add(kind::fetch, 1, 0);
  at_us += waiting_us;
  add(kind::backward, 1, 20);
  add(kind::backward, 0, 20);
  return made;
}

item_key at(std::uint32_t segment, std::uint32_t micro_batch = 0) { return {micro_batch, segment, "h"}; }

TEST(Conductor, TellsHowLongUntilABackward) {
  followed_plan conducts(three_segments());
  EXPECT_EQ(conducts.until_backward_us(0), std::nullopt) << "nothing has begun";
  static_cast<void>(conducts.enter(pass::forward, at(0)));
  EXPECT_EQ(conducts.until_backward_us(2), 30);
  EXPECT_EQ(conducts.until_backward_us(1), 50);
  EXPECT_EQ(conducts.until_backward_us(0), 70);
  EXPECT_EQ(conducts.until_backward_us(3), std::nullopt) << "there is none";
  static_cast<void>(conducts.enter(pass::forward, at(1)));
  static_cast<void>(conducts.enter(pass::forward, at(2)));
  EXPECT_EQ(conducts.until_backward_us(0), 50);
  static_cast<void>(conducts.enter(pass::backward, at(2)));
  EXPECT_EQ(conducts.until_backward_us(2), std::nullopt) << "it has begun";
  EXPECT_EQ(conducts.until_backward_us(1), 20);
  conducts.begin_step();
  EXPECT_EQ(conducts.until_backward_us(0), std::nullopt);
}

TEST(Conductor, GoesOnWhereAnotherHasGotTo) {
  followed_plan first(three_segments());
  followed_plan second(three_segments(7));
  static_cast<void>(first.enter(pass::forward, at(0)));
  static_cast<void>(first.enter(pass::forward, at(1)));
  second.go_on_from(first);
  EXPECT_EQ(second.until_backward_us(1), 40 + 7) << "by its own times";
  EXPECT_TRUE(second.enter(pass::forward, at(2)).empty());
  EXPECT_TRUE(second.enter(pass::backward, at(2)).empty());
  auto const before_backward = second.enter(pass::backward, at(1));
  ASSERT_EQ(before_backward.size(), 1U);
  EXPECT_EQ(before_backward[0].what, kind::fetch);
  EXPECT_EQ(before_backward[0].item, at(1));
  EXPECT_TRUE(second.enter(pass::backward, at(0)).empty());
}

TEST(Conductor, GoesOnInBackwardToo) {
  followed_plan first(three_segments());
  followed_plan second(three_segments());
  for (std::uint32_t s = 0; s < 3; ++s) static_cast<void>(first.enter(pass::forward, at(s)));
  static_cast<void>(first.enter(pass::backward, at(2)));
  second.go_on_from(first);
  EXPECT_EQ(second.enter(pass::backward, at(1)).size(), 1U);
}

TEST(Conductor, GoesOnFromOneThatHasNotBegunAtTheBeginning) {
  followed_plan const first(three_segments());
  followed_plan second(three_segments());
  static_cast<void>(second.enter(pass::forward, at(0)));
  second.go_on_from(first);
  EXPECT_EQ(second.until_backward_us(0), std::nullopt);
  static_cast<void>(second.enter(pass::forward, at(0)));
  EXPECT_EQ(second.until_backward_us(0), 70);
}

TEST(Conductor, EveryMicroBatchBeginsAnew) {
  followed_plan conducts(three_segments());
  for (std::uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
    for (std::uint32_t s = 0; s < 3; ++s) static_cast<void>(conducts.enter(pass::forward, at(s, micro_batch)));
    EXPECT_EQ(conducts.until_backward_us(2), 10);
    for (std::uint32_t s = 3; s-- > 0;) {
      EXPECT_EQ(conducts.enter(pass::backward, at(s, micro_batch)).size(), s == 1 ? 1U : 0U);
    }
    EXPECT_EQ(conducts.until_backward_us(0), std::nullopt);
  }
}

TEST(Conductor, WhatIsNotForeseenIsLeftAlone) {
  followed_plan conducts(three_segments());
  static_cast<void>(conducts.enter(pass::forward, at(0)));
  EXPECT_TRUE(conducts.enter(pass::backward, at(1)).empty()) << "out of order";
  EXPECT_EQ(conducts.until_backward_us(2), 30) << "and it stays where it was";
  EXPECT_EQ(conducts.find({5, 1, "h"})->where, placement::offload) << "of any micro-batch";
  EXPECT_EQ(conducts.find({0, 1, "x"}), nullptr);
}

}  // namespace
}  // namespace ferry::follow
