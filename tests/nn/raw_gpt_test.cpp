// The model without Ferry gives the same bits: so what bench/gpt_bench times beside it is the same work.
#include "support/raw_gpt.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/test_devices.hpp"

namespace ferry::nn {
namespace {

struct choice {
  attention_form attention;
  bool tied;
};

class RawGpt : public ::testing::TestWithParam<choice> {};

TEST_P(RawGpt, GivesTheSameBits) {
  gpt_shape const shape{.layers = 3,
                        .width = 24,
                        .heads = 2,
                        .context = 70,
                        .vocabulary = 130,
                        .tied = GetParam().tied,
                        .attention = GetParam().attention};
  constexpr int B = 2;
  constexpr int rows = 140;
  auto const on = ferry::testing::make_checked_host({.device_bytes = 32 << 20, .pinned_bytes = 32 << 20});
  {
    stream const compute(*on, stream_kind::compute, "compute");
    auto const with = make_host_ops(*on);
    gpt model(*on, compute, *with, shape, B);
    staging between(*on, compute);
    std::vector<float> weights(model.layout().floats());
    model.layout().initialize(weights, 7);
    between.upload(model.parameters().data(), weights.data(), weights.size() * sizeof(float));
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    for (int i = 0; i < rows; ++i) {
      tokens.push_back(i * 37 % 130);
      targets.push_back(i * 41 % 130);
    }
    auto const gradients = [&] {
      std::vector<float> values(weights.size());
      between.download(values.data(), model.gradients().data(), values.size() * sizeof(float));
      return values;
    };

    config settings;
    settings.budget = byte_amount::exactly(4 << 20);
    settings.host_budget = byte_amount::exactly(4 << 20);
    session saved(*on, settings);
    saved.begin_step();
    model.pass(saved, tokens, targets, 0, 1);
    saved.end_step();
    double const loss = model.loss();
    auto const by_ferry = gradients();

    memory const there(*on, memory_space::device, 2 * rows * sizeof(std::int32_t));
    between.upload(there.data(), tokens.data(), rows * sizeof(std::int32_t));
    between.upload(there.as<std::int32_t>() + rows, targets.data(), rows * sizeof(std::int32_t));
    ferry::testing::raw_gpt raw(*on, compute, *with, shape, B);
    with->set_to_zero(compute, model.gradients().as<float>(), weights.size());
    raw.pass(model.parameters().as<float>(), model.gradients().as<float>(), there.as<std::int32_t>(),
             there.as<std::int32_t>() + rows);
    double raw_loss = 0;
    between.download(&raw_loss, raw.total_loss(), sizeof raw_loss);
    EXPECT_EQ(std::memcmp(&loss, &raw_loss, sizeof loss), 0) << loss << " " << raw_loss;
    auto const by_hand = gradients();
    EXPECT_EQ(std::memcmp(by_ferry.data(), by_hand.data(), by_hand.size() * sizeof(float)), 0);
  }
  EXPECT_TRUE(ferry::testing::order_violations(*on).empty());
}

INSTANTIATE_TEST_SUITE_P(Forms, RawGpt,
                         ::testing::Values(choice{attention_form::whole, true}, choice{attention_form::tiled, true},
                                           choice{attention_form::tiled, false}));

}  // namespace
}  // namespace ferry::nn
