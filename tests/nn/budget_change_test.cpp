// Budgets that change during training change no bit of it; and plans follow them.
#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "ferry/plan.hpp"
#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

constexpr int steps = 15;

struct outcome {
  std::vector<double> losses;
  std::vector<float> weights;
};

/// One budget after the other, a few steps each; all of the first if there is one only.
outcome train(config const& settings, std::vector<std::size_t> const& budgets, link_speed link = {}) {
  training_world world(small_shape(), small_batch, {.steps = steps, .warmup = 4, .seed = 7},
                       {.device_to_host = link, .host_to_device = link, .compute_threads = 2, .check_order = true});
  outcome result;
  {
    session on(*world.on, settings);
    std::size_t const each = (steps + budgets.size() - 1) / budgets.size();
    for (std::size_t i = 0; i < steps; ++i) {
      if (i % each == 0) on.set_budget(byte_amount::exactly(budgets[i / each]));
      result.losses.push_back(world.in_training.step(on, text()).loss);
      EXPECT_EQ(on.stats().device.limit_bytes, budgets[i / each]);
      EXPECT_LE(on.stats().device.now_bytes, budgets[i / each]);
    }
  }
  result.weights = world.in_training.weights();
  EXPECT_TRUE(world.on->order_violations().empty()) << world.on->order_violations().front();
  return result;
}

struct way {
  std::string name;
  policy_kind policy;
  friend std::ostream& operator<<(std::ostream& out, way const& which) { return out << which.name; }
};

class BudgetChange : public ::testing::TestWithParam<way> {};

TEST_P(BudgetChange, ChangesNoBit) {
  policy_choice const policy{GetParam().policy};
  auto const plain = train(session_settings({policy_kind::keep}), {unlimited_bytes});
  std::size_t const least = smallest_budget(small_shape(), small_batch, 1, session_settings(policy), unlimited_bytes);
  ASSERT_GT(least, 0U);
  std::size_t const small = least + least / 4 + (64 << 10);  // what fits may depend on when copies end
  for (link_speed const link : {link_speed{}, link_speed{0.1, 10}}) {
    auto const changing = train(session_settings(policy), {unlimited_bytes, small, 2 * small, small, 3 * small}, link);
    EXPECT_TRUE(same_bits(changing.losses, plain.losses));
    EXPECT_TRUE(same_bits(changing.weights, plain.weights));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, BudgetChange,
                         ::testing::Values(way{"Keep", policy_kind::keep}, way{"Recompute", policy_kind::recompute},
                                           way{"Offload", policy_kind::offload},
                                           way{"Selective", policy_kind::selective},
                                           way{"Auto", policy_kind::automatic}),
                         [](::testing::TestParamInfo<way> const& tested) { return tested.param.name; });

TEST(BudgetChangePlan, OfOurOwnIsMadeAnewAndAGivenOneStays) {
  training_world world(small_shape(), small_batch, {.steps = steps});
  auto const settings = session_settings({policy_kind::automatic}, unlimited_bytes / 2);
  plan made;
  {
    session on(*world.on, settings);
    auto const step_until_planned = [&] {
      for (int i = 0; i < 10'000 && on.followed() == nullptr; ++i)
        static_cast<void>(world.in_training.step(on, text()));
      return on.followed() != nullptr;
    };
    ASSERT_TRUE(step_until_planned());
    EXPECT_EQ(on.followed()->budget_bytes, unlimited_bytes / 2);
    on.set_budget(byte_amount::exactly(unlimited_bytes / 4));
    static_cast<void>(world.in_training.step(on, text()));
    ASSERT_TRUE(step_until_planned());
    EXPECT_EQ(on.followed()->budget_bytes, unlimited_bytes / 4);
    made = *on.followed();
  }
  auto loud = session_settings({policy_kind::automatic}, unlimited_bytes / 4);
  loud.log = log_level::warning;
  session on(*world.on, loud);
  on.follow(made);
  ::testing::internal::CaptureStderr();
  on.set_budget(byte_amount::exactly(unlimited_bytes / 2));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  static_cast<void>(world.in_training.step(on, text()));
  ::testing::internal::CaptureStderr();
  on.set_budget(byte_amount::exactly(unlimited_bytes / 4 - 4096));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("was made for 2.00 MiB: steps may run out of it"),
            std::string::npos);
  static_cast<void>(world.in_training.step(on, text()));
  ASSERT_NE(on.followed(), nullptr);
  EXPECT_EQ(*on.followed(), made);
}

}  // namespace
