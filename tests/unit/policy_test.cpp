// Policies by hand, from what is known of an item to its placement.
#include "decide/policy.hpp"

#include <gtest/gtest.h>

#include "support/test_devices.hpp"

namespace ferry::decide {
namespace {

config settings_for(policy_kind kind, unsigned every = 0) {
  config settings;
  settings.policy = {kind, every};
  settings.min_bytes = 1024;
  return settings;
}

item_info item(std::uint32_t segment, bool has_recipe = true, bool boundary = true, std::size_t bytes = 4096) {
  return {{0, segment, "h"}, bytes, has_recipe, boundary, 0};
}

TEST(Policy, EachKindPlacesAnItem) {
  EXPECT_EQ(policy(settings_for(policy_kind::keep)).decide(item(1)).where, placement::keep);
  EXPECT_EQ(policy(settings_for(policy_kind::recompute)).decide(item(1, true, false)).where, placement::recompute);
  EXPECT_EQ(policy(settings_for(policy_kind::recompute)).decide(item(1)).where, placement::keep) << "a boundary";
  EXPECT_EQ(policy(settings_for(policy_kind::offload)).decide(item(1)).where, placement::offload);
  EXPECT_EQ(policy(settings_for(policy_kind::selective)).decide(item(1)).where, placement::recompute);
}

TEST(Policy, WithoutARecipeNothingIsDropped) {
  for (auto const kind : {policy_kind::recompute, policy_kind::every, policy_kind::sqrt, policy_kind::selective}) {
    auto const decided = policy(settings_for(kind, 2)).decide(item(5, false));
    EXPECT_EQ(decided.where, placement::keep);
  }
}

TEST(Policy, SmallItemsStay) {
  for (auto const kind : {policy_kind::recompute, policy_kind::offload}) {
    auto const decided = policy(settings_for(kind)).decide(item(5, true, false, 1023));
    EXPECT_EQ(decided.where, placement::keep);
    EXPECT_EQ(decided.why, reason::kept_below_min_bytes);
  }
}

TEST(Policy, EveryKeepsBoundariesOnly) {
  policy every(settings_for(policy_kind::every, 4));
  EXPECT_EQ(every.decide(item(8)).where, placement::keep);
  EXPECT_EQ(every.decide(item(9)).where, placement::recompute);
  EXPECT_EQ(every.decide(item(8, true, false)).where, placement::recompute);
}

TEST(Policy, SqrtUsesTheLengthOfTheLastStep) {
  auto const device = testing::make_checked_host({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  store::tiered_store const store(*device, {1 << 16, 0, 0});
  policy root(settings_for(policy_kind::sqrt));
  int kept_unknown = 0;
  for (std::uint32_t s = 0; s < 100; ++s) kept_unknown += root.decide(item(s)).where == placement::keep;
  EXPECT_EQ(kept_unknown, 14);  // 0, 1, 3, 6, ..., 91
  root.learn(store, 1, 0);
  for (std::uint32_t s = 0; s < 100; ++s) {
    EXPECT_EQ(root.decide(item(s)).where, s % 10 == 0 ? placement::keep : placement::recompute) << s;
  }
}

TEST(Policy, SelectiveKeepsTheDearestPerByteThatFit) {
  auto const device = testing::make_checked_host({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  store::tiered_store store(*device, {10'000 / 256 * 256, 0, 0});
  auto const remember = [&](std::uint32_t segment, std::size_t bytes, double recipe_us) {
    auto& e = store.admit({0, segment, "h"});
    e.saved_in_step = 1;
    e.record.stats.bytes = bytes;
    e.record.stats.recipe_us = recipe_us;
  };
  remember(0, 4000, 10);    // cheap per byte
  remember(1, 4000, 400);   // dear
  remember(2, 9000, 8000);  // dearest, but does not fit
  remember(3, 2000, 100);   // dear
  remember(4, 2000, 0);     // never rebuilt: nothing is known
  policy selective(settings_for(policy_kind::selective));
  EXPECT_TRUE(selective.measuring());
  selective.learn(store, 1, 3000);
  EXPECT_FALSE(selective.measuring());
  for (std::uint32_t s = 0; s < 5; ++s) {
    EXPECT_EQ(selective.decide(item(s)).where, s == 1 || s == 3 ? placement::keep : placement::recompute) << s;
  }
}

TEST(Policy, SaysOnceWhatCannotBeDropped) {
  auto const device = testing::make_checked_host({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  store::tiered_store const store(*device, {1 << 16, 0, 0});
  policy every(settings_for(policy_kind::every, 3));
  auto const step = [&](std::uint32_t segments) {
    every.learn(store, 1, 0);
    for (std::uint32_t s = 0; s < segments; ++s) static_cast<void>(every.decide(item(s, false)));
    return every.step_ended();
  };
  EXPECT_FALSE(step(1)) << "segment 0 is kept anyway";
  EXPECT_EQ(every.shortcoming(), "");
  EXPECT_TRUE(step(6));
  EXPECT_FALSE(step(7)) << "it was said";
  EXPECT_FALSE(step(1));
  auto const words = every.shortcoming();
  EXPECT_NE(words.find("FERRY_POLICY=every=3 keeps more than it says: 4 of a step's items"), std::string::npos)
      << words;
  EXPECT_NE(words.find("the first of them h (segment 1, micro-batch 0)"), std::string::npos) << words;
}

TEST(Policy, DoesWhatItSaysWhereNothingElseWasToBeDropped) {
  for (auto const kind : {policy_kind::recompute, policy_kind::selective, policy_kind::offload, policy_kind::keep}) {
    policy other(settings_for(kind));
    static_cast<void>(other.decide(item(1, false)));
    EXPECT_FALSE(other.step_ended());
  }
  policy root(settings_for(policy_kind::sqrt));
  static_cast<void>(root.decide(item(2, false, true, 1023)));
  EXPECT_FALSE(root.step_ended()) << "too small to be dropped at all";
  static_cast<void>(root.decide(item(2, true)));
  EXPECT_FALSE(root.step_ended()) << "it has a recipe";
  root.set_function([](item_info const&) { return placement::recompute; });
  static_cast<void>(root.decide(item(2, false)));
  EXPECT_FALSE(root.step_ended()) << "a function decides, not the policy";
  root.set_function({});
  static_cast<void>(root.decide(item(2, false)));
  EXPECT_TRUE(root.step_ended());
}

TEST(Policy, AFunctionOverrides) {
  policy p(settings_for(policy_kind::keep));
  p.set_function([](item_info const&) { return placement::offload; });
  EXPECT_EQ(p.decide(item(0)).where, placement::offload);
  p.set_function({});
  EXPECT_EQ(p.decide(item(0)).where, placement::keep);
}

}  // namespace
}  // namespace ferry::decide
