// The GPT by formula and the transformer core, which describe the same model: items, names, order and bytes agree, with
// what the core says of itself and with what a session records of a real training step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ferry/model_profile.hpp"
#include "ferry/nn/items.hpp"
#include "ferry/nn/parameters.hpp"
#include "nn/training_fixture.hpp"

namespace ferry {
namespace {

using nn::attention_form;
using nn::gpt_shape;

gpt_dimensions formula_of(gpt_shape const& shape, int batch) {
  return {.layers = shape.layers,
          .width = shape.width,
          .heads = shape.heads,
          .context = shape.context,
          .batch = batch,
          .vocabulary = shape.vocabulary,
          .element_bytes = 4,
          .flash_attention = shape.attention == attention_form::tiled};
}

struct model_case {
  gpt_shape shape;
  int batch;
};

std::vector<model_case> shapes() {
  std::vector<model_case> all;
  for (auto const form : {attention_form::tiled, attention_form::whole}) {
    all.push_back({{.layers = 2, .width = 64, .heads = 2, .context = 64, .vocabulary = 256, .attention = form}, 8});
    all.push_back(
        {{.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257, .attention = form}, 1});
    all.push_back({{.layers = 5, .width = 96, .heads = 3, .context = 31, .vocabulary = 1000, .attention = form}, 7});
    all.push_back({{.layers = 1, .width = 8, .heads = 8, .context = 1, .vocabulary = 2, .attention = form}, 1});
  }
  return all;
}

TEST(DoctorCore, FormulaHasTheItemsThatTheCoreDescribes) {
  auto const on = named_hardware("a100-80");
  for (auto const& [shape, batch] : shapes()) {
    auto const step = gpt_profile(formula_of(shape, batch), on);
    ASSERT_EQ(step.segments.size(), static_cast<std::size_t>(shape.layers) + 1);
    for (int layer = 0; layer < shape.layers; ++layer) {
      auto const& items = step.segments[static_cast<std::size_t>(layer)].items;
      std::size_t next = 0;
      for (auto const& described : nn::describe_items(shape, batch)) {
        if (described.floats == 0) continue;  // this form of attention does not save it
        ASSERT_LT(next, items.size());
        EXPECT_EQ(items[next].name, nn::name_of(described.what).view());
        EXPECT_EQ(items[next].bytes, described.floats * sizeof(float)) << items[next].name;
        ++next;
      }
      EXPECT_EQ(next, items.size());
    }
  }
}

TEST(DoctorCore, FormulaCountsTheCoresParameters) {
  for (auto [shape, batch] : shapes()) {
    for (bool const tied : {true, false}) {
      shape.tied = tied;
      EXPECT_EQ(parameter_count(formula_of(shape, batch), tied), nn::parameter_layout(shape).trained());
    }
  }
}

/// Trains for real on the host device, and compares what the session saw.
TEST(DoctorCore, FormulaIsWhatASessionRecordsInTraining) {
  auto const on = named_hardware("a100-80");
  for (auto const form : {attention_form::tiled, attention_form::whole}) {
    auto shape = nn::testing::small_shape(form);
    shape.width = 64;
    constexpr int batch = 3;
    nn::testing::training_world world(shape, batch);
    session path(*world.on, nn::testing::session_settings({policy_kind::keep}));
    path.record_profile(true);
    auto const data = nn::token_data::shipped();
    for (int i = 0; i < 2; ++i) static_cast<void>(world.in_training.step(path, data));
    world.compute.synchronize();
    auto const recorded = path.recorded_profile();
    ASSERT_TRUE(recorded);
    auto const step = gpt_profile(formula_of(shape, batch), on);
    // The core uses its last block's output up at once, so what the formula has as the head's segment is scratch there.
    ASSERT_EQ(recorded->segments.size() + 1, step.segments.size());
    for (std::size_t i = 0; i < recorded->segments.size(); ++i) {
      auto const& real = recorded->segments[i];
      auto const& formula = step.segments[i];
      ASSERT_EQ(real.items.size(), formula.items.size());
      for (std::size_t k = 0; k < real.items.size(); ++k) {
        EXPECT_EQ(real.items[k].name, formula.items[k].name);
        EXPECT_EQ(real.items[k].bytes, formula.items[k].bytes) << real.items[k].name;
        EXPECT_EQ(real.items[k].inputs, formula.items[k].inputs) << real.items[k].name;
      }
      EXPECT_LE(real.backward_scratch_bytes, formula.backward_scratch_bytes) << "the formula is no smaller";
    }
    EXPECT_TRUE(std::equal(recorded->need_order.begin(), recorded->need_order.end(), step.need_order.begin() + 2,
                           step.need_order.end()))
        << "after the head's two";
    auto const& head = step.segments.back();
    std::size_t head_bytes = head.backward_scratch_bytes;
    for (auto const& item : head.items) head_bytes += item.bytes;
    EXPECT_LE(recorded->segments.back().forward_scratch_bytes, head_bytes);
  }
}

}  // namespace
}  // namespace ferry
