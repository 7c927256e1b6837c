// Against Hugging Face: a model that GPT2LMHeadModel.save_pretrained wrote, with the loss and gradients that PyTorch
// found for it (tests/data/hf_gpt2*.safetensors; dropout off, batch as below).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/nn/checkpoint.hpp"
#include "ferry/nn/gpt.hpp"
#include "ferry/nn/safetensors.hpp"
#include "support/test_devices.hpp"

namespace ferry::nn {
namespace {

class HuggingFace : public ::testing::TestWithParam<attention_form> {};

TEST_P(HuggingFace, AgreesOnLossAndGradients) {
  std::filesystem::path const data(FERRY_TEST_DATA);
  auto shape = shape_of_model(data / "hf_gpt2.safetensors");
  shape.heads = 3;  // of 12 features: there is no config.json beside it
  shape.attention = GetParam();
  EXPECT_EQ(shape, (gpt_shape{.layers = 2,
                              .width = 12,
                              .heads = 3,
                              .context = 8,
                              .vocabulary = 32,
                              .tied = true,
                              .attention = GetParam()}));
  constexpr int B = 2;
  auto const on = ferry::testing::make_checked_host({.device_bytes = 4 << 20, .pinned_bytes = 16 << 20});
  {
    stream const compute(*on, stream_kind::compute, "compute");
    auto const with = make_host_ops(*on);
    gpt model(*on, compute, *with, shape, B);
    staging between(*on, compute);
    auto const weights = load_model(data / "hf_gpt2.safetensors", model.layout());
    between.upload(model.parameters().data(), weights.data(), weights.size() * sizeof(float));

    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    for (int b = 0; b < B; ++b) {
      for (int i = 0; i < shape.context; ++i) {
        tokens.push_back((5 * (8 * b + i) + 3 * b) % 32);
        targets.push_back((5 * (8 * b + i + 1) + 3 * b) % 32);
      }
    }
    config settings;
    settings.budget = byte_amount::exactly(1 << 20);
    settings.host_budget = byte_amount::exactly(1 << 20);
    session saved(*on, settings);
    saved.begin_step();
    model.pass(saved, tokens, targets, 0, 1);
    saved.end_step();

    safetensors_file const expected(data / "hf_gpt2_gradients.safetensors");
    EXPECT_NEAR(model.loss(), std::stod(expected.metadata().at("loss")), 2e-6);
    std::vector<float> gradients(model.layout().floats());
    between.download(gradients.data(), model.gradients().data(), gradients.size() * sizeof(float));
    ASSERT_EQ(expected.tensors().size(), model.layout().all().size());
    for (auto const& one : model.layout().all()) {
      auto const* const theirs = expected.find(one.name);
      ASSERT_NE(theirs, nullptr) << one.name;
      std::vector<float> values(one.count);
      expected.copy_floats(*theirs, values);
      float largest = 0;
      for (float const value : values) largest = std::max(largest, std::abs(value));
      for (std::size_t i = 0; i < one.count; ++i) {
        // Two roundings of float sums of a few hundred terms.
        EXPECT_NEAR(gradients[one.offset + i], values[i], 1e-5F * largest) << one.name << " at " << i;
      }
    }
  }
  EXPECT_TRUE(ferry::testing::order_violations(*on).empty());
}

INSTANTIATE_TEST_SUITE_P(BothForms, HuggingFace, ::testing::Values(attention_form::whole, attention_form::tiled),
                         [](auto const& of) { return of.param == attention_form::whole ? "Explicit" : "Tiled"; });

}  // namespace
}  // namespace ferry::nn
