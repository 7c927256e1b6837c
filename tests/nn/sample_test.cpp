// Text from a model: the same for a seed, the likeliest at temperature zero, and as much as is asked for.
#include "ferry/nn/sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

class Sample : public ::testing::Test {
 protected:
  Sample() {
    auto const text = token_data::shipped();
    for (int i = 0; i < 10; ++i) static_cast<void>(world.in_training.step(on, text));
  }
  std::vector<std::int32_t> say(std::vector<std::int32_t> const& prompt, sample_options const& options) {
    return sample(world.in_training.model(), on, prompt, options, [] { return false; });
  }

  training_world world{small_shape(), small_batch, {.learning_rate = 1e-2F, .warmup = 2}};
  session on{*world.on, session_settings({policy_kind::keep})};
};

TEST_F(Sample, IsTheSameForASeed) {
  auto const once = say({'T', 'h'}, {.tokens = 40, .temperature = 1, .seed = 5});
  EXPECT_EQ(once.size(), 40U);
  EXPECT_EQ(once, say({'T', 'h'}, {.tokens = 40, .temperature = 1, .seed = 5}));
  EXPECT_NE(once, say({'T', 'h'}, {.tokens = 40, .temperature = 1, .seed = 6}));
  EXPECT_THAT(once, ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(256))));
}

/// Also when the text has grown beyond the context, of which the last part counts.
TEST_F(Sample, AtTemperatureZeroTakesTheLikeliest) {
  std::vector<std::int32_t> all{'T', 'h', 'e'};
  auto const said = say(all, {.tokens = 30, .temperature = 0});
  for (auto const next : said) {
    auto const seen = std::span<std::int32_t const>(all).last(std::min<std::size_t>(all.size(), 16));
    auto const logits = world.in_training.model().next_logits(on, seen);
    EXPECT_EQ(next, std::ranges::max_element(logits) - logits.begin());
    all.push_back(next);
  }
}

TEST_F(Sample, StopsWhenTold) {
  int asked = 0;
  auto const said = sample(world.in_training.model(), on, {'T'}, {.tokens = 40}, [&] { return ++asked > 7; });
  EXPECT_EQ(said.size(), 7U);
}

}  // namespace
