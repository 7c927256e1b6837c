// The smallest budget that a step can run with: real steps run with it, and hardly with less.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ferry/error.hpp"
#include "ferry/plan.hpp"
#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

bool budget_works(gpt_shape const& shape, policy_choice policy, std::uint32_t accumulate, std::size_t bytes) {
  training_world world(shape, small_batch, {.accumulate = accumulate});
  try {
    session on(*world.on, session_settings(policy, bytes));
    for (int i = 0; i < 4; ++i) static_cast<void>(world.in_training.step(on, text()));
    return true;
  } catch (out_of_memory const&) {
    return false;
  }
}

gpt_shape shape_of_several_units(attention_form attention) {
  auto shape = small_shape(attention);
  shape.width = 96;
  return shape;
}

/// Exact to a unit: real steps run with the figure, and do not with two units less.
TEST(SmallestBudget, IsEnoughAndHardlyMore) {
  for (policy_choice const& policy : {policy_choice{policy_kind::keep}, policy_choice{policy_kind::recompute},
                                      policy_choice{policy_kind::every, 2}, policy_choice{policy_kind::sqrt}}) {
    for (auto const attention : {attention_form::tiled, attention_form::whole}) {
      std::uint32_t const accumulate = attention == attention_form::tiled ? 1 : 2;
      SCOPED_TRACE(::testing::Message() << static_cast<int>(policy.kind) << " " << to_string(attention));
      auto const shape = shape_of_several_units(attention);
      std::size_t const least =
          smallest_budget(shape, small_batch, accumulate, session_settings(policy), unlimited_bytes);
      EXPECT_TRUE(budget_works(shape, policy, accumulate, least));
      std::size_t const unit_bytes = std::max<std::size_t>(64 << 10, least / 50);
      ASSERT_GT(least, 2 * unit_bytes);
      EXPECT_FALSE(budget_works(shape, policy, accumulate, least - 2 * unit_bytes));
    }
  }
}

TEST(SmallestBudget, IsTheSameWhateverDeviceTheTrainingIsFor) {
  auto const shape = shape_of_several_units(attention_form::tiled);
  auto settings = session_settings({policy_kind::recompute});
  std::size_t const least = smallest_budget(shape, small_batch, 1, settings, unlimited_bytes);
  EXPECT_GT(least, 0U);
  for (char const* const other : {"sim", "cuda", "cuda:1"}) {
    settings.device = other;
    EXPECT_EQ(smallest_budget(shape, small_batch, 1, settings, unlimited_bytes), least);
  }
}

/// Where timing has a say there is some room to spare, so it is no more than enough.
TEST(SmallestBudget, IsEnoughWhateverTheTiming) {
  for (auto const kind : {policy_kind::offload, policy_kind::selective}) {
    for (auto const attention : {attention_form::tiled, attention_form::whole}) {
      auto const shape = shape_of_several_units(attention);
      std::size_t const least = smallest_budget(shape, small_batch, 2, session_settings({kind}), unlimited_bytes);
      EXPECT_TRUE(budget_works(shape, {kind}, 2, least)) << static_cast<int>(kind);
    }
  }
}

TEST(SmallestBudget, IsZeroIfNoneIsEnough) {
  auto const shape = small_shape();
  auto const smallest = [&](policy_kind kind, std::size_t most) {
    return smallest_budget(shape, small_batch, 1, session_settings({kind}), most);
  };
  EXPECT_EQ(smallest(policy_kind::keep, 64 << 10), 0U);
  EXPECT_EQ(smallest(policy_kind::keep, 200 << 10), 0U);
  std::size_t const least = smallest(policy_kind::keep, unlimited_bytes);
  EXPECT_EQ(smallest(policy_kind::keep, least), least);
  EXPECT_EQ(smallest(policy_kind::keep, least - (128 << 10)), 0U);
}

/// Ferrying and forgetting need less than keeping.
TEST(SmallestBudget, IsSmallerForWhatMovesOrForgets) {
  auto shape = small_shape();
  shape.layers = 8;
  auto const smallest = [&](policy_kind kind) {
    return smallest_budget(shape, small_batch, 1, session_settings({kind}), unlimited_bytes);
  };
  std::size_t const keep = smallest(policy_kind::keep);
  EXPECT_LT(smallest(policy_kind::offload), keep / 2);
  EXPECT_LT(smallest(policy_kind::recompute), keep / 2);
}

}  // namespace
