// The transformer core on a GPU: its gradients are the same bits whatever became of the activations, and nearly those
// of the host device.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "ferry/nn/ops_cuda.hpp"
#include "ferry/plan.hpp"
#include "nn/training_fixture.hpp"
#include "support/gpu.hpp"

namespace ferry::nn::testing {
namespace {

class GpuTraining : public ferry::testing::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device_ == nullptr) return;
    try {
      operations_ = make_ops(dev());
    } catch (no_cuda const& problem) {
      ferry::testing::end_without(problem.what());
    }
  }
  void TearDown() override {
    operations_.reset();
    GpuTest::TearDown();
  }

  struct outcome {
    double loss = 0;
    std::vector<float> gradients;
  };

  /// Two steps, so that something is known of the first when the second begins.
  static outcome train(trainer& in_training, device& on, config const& settings) {
    session used(on, settings);
    auto const data = token_data::shipped();
    outcome seen;
    for (int step = 0; step < 2; ++step) seen.loss = in_training.step(used, data).loss;
    seen.gradients = in_training.gradients();
    return seen;
  }

  outcome train_here(policy_choice policy, attention_form attention, std::size_t budget_bytes = unlimited_bytes) {
    stream const compute(dev(), stream_kind::compute, "compute");
    trainer in_training(dev(), compute, *operations_, small_shape(attention), small_batch, {});
    return train(in_training, dev(), session_settings(policy, budget_bytes));
  }

  std::unique_ptr<ops> operations_;
};

TEST_F(GpuTraining, EveryPolicyGivesTheSameBits) {
  std::size_t const tight_bytes =
      smallest_budget(small_shape(), small_batch, 1, session_settings({.kind = policy_kind::offload}), unlimited_bytes);
  ASSERT_GT(tight_bytes, 0U);
  auto const kept = train_here({.kind = policy_kind::keep}, attention_form::tiled);
  EXPECT_TRUE(std::isfinite(kept.loss));
  for (auto const kind : {policy_kind::keep, policy_kind::offload, policy_kind::recompute, policy_kind::automatic}) {
    auto const again = train_here({.kind = kind}, attention_form::tiled);
    EXPECT_EQ(again.loss, kept.loss) << static_cast<int>(kind);
    EXPECT_TRUE(same_bits(again.gradients, kept.gradients)) << static_cast<int>(kind);
  }
  auto const tight = train_here({.kind = policy_kind::offload}, attention_form::tiled, tight_bytes);
  EXPECT_TRUE(same_bits(tight.gradients, kept.gradients));
}

TEST_F(GpuTraining, SoItDoesWithExplicitAttention) {
  auto const kept = train_here({.kind = policy_kind::keep}, attention_form::whole);
  auto const rebuilt = train_here({.kind = policy_kind::recompute}, attention_form::whole);
  EXPECT_TRUE(same_bits(rebuilt.gradients, kept.gradients));
}

TEST_F(GpuTraining, IsNearTheHost) {
  auto const here = train_here({.kind = policy_kind::keep}, attention_form::tiled);
  training_world host(small_shape());
  auto const there = train(host.in_training, *host.on, session_settings({.kind = policy_kind::keep}));
  EXPECT_NEAR(here.loss, there.loss, 1e-4 * there.loss);
  ASSERT_EQ(here.gradients.size(), there.gradients.size());
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < here.gradients.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(there.gradients[i])));
    difference = std::max(difference, std::abs(static_cast<double>(there.gradients[i]) - here.gradients[i]));
  }
  EXPECT_LT(difference, 1e-3 * largest);
}

TEST_F(GpuTraining, SaysHowItMultiplies) {
  std::printf("matrix products: %s\n", operations_->math_mode().c_str());
  EXPECT_THAT(operations_->math_mode(), ::testing::HasSubstr("TF32 off"));
}

}  // namespace
}  // namespace ferry::nn::testing
