// Which plan is followed, when it waits, and what is due by it; without a session.
#include "follow/plan_follower.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ferry::follow {
namespace {

using kind = plan_operation::kind;

/// Two segments; the first one's item is fetched before its backward.
plan two_segments(std::string name, double backward_us = 200) {
  plan made;
  made.profile_name = std::move(name);
  made.items = {{{0, "h"}, 100, placement::offload, 30.0, ""}, {{1, "h"}, 50, placement::keep, std::nullopt, ""}};
  auto const add = [&](kind what, std::uint32_t segment, std::string const& item, double start_us) {
    plan_operation one;
    one.what = what;
    one.segment = segment;
    one.item = item;
    one.start_us = start_us;
    made.operations.push_back(one);
  };
  add(kind::forward, 0, "", 0);
  add(kind::forward, 1, "", 100);
  add(kind::backward, 1, "", backward_us);
  add(kind::fetch, 0, "h", backward_us);
  add(kind::backward, 0, "", 2 * backward_us);
  return made;
}

plan_set for_two_links() {
  std::vector<plan_set::choice> choices;
  choices.push_back({1, followed_plan(two_segments("as it is"))});
  choices.push_back({0.5, followed_plan(two_segments("half"))});
  return plan_set(std::move(choices));
}

class PlanFollower : public ::testing::Test {
 protected:
  plan_follower plan_;
};

TEST_F(PlanFollower, FollowsNothingAtFirst) {
  EXPECT_FALSE(plan_.is_active());
  EXPECT_FALSE(plan_.has_plan());
  EXPECT_EQ(plan_.followed(), nullptr);
  EXPECT_EQ(plan_.at_hand(), nullptr);
  plan_.begin_step();
  plan_.take_up();
  EXPECT_FALSE(plan_.is_active());
}

TEST_F(PlanFollower, SaysWhatIsNextWhenASegmentIsEntered) {
  plan_.follow(plan_set(two_segments("a step")));
  plan_.begin_step();
  EXPECT_TRUE(plan_.enter(pass::forward, {0, 0, "h"}).empty());
  EXPECT_TRUE(plan_.enter(pass::forward, {0, 1, "h"}).empty());
  EXPECT_TRUE(plan_.enter(pass::backward, {0, 1, "h"}).empty());
  auto const next = plan_.enter(pass::backward, {0, 0, "h"});
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].what, kind::fetch);
  ASSERT_NE(plan_.find({0, 0, "h"}), nullptr);
  EXPECT_EQ(plan_.find({0, 0, "h"})->where, placement::offload);
  EXPECT_EQ(plan_.find({0, 7, "h"}), nullptr);
}

TEST_F(PlanFollower, APlanThatWaitsIsNotFollowed) {
  plan_.follow(plan_set(two_segments("a step")));
  plan_.suspend();
  EXPECT_FALSE(plan_.is_active());
  EXPECT_TRUE(plan_.has_plan());
  EXPECT_EQ(plan_.followed(), nullptr);
  EXPECT_EQ(plan_.at_hand()->profile_name, "a step");
  plan_.take_up();
  EXPECT_FALSE(plan_.is_active()) << "it still waits";
  plan_.follow(plan_set(two_segments("another")));
  EXPECT_FALSE(plan_.is_active()) << "and so does another one";
  plan_.resume();
  EXPECT_FALSE(plan_.is_active()) << "until it is taken up";
  plan_.take_up();
  EXPECT_EQ(plan_.followed()->profile_name, "another");
}

TEST_F(PlanFollower, GivesItsPlansUpAndBack) {
  plan_.follow(plan_set(two_segments("a step")));
  auto before = plan_.give_up();
  EXPECT_FALSE(plan_.has_plan());
  EXPECT_EQ(before.at_hand()->followed().profile_name, "a step");
  plan_.follow(std::move(before));
  EXPECT_TRUE(plan_.is_active());
}

TEST_F(PlanFollower, GoesOnWithAnotherPlanInTheMidstOfAStep) {
  plan_.follow(for_two_links());
  plan_.begin_step();
  EXPECT_TRUE(plan_.enter(pass::forward, {0, 0, "h"}).empty());
  EXPECT_FALSE(plan_.change_in_step(1, 0.95));
  EXPECT_FALSE(plan_.has_changed_in_step());
  EXPECT_TRUE(plan_.change_in_step(0.5, 0.95));
  EXPECT_TRUE(plan_.has_changed_in_step());
  EXPECT_EQ(plan_.followed()->profile_name, "half");
  EXPECT_TRUE(plan_.enter(pass::forward, {0, 1, "h"}).empty());
  plan_.begin_step();
  EXPECT_FALSE(plan_.has_changed_in_step());
  plan_.choose(1, 0.95);
  EXPECT_EQ(plan_.followed()->profile_name, "as it is");
}

TEST_F(PlanFollower, TimesAreThePlansAtThePaceOfNow) {
  plan_.follow(plan_set(two_segments("a step")));
  plan_.begin_step();
  static_cast<void>(plan_.enter(pass::forward, {0, 0, "h"}));
  auto const planned_us = plan_.until_backward_us(0);
  ASSERT_TRUE(planned_us);
  plan_.set_pace(1.5);
  EXPECT_EQ(plan_.until_backward_us(0), 1.5 * *planned_us);
  EXPECT_FALSE(plan_.until_backward_us(7));
}

TEST_F(PlanFollower, WhatIsDueIsForgottenWithTheStep) {
  store::entry a({0, 0, "a"});
  store::entry b({0, 1, "b"});
  a.bytes = 10;
  b.bytes = 20;
  plan_.follow(plan_set(two_segments("a step")));
  plan_.due().push_back({&a, {}});
  plan_.due().push_back({&b, {}});
  EXPECT_EQ(plan_.due_bytes(), 30U);
  plan_.begin_step();
  EXPECT_EQ(plan_.due_bytes(), 0U);
  plan_.due().push_back({&a, {}});
  plan_.suspend();
  EXPECT_EQ(plan_.due_bytes(), 0U);
}

}  // namespace
}  // namespace ferry::follow
