// The trainer: it learns, its schedule and its update are what they say, it can be stopped and gone on with, and
// nothing that is asked of it beside training changes training.
#include "ferry/nn/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/nn/sample.hpp"
#include "nn/error_bounds.hpp"
#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

/// Trains in a session of its own, in which everything stays on the device.
std::vector<double> losses_of(training_world& world, int steps) {
  session on(*world.on, session_settings({policy_kind::keep}));
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(world.in_training.step(on, text()).loss);
  return losses;
}

double mean(std::span<double const> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

TEST(Trainer, LossFallsOnTheShippedText) {
  training_world world(small_shape(), 8, {.steps = 60, .learning_rate = 1e-2F, .warmup = 5});
  session on(*world.on, session_settings({policy_kind::offload}));
  std::vector<double> losses;
  double const before = world.in_training.validate(on, text(), 4);
  for (int i = 0; i < 60; ++i) losses.push_back(world.in_training.step(on, text()).loss);
  // Nothing is known at first: all 256 bytes are as likely. Letters are far from that.
  EXPECT_NEAR(losses.front(), std::log(256), 0.1);
  EXPECT_NEAR(before, std::log(256), 0.1);
  EXPECT_LT(mean(std::span(losses).last(5)), mean(std::span(losses).first(5)) - 1.5);
  EXPECT_LT(world.in_training.validate(on, text(), 4), before - 1.5);
}

TEST(Trainer, StepSaysWhatItDid) {
  training_world world(small_shape(), small_batch, {.steps = 10, .learning_rate = 1e-3F, .warmup = 4});
  session on(*world.on, session_settings({policy_kind::keep}));
  EXPECT_EQ(world.in_training.steps_done(), 0U);
  auto const result = world.in_training.step(on, text());
  EXPECT_EQ(world.in_training.steps_done(), 1U);
  EXPECT_EQ(result.learning_rate, 1e-3F / 4);
  EXPECT_GT(result.seconds, 0);
  auto const gradients = world.in_training.gradients();
  double const norm = oracle::norm(widened(gradients));
  EXPECT_NEAR(result.gradient_norm, norm, 1e-5 * norm);  // squares are added up in float, some thousands at a time
}

/// Up by equal parts to 8e-3 at step 3, down on half a cosine from 4 on, and a tenth from step 12.
TEST(LearningRate, ByHand) {
  training_options const options{.steps = 12, .learning_rate = 8e-3F, .warmup = 4, .final_fraction = 0.1F};
  std::vector<double> const expected{2e-3,
                                     4e-3,
                                     6e-3,
                                     8e-3,  // a quarter each
                                     8e-3,  // cos(0) = 1
                                     8e-3 * (0.1 + 0.9 * (1 + std::cos(std::acos(-1.0) / 8)) / 2),
                                     8e-3 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2),
                                     8e-3 * (0.1 + 0.9 * (1 + std::cos(std::acos(-1.0) * 3 / 8)) / 2),
                                     8e-3 * 0.55,  // half way
                                     8e-3 * (0.1 + 0.9 * (1 - std::cos(std::acos(-1.0) * 3 / 8)) / 2),
                                     8e-3 * (0.1 + 0.9 * (1 - std::sqrt(0.5)) / 2),
                                     8e-3 * (0.1 + 0.9 * (1 - std::cos(std::acos(-1.0) / 8)) / 2),
                                     8e-4,
                                     8e-4};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(learning_rate(options, i), expected[i], 1e-9) << i;
  }
  EXPECT_NEAR(learning_rate(options, 1'000'000), 8e-4, 1e-9);
}

TEST(LearningRate, WithoutAWarmUpBeginsAtTheTop) {
  training_options const options{.steps = 2, .learning_rate = 1e-2F, .warmup = 0, .final_fraction = 0};
  EXPECT_FLOAT_EQ(learning_rate(options, 0), 1e-2F);
  EXPECT_FLOAT_EQ(learning_rate(options, 1), 5e-3F);
  EXPECT_EQ(learning_rate(options, 2), 0.0F);
}

TEST(LearningRate, MayNeverGetBeyondTheWarmUp) {
  training_options const options{.steps = 3, .learning_rate = 1e-2F, .warmup = 10};
  EXPECT_FLOAT_EQ(learning_rate(options, 2), 3e-3F);
  EXPECT_FLOAT_EQ(learning_rate(options, 9), 1e-2F);
  EXPECT_FLOAT_EQ(learning_rate(options, 10), 1e-3F);
}

/// One step, with and without decay, differs by rate * decay * weight in matrices and by nothing elsewhere.
TEST(Trainer, DecaysMatricesOnly) {
  auto const after = [](float decay) {
    training_world world(small_shape(), small_batch, {.learning_rate = 0.5F, .warmup = 0, .weight_decay = decay});
    auto const before = world.in_training.weights();
    static_cast<void>(losses_of(world, 1));
    return std::pair(before, world.in_training.weights());
  };
  auto const [before, without] = after(0);
  auto const [same_before, with] = after(0.1F);
  ASSERT_TRUE(same_bits(before, same_before));
  parameter_layout const layout(small_shape());
  for (auto const& one : layout.all()) {
    bool const matrix = one.shape.size() == 2;
    for (std::size_t i = one.offset; i < one.offset + one.count; ++i) {
      if (!matrix) {
        ASSERT_EQ(with[i], without[i]) << one.name;
      } else {
        // The update itself is up to 0.5, and is rounded with the weight.
        ASSERT_NEAR(with[i], without[i] - 0.05 * before[i], 4 * unit) << one.name;
      }
    }
  }
}

/// After the first step m is (1 - beta1) times the gradient that was used.
TEST(Trainer, ClipsTheGradientsNorm) {
  auto const after = [](float clip) {
    training_world world(small_shape(), small_batch, {.clip = clip});
    session on(*world.on, session_settings({policy_kind::keep}));
    float const norm = world.in_training.step(on, text()).gradient_norm;
    return std::pair(norm, oracle::norm(widened(world.in_training.save_state().m)) / 0.1);
  };
  auto const [norm, used] = after(0);  // no limit
  ASSERT_GT(norm, 0.1F);
  EXPECT_NEAR(used, norm, 1e-5 * norm);
  auto const [norm_above, used_above] = after(norm / 4);
  EXPECT_EQ(norm_above, norm);  // it is told as it was
  EXPECT_NEAR(used_above, norm / 4, 1e-5 * norm);
  auto const [norm_below, used_below] = after(norm * 4);
  EXPECT_EQ(norm_below, norm);
  EXPECT_EQ(used_below, used);
}

/// Every step, from the state before and the gradients: by the definition of AdamW, with decay for matrices alone.
TEST(Trainer, UpdatesByAdamW) {
  training_world world(small_shape(), small_batch, {.learning_rate = 1e-2F, .warmup = 2, .clip = 0.5F});
  session on(*world.on, session_settings({policy_kind::keep}));
  std::size_t const decayed = world.in_training.model().layout().decayed_floats();
  for (int step = 1; step <= 4; ++step) {
    auto const before = world.in_training.save_state();
    auto const result = world.in_training.step(on, text());
    auto const after = world.in_training.save_state();
    auto const gradients = world.in_training.gradients();
    double const clip = oracle::clip_factor(result.gradient_norm, 0.5);
    adamw_step how{.learning_rate = result.learning_rate, .weight_decay = 0.1F};
    auto const expect_part = [&](std::size_t first, std::size_t end) {
      auto const part = [&](std::vector<float> const& of) { return values(of.begin() + first, of.begin() + end); };
      oracle::adamw_state expected{part(before.weights), part(before.m), part(before.v)};
      auto bound = adamw_bound(expected, part(gradients), clip, step, how);
      // The factor, and the norm that it is from, are rounded too.
      for (std::size_t i = 0; i < bound.m.size(); ++i) {
        bound.m[i] += 4 * unit * std::abs(gradients[first + i] * clip);
        bound.v[i] *= 2;
      }
      oracle::adamw(expected, part(gradients), clip, step, how);
      auto const floats = [&](std::vector<float> const& of) {
        return std::vector<float>(of.begin() + first, of.begin() + end);
      };
      expect_close(floats(after.m), expected.m, bound.m, "m");
      expect_close(floats(after.v), expected.v, bound.v, "v");
      expect_close(floats(after.weights), expected.weight, bound.weight, "weights");
    };
    expect_part(0, decayed);
    how.weight_decay = 0;
    expect_part(decayed, gradients.size());
  }
}

/// Two micro-batches of B and one batch of 2B that hold the same windows differ by the order of their sums alone. Those
/// are over rows; sums within a row are the same in both.
TEST(Trainer, AccumulationIsALargerBatch) {
  for (auto const attention : {attention_form::tiled, attention_form::whole}) {
    auto const shape = small_shape(attention);
    training_world halves(shape, 2), whole(shape, 4);
    std::vector<std::int32_t> tokens(4 * 16), targets(4 * 16);
    text().fill_batch(split::training, 3, 0, 4, 16, tokens.data(), targets.data());

    session on(*whole.on, session_settings({policy_kind::keep}));
    on.begin_step();
    whole.in_training.model().pass(on, tokens, targets, 0, 1);
    on.end_step();
    session on_halves(*halves.on, session_settings({policy_kind::keep}));
    on_halves.begin_step();
    for (std::uint32_t i = 0; i < 2; ++i) {
      halves.in_training.model().pass(on_halves, std::span(tokens).subspan(i * 32, 32),
                                      std::span(targets).subspan(i * 32, 32), i, 2);
    }
    on_halves.end_step();

    EXPECT_NEAR(halves.in_training.model().loss(), whole.in_training.model().loss(), 1e-6);
    auto const a = halves.in_training.gradients(), b = whole.in_training.gradients();
    for (auto const& one : whole.in_training.model().layout().all()) {
      double most = 0, off = 0;
      for (std::size_t i = one.offset; i < one.offset + one.count; ++i) {
        most = std::max(most, std::abs(static_cast<double>(b[i])));
        off = std::max(off, std::abs(static_cast<double>(a[i]) - b[i]));
      }
      EXPECT_LE(off, growth(4 * 16) * unit * most) << one.name;
    }
  }
}

TEST(Trainer, GoesOnFromASavedStateBitForBit) {
  for (std::uint32_t const accumulate : {1U, 2U}) {
    training_options const options{.steps = 10, .accumulate = accumulate, .warmup = 3};
    training_world all(small_shape(), small_batch, options), first(small_shape(), small_batch, options),
        second(small_shape(), small_batch, options);
    auto const expected = losses_of(all, 10);
    auto losses = losses_of(first, 5);
    auto const state = first.in_training.save_state();
    EXPECT_EQ(state.steps_done, 5U);
    static_cast<void>(losses_of(second, 2));  // whatever it had done before
    second.in_training.restore_state(state);
    EXPECT_EQ(second.in_training.steps_done(), 5U);
    std::ranges::copy(losses_of(second, 5), std::back_inserter(losses));
    EXPECT_TRUE(same_bits(losses, expected));
    auto const a = second.in_training.save_state(), b = all.in_training.save_state();
    EXPECT_TRUE(same_bits(a.weights, b.weights));
    EXPECT_TRUE(same_bits(a.m, b.m));
    EXPECT_TRUE(same_bits(a.v, b.v));
    EXPECT_EQ(a.steps_done, b.steps_done);
  }
}

TEST(Trainer, StartsFromTheSeed) {
  auto const weights_of = [](std::uint64_t seed) {
    training_world world(small_shape(), small_batch, {.seed = seed});
    return world.in_training.weights();
  };
  EXPECT_TRUE(same_bits(weights_of(1), weights_of(1)));
  EXPECT_FALSE(same_bits(weights_of(1), weights_of(2)));
}

TEST(Trainer, ValidationAndSamplesDoNotChangeTraining) {
  training_world plain(small_shape()), looked_at(small_shape());
  auto const expected = losses_of(plain, 6);
  session on(*looked_at.on, session_settings({policy_kind::offload}));
  std::vector<double> losses;
  for (int i = 0; i < 6; ++i) {
    double const once = looked_at.in_training.validate(on, text(), 2);
    EXPECT_EQ(looked_at.in_training.validate(on, text(), 2), once);
    static_cast<void>(sample(looked_at.in_training.model(), on, {'a'}, {.tokens = 3}, [] { return false; }));
    losses.push_back(looked_at.in_training.step(on, text()).loss);
  }
  EXPECT_TRUE(same_bits(losses, expected));
  EXPECT_TRUE(same_bits(looked_at.in_training.weights(), plain.in_training.weights()));
  EXPECT_EQ(on.stats().saves, 6U * 4 * 8);  // of training alone
}

TEST(Trainer, ValidatesOnTheTextThatIsNotTrainedOn) {
  training_world world(small_shape());
  session on(*world.on, session_settings({policy_kind::keep}));
  std::vector<std::int32_t> tokens(2 * 16), targets(2 * 16);
  double sum = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    text().fill_batch(split::validation, 1, i, 2, 16, tokens.data(), targets.data());
    sum += world.in_training.model().evaluate(on, tokens, targets);
  }
  EXPECT_EQ(world.in_training.validate(on, text(), 3), sum / 3);
}

/// The step that failed has not been: the next, in a larger session, is the same step.
TEST(Trainer, AStepWithoutRoomLeavesTheWeights) {
  for (auto const kind : {policy_kind::keep, policy_kind::offload, policy_kind::recompute}) {
    training_world plain(small_shape()), world(small_shape());
    auto const expected = losses_of(plain, 4);
    auto losses = losses_of(world, 2);
    auto const before = world.in_training.save_state();
    for (std::size_t const budget : {4 << 10, 40 << 10}) {
      session small(*world.on, session_settings({kind}, budget));
      EXPECT_THROW(static_cast<void>(world.in_training.step(small, text())), out_of_memory);
    }
    auto const after = world.in_training.save_state();
    EXPECT_EQ(after.steps_done, 2U);
    EXPECT_TRUE(same_bits(after.weights, before.weights));
    EXPECT_TRUE(same_bits(after.m, before.m));
    EXPECT_TRUE(same_bits(after.v, before.v));
    std::ranges::copy(losses_of(world, 2), std::back_inserter(losses));
    EXPECT_TRUE(same_bits(losses, expected));
  }
}

/// So that the session's memory may go at once.
TEST(Trainer, AfterAStepWithoutRoomNothingRuns) {
  std::atomic<int> operations = 0;
  training_world world(small_shape(), small_batch, {}, {.compute_threads = 1, .before_operation = [&](label const&) {
                                                          std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                                          ++operations;
                                                        }});
  config settings = session_settings({policy_kind::keep}, 150 << 10);
  settings.run_ahead = 100;  // the host runs out of room long before the device gets there
  session on(*world.on, settings);
  EXPECT_THROW(static_cast<void>(world.in_training.step(on, text())), out_of_memory);
  int const until_then = operations;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(operations, until_then);
}

}  // namespace
