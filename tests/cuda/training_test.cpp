// The transformer on the CUDA device, launched as on a GPU and executed by the emulation: five steps of a tiny GPT.
// With the host's own kernels behind the launches every bit is the host device's, whatever becomes of the activations;
// with a fiber for each CUDA thread sums are formed in another order, and results agree to a stated tolerance.
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cuda/cuda_fixture.hpp"
#include "cuda/serial_kernels.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/ops_cuda.hpp"
#include "ferry/nn/trainer.hpp"
#include "nn/training_fixture.hpp"

namespace ferry::testing {
namespace {

using namespace ferry::nn;
using namespace ferry::nn::testing;

constexpr int steps = 5;

struct outcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<float> weights;
};

training_options const options{.steps = steps, .accumulate = 2, .warmup = 2, .seed = 11};

outcome train(device& on, stream_ref compute, ops& with, gpt_shape const& shape, config const& settings) {
  trainer in_training(on, compute, with, shape, small_batch, options);
  auto const data = token_data::shipped();
  outcome result;
  {
    session activations(on, settings);
    for (int i = 0; i < steps; ++i) {
      result.losses.push_back(in_training.step(activations, data).loss);
      result.gradients.push_back(in_training.gradients());
    }
  }
  result.weights = in_training.weights();
  return result;
}

/// Everything kept, on the host device.
outcome const& on_host(attention_form attention) {
  static std::map<attention_form, outcome> known;
  auto const [place, is_new] = known.try_emplace(attention);
  if (is_new) {
    auto const on = make_host_device({.device_bytes = std::size_t{32} << 20, .pinned_bytes = std::size_t{32} << 20});
    stream const compute(*on, stream_kind::compute, "compute");
    auto const with = make_host_ops(*on);
    place->second = train(*on, compute, *with, small_shape(attention), session_settings({policy_kind::keep}));
  }
  return place->second;
}

class CudaTraining : public CudaTest {
 protected:
  outcome on_cuda(attention_form attention, config const& settings) {
    auto& dev = make({.device_bytes = std::size_t{64} << 20, .pinned_bytes = std::size_t{32} << 20});
    stream const compute(dev, stream_kind::compute, "compute");
    auto const with = make_ops(dev);
    return train(dev, compute, *with, small_shape(attention), settings);
  }
};

struct variant {
  char const* name;
  attention_form attention;
  policy_choice policy;
  std::size_t budget_bytes;
  friend std::ostream& operator<<(std::ostream& out, variant const& v) { return out << v.name; }
};

class CudaTrainingBits : public CudaTraining, public ::testing::WithParamInterface<variant> {};

TEST_P(CudaTrainingBits, AreTheHostDevices) {
  auto const& v = GetParam();
  cudasim::set_mode(cudasim::mode::serial);
  auto const& expected = on_host(v.attention);
  auto const seen = on_cuda(v.attention, session_settings(v.policy, v.budget_bytes));
  EXPECT_TRUE(same_bits(seen.losses, expected.losses));
  for (int i = 0; i < steps; ++i) EXPECT_TRUE(same_bits(seen.gradients[i], expected.gradients[i])) << "step " << i;
  EXPECT_TRUE(same_bits(seen.weights, expected.weights));
  EXPECT_GT(seen.losses.front(), seen.losses.back()) << "it learns";
}

constexpr std::size_t tight = 400 << 10;

INSTANTIATE_TEST_SUITE_P(
    , CudaTrainingBits,
    ::testing::Values(variant{"KeepTiled", attention_form::tiled, {policy_kind::keep}, unlimited_bytes},
                      variant{"KeepExplicit", attention_form::whole, {policy_kind::keep}, unlimited_bytes},
                      variant{"OffloadTiled", attention_form::tiled, {policy_kind::offload}, tight},
                      variant{"OffloadExplicit", attention_form::whole, {policy_kind::offload}, tight},
                      variant{"RecomputeTiled", attention_form::tiled, {policy_kind::recompute}, tight},
                      variant{"RecomputeExplicit", attention_form::whole, {policy_kind::recompute}, tight},
                      variant{"SelectiveTiled", attention_form::tiled, {policy_kind::selective}, tight},
                      variant{"AutomaticTiled", attention_form::tiled, {policy_kind::automatic}, tight}),
    [](auto const& of) { return std::string(of.param.name); });

/// Of the largest value.
double relative_difference(std::vector<float> const& a, std::vector<float> const& b) {
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return difference / largest;
}

struct fiber_variant {
  char const* name;
  attention_form attention;
  cudasim::thread_order order;
  friend std::ostream& operator<<(std::ostream& out, fiber_variant const& v) { return out << v.name; }
};

class CudaTrainingInFibers : public CudaTraining, public ::testing::WithParamInterface<fiber_variant> {};

TEST_P(CudaTrainingInFibers, AgreesWithTheHostDevice) {
  constexpr double tolerance = 1e-5;
  auto const& v = GetParam();
  auto const& expected = on_host(v.attention);
  cudasim::set_mode(cudasim::mode::fibers);
  cudasim::set_thread_order(v.order, 3);
  auto const seen = on_cuda(v.attention, session_settings({policy_kind::offload}, tight));
  for (int i = 0; i < steps; ++i) {
    EXPECT_NEAR(seen.losses[i], expected.losses[i], tolerance * expected.losses[i]);
    double const gradients = relative_difference(seen.gradients[i], expected.gradients[i]);
    EXPECT_LT(gradients, tolerance) << "step " << i;
    std::printf("step %d: gradients differ by %.1e of the largest\n", i, gradients);
  }
  EXPECT_LT(relative_difference(seen.weights, expected.weights), tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    , CudaTrainingInFibers,
    ::testing::Values(fiber_variant{"Tiled", attention_form::tiled, cudasim::thread_order::shuffled},
                      fiber_variant{"Explicit", attention_form::whole, cudasim::thread_order::reverse}),
    [](auto const& of) { return std::string(of.param.name); });

/// A call that fails at any point of a step: the next try gives the same bits.
TEST_F(CudaTraining, WhatFailsOnceIsTriedAgainToTheSameBits) {
  cudasim::set_mode(cudasim::mode::serial);
  auto const& expected = on_host(attention_form::tiled);
  auto& dev = make({.device_bytes = std::size_t{64} << 20, .pinned_bytes = std::size_t{32} << 20});
  stream const compute(dev, stream_kind::compute, "compute");
  auto const with = make_ops(dev);
  trainer in_training(dev, compute, *with, small_shape(), small_batch, options);
  auto const data = token_data::shipped();
  std::vector<double> losses;
  int failures = 0;
  for (int i = 0; i < steps; ++i) {
    for (int tries = 0;; ++tries) {
      try {
        session activations(dev, session_settings({policy_kind::offload}, tight));
        char const* const function = i % 2 == 0 ? "cudaLaunchKernelEx" : "cublasGemmStridedBatchedEx";
        if (tries == 0) cudasim::fail(function, 7 + 5 * i, cudaErrorUnknown);
        losses.push_back(in_training.step(activations, data).loss);
        break;
      } catch (cuda_error const&) {
        ++failures;
      }
    }
  }
  EXPECT_EQ(failures, steps);
  EXPECT_TRUE(same_bits(losses, expected.losses));
}

}  // namespace
}  // namespace ferry::testing
