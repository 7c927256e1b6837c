// The operations around the blocks, on the host device against the oracle: embedding, loss and optimiser. Bounds are
// those of error_bounds.hpp; results are written over NaNs, so that whatever an operation leaves out shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "ferry/nn/ops.hpp"
#include "nn/error_bounds.hpp"
#include "nn/ops_fixture.hpp"

namespace ferry::nn::testing {
namespace {

using Embedding = OpsTest;

TEST_F(Embedding, MatchesTheOracleWithTokensThatComeTwice) {
  struct shape {
    int B, T, C, V;
  };
  for (auto const& [B, T, C, V] :
       {shape{1, 1, 1, 1}, shape{2, 7, 33, 3}, shape{3, 40, 100, 11}, shape{1, 5, 255, 1000}}) {
    SCOPED_TRACE(::testing::Message() << B << " x " << T << " x " << C << " of " << V);
    int const rows = B * T;
    auto const tokens = random.below(V, rows);
    auto const wte = random(V * C), wpe = random(T * C), dout = random(rows * C);
    auto const there_tokens = world.upload(tokens);
    auto const there_wte = world.upload(wte), there_wpe = world.upload(wpe);
    auto const there_dout = world.upload(dout), x = world.poisoned(rows * C);
    world->embedding_forward(world.stream(), x, there_tokens, there_wte, there_wpe, {0, rows}, T, C, V);
    values const expected = oracle::embedding_forward(tokens, widened(wte), widened(wpe), T, C);
    expect_close(world.download(x), expected, scaled(sizes_of(expected), unit), "x");
    for (bool const accumulate : {false, true}) {
      auto const wte_before = random(V * C), wpe_before = random(T * C);
      auto const dwte = world.upload(wte_before);
      auto const dwpe = accumulate ? world.upload(wpe_before) : world.poisoned(T * C);
      world->embedding_backward(world.stream(), dwte, dwpe, there_dout, there_tokens, B, T, C, V, accumulate);
      auto const d = oracle::embedding_backward(widened(dout), tokens, T, C, V);
      auto const sizes = oracle::embedding_backward(sizes_of(widened(dout)), tokens, T, C, V);
      values const wpe_start = accumulate ? widened(wpe_before) : values(T * C);
      expect_close(world.download(dwte), sum_of(d.wte, widened(wte_before)),
                   scaled(sum_of(sizes.wte, sizes_of(widened(wte_before))), growth(rows) * unit), "dwte");
      expect_close(world.download(dwpe), sum_of(d.wpe, wpe_start),
                   scaled(sum_of(sizes.wpe, sizes_of(wpe_start)), growth(B) * unit), "dwpe");
    }
  }
}

using CrossEntropy = OpsTest;

void expect_cross_entropy(ops_world& world, std::vector<float> const& logits, indices const& targets, int V) {
  int const rows = static_cast<int>(targets.size());
  auto const there_targets = world.upload(targets);
  auto const kept = world.upload(logits), losses = world.poisoned(rows);
  world->cross_entropy(world.stream(), losses, kept, there_targets, rows, V, 0);
  auto const expected = oracle::cross_entropy(widened(logits), targets, rows, V);
  auto const bound = cross_entropy_bound(widened(logits), targets, rows, V);
  SCOPED_TRACE(::testing::Message() << rows << " x " << V);
  expect_close(world.download(losses), expected.losses, bound.losses, "losses");
  EXPECT_EQ(world.download(kept), logits) << "without a gradient logits stay";
  for (float const scale : {1.0F, 0.03125F}) {
    auto const gradient = world.upload(logits), losses_too = world.poisoned(rows);
    world->cross_entropy(world.stream(), losses_too, gradient, there_targets, rows, V, scale);
    expect_close(world.download(gradient), scaled(expected.dlogits, scale), scaled(bound.dlogits, scale), "gradient");
    EXPECT_EQ(world.download(losses_too), world.download(losses));
  }
}

TEST_F(CrossEntropy, MatchesTheOracle) {
  for (auto const& [rows, V] : row_shapes) {
    expect_cross_entropy(world, random(rows * V, 5), random.below(V, rows), V);
  }
  expect_cross_entropy(world, random(3 * 50257, 10), {0, 50256, 12345}, 50257);
}

TEST_F(CrossEntropy, StandsLargeLogits) {
  int const V = 33;
  std::vector<float> logits;
  for (int i = 0; i < V; ++i) logits.push_back(80.0F);   // all equal
  for (int i = 0; i < V; ++i) logits.push_back(-80.0F);  // all equal
  for (int i = 0; i < V; ++i) logits.push_back(i % 2 == 0 ? 80.0F : -80.0F);
  for (int i = 0; i < V; ++i) logits.push_back(i == 4 ? 80.0F : -80.0F);  // a target that is all but impossible
  for (int i = 0; i < V; ++i) logits.push_back(i == 4 ? 1e4F : -1e4F);    // and one that is sure
  expect_cross_entropy(world, logits, {0, 32, 1, 7, 4}, V);
}

TEST_F(CrossEntropy, DoesNotHideNans) {
  int const V = 17;
  for (int const place : {0, 5, 16}) {
    for (float const scale : {0.0F, 1.0F}) {
      auto values_with_nan = random(2 * V);
      values_with_nan[V + place] = not_a_number;
      auto const logits = world.upload(values_with_nan), losses = world.upload(random(2));
      auto const targets = world.upload(indices{3, 5});
      world->cross_entropy(world.stream(), losses, logits, targets, 2, V, scale);
      auto const lost = world.download(losses), gradient = world.download(logits);
      EXPECT_FALSE(std::isnan(lost[0]));
      EXPECT_TRUE(std::isnan(lost[1]));
      if (scale == 0) continue;
      for (int i = 0; i < 2 * V; ++i) EXPECT_EQ(std::isnan(gradient[i]), i >= V) << i;
    }
  }
}

TEST_F(CrossEntropy, LossesAreAddedInDouble) {
  for (int const rows : {1, 33, 5000}) {
    auto const losses = random(rows);
    auto const there_losses = world.upload(losses);
    auto const total = world.upload(std::vector<double>{0.5});
    world->add_losses(world.stream(), total, there_losses, rows, 0.25);
    world->add_losses(world.stream(), total, there_losses, rows, 0.25);
    double expected = 0.5;
    for (float const loss : losses) expected += 0.5 * static_cast<double>(loss);
    EXPECT_NEAR(world.download(total)[0], expected, rows * rows * 0x1p-52);
  }
}

using Optimiser = OpsTest;

TEST_F(Optimiser, SetsToZeroWhatItIsToldAndNoMore) {
  for (std::size_t const count : {1, 33, 8192, 8193, 20000}) {
    auto const before = random(count + 1);
    auto const x = world.upload(before);
    world->set_to_zero(world.stream(), x, count);
    auto expected = std::vector<float>(count, 0.0F);
    expected.push_back(before.back());
    EXPECT_EQ(world.download(x), expected);
  }
}

TEST_F(Optimiser, NormAndClipFactorMatchTheOracle) {
  for (std::size_t const count : {1, 5, 100, 8191, 8192, 8193, 50000}) {
    auto const gradient = random(count, 3);
    double const norm = oracle::norm(widened(gradient));
    for (double const limit : {0.0, 0.5 * norm, 2 * norm}) {
      auto const there = world.upload(gradient), clip = world.poisoned(2);
      auto const workspace = world.upload(std::vector<double>(ops::norm_workspace_doubles(count), not_a_number));
      world->gradient_norm(world.stream(), clip, there, workspace, count, static_cast<float>(limit));
      // Squares of one block are added in float; their root halves the error.
      double const relative = (growth(std::min<double>(static_cast<double>(count), 8192)) / 2 + 4) * unit;
      double const factor = oracle::clip_factor(norm, limit);
      expect_close(world.download(clip), {norm, factor}, {norm * relative, factor * (relative + 2 * unit)}, "clip");
    }
  }
}

TEST_F(Optimiser, AdamwMatchesTheOracleStepByStep) {
  for (std::size_t const count : {1, 33, 8193, 20000}) {
    auto const weight = world.upload(random(count)), m = world.upload(std::vector<float>(count));
    auto const v = world.upload(std::vector<float>(count));
    for (int step = 1; step <= 4; ++step) {
      adamw_step how{.learning_rate = 0.01F, .weight_decay = step % 2 == 0 ? 0.1F : 0.0F};
      how.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(how.beta1), step));
      how.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(how.beta2), step));
      float const clip = step == 3 ? 0.25F : 1.0F;
      auto gradient = random(count);
      gradient.back() = 0;  // nothing but epsilon keeps this from 0 / 0
      auto const there_gradient = world.upload(gradient);
      auto const there_clip = world.upload(std::vector<float>{not_a_number, clip});
      oracle::adamw_state state{widened(world.download(weight)), widened(world.download(m)),
                                widened(world.download(v))};
      auto const bound = adamw_bound(state, widened(gradient), clip, step, how);
      oracle::adamw(state, widened(gradient), clip, step, how);
      world->adamw(world.stream(), weight, there_gradient, m, v, there_clip, count, how);
      SCOPED_TRACE(::testing::Message() << count << " values, step " << step);
      expect_close(world.download(weight), state.weight, bound.weight, "weight");
      expect_close(world.download(m), state.m, bound.m, "m");
      expect_close(world.download(v), state.v, bound.v, "v");
    }
  }
}

}  // namespace
}  // namespace ferry::nn::testing
