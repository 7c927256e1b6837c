// The whole model against mathematics: the oracle's gradients against differences of its loss, both in double
// precision; then the loss and the gradients of gpt, in float, against the oracle's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/nn/gpt.hpp"
#include "nn/error_bounds.hpp"
#include "nn/model_oracle.hpp"
#include "nn/ops_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

struct model_case {
  std::string name;
  gpt_shape shape;
  int batch;

  friend std::ostream& operator<<(std::ostream& out, model_case const& which) { return out << which.name; }
};

/// Nothing is a multiple of a vector's width, or of a tile.
gpt_shape odd_shape(bool tied, attention_form attention) {
  return {.layers = 2, .width = 12, .heads = 3, .context = 7, .vocabulary = 11, .tied = tied, .attention = attention};
}

std::vector<model_case> all_cases() {
  std::vector<model_case> all;
  for (auto const attention : {attention_form::whole, attention_form::tiled}) {
    std::string const form = attention == attention_form::whole ? "Explicit" : "Tiled";
    all.push_back({"OddTied" + form, odd_shape(true, attention), 2});
    all.push_back({"OddUntied" + form, odd_shape(false, attention), 2});
    // More than a tile of queries, more than 64 rows of logits, several blocks of rows in every sum over rows.
    auto longer = odd_shape(true, attention);
    longer.context = 131;
    all.push_back({"LongTied" + form, longer, 2});
    // More than a tile of keys, in one sequence; and a vocabulary that is wider than the hidden layer.
    auto wider = odd_shape(false, attention);
    wider.context = 300;
    wider.vocabulary = 97;
    all.push_back({"WideUntied" + form, wider, 1});
  }
  return all;
}

/// Weights at which every part of the model matters: a trained model's are as large, its initial ones are not.
std::vector<float> random_parameters(parameter_layout const& layout, random_values& random) {
  std::vector<float> all(layout.floats());
  for (auto const& one : layout.all()) {
    bool const scale = one.shape.size() == 1 && one.name.ends_with("weight");
    auto const drawn = random(one.count, 0.4F);
    for (std::size_t i = 0; i < one.count; ++i) all[one.offset + i] = (scale ? 1.0F : 0.0F) + drawn[i];
  }
  return all;
}

double largest(std::span<double const> x) {
  double most = 0;
  for (double const value : x) most = std::max(most, std::abs(value));
  return most;
}

class ModelOracle : public ::testing::TestWithParam<bool> {};

/// The derivative of the loss along `direction`, from the loss at four places: wrong by h^4 and by the loss's rounding
/// over h, which is about as much.
double slope_along(oracle::model const& model, values const& parameters, indices const& tokens, indices const& targets,
                   values const& direction) {
  constexpr double h = 1e-3;
  auto const loss_at = [&](double distance) {
    return model.loss(sum_of(parameters, scaled(direction, distance)), tokens, targets);
  };
  return (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
}

/// Every tensor: along four random directions, whose slope is compared relative to the gradient's length; and at its
/// largest and four random elements, relative to the largest. (Relative to themselves would ask for the impossible: the
/// bias of keys has no effect on the loss.)
TEST_P(ModelOracle, GradientsAreTheSlopesOfTheLoss) {
  constexpr double tolerance = 1e-6;
  oracle::model const model(odd_shape(GetParam(), attention_form::whole), 2);
  random_values random;
  auto const parameters = widened(random_parameters(model.layout(), random));
  auto const tokens = random.below(11, 14);
  auto const targets = random.below(11, 14);
  auto const [loss, gradients] = model.backward(parameters, tokens, targets);
  EXPECT_DOUBLE_EQ(loss, model.loss(parameters, tokens, targets));

  for (auto const& one : model.layout().all()) {
    SCOPED_TRACE(one.name);
    auto const here = std::span(gradients).subspan(one.offset, one.count);
    double const length = oracle::norm({here.begin(), here.end()});
    double const most = largest(here);
    ASSERT_GT(most, 1e-4);
    for (int i = 0; i < 4; ++i) {
      values direction(parameters.size());
      auto const drawn = widened(random(one.count));
      double const norm = oracle::norm(drawn);
      double slope = 0;
      for (std::size_t j = 0; j < one.count; ++j) {
        direction[one.offset + j] = drawn[j] / norm;
        slope += here[j] * drawn[j] / norm;
      }
      EXPECT_NEAR(slope_along(model, parameters, tokens, targets, direction), slope, tolerance * length);
    }
    auto elements = random.below(static_cast<std::int32_t>(one.count), 4);
    elements.push_back(static_cast<std::int32_t>(
        std::ranges::max_element(here, {}, [](double value) { return std::abs(value); }) - here.begin()));
    for (auto const element : elements) {
      values direction(parameters.size());
      direction[one.offset + element] = 1;
      EXPECT_NEAR(slope_along(model, parameters, tokens, targets, direction), here[element], tolerance * most)
          << "element " << element;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ModelOracle, ::testing::Bool(), [](auto const& of) { return of.param ? "Tied" : "Untied"; });

/// How many roundings show in a gradient at worst, relative to the largest of its tensor. The longest way from a
/// parameter to its gradient goes forward and back through all blocks, and each operation on it adds the roundings of
/// its sum: over features, over hidden features, over the tokens that a query sees; at its end over rows. As a block's
/// operations are told from one another by the lengths of their sums, there are in each direction six over C, one over
/// 4C, one over T, and as many roundings again as a sum of ten in GELU and softmax. What is lost where terms cancel is
/// made up for by what is not: errors of a block are added to the residual stream, not multiplied along it.
double tolerance_of(gpt_shape const& shape, int batch) {
  double const block = 6 * growth(shape.width) + growth(4 * shape.width) + growth(shape.context) + 20;
  double const outside = growth(shape.width) + growth(shape.vocabulary) + 20;
  return (2 * (shape.layers * block + outside) + growth(batch * shape.context)) * unit;
}

class GptGradients : public ::testing::TestWithParam<model_case> {
 protected:
  GptGradients() { memory_.upload(model_.parameters().data(), parameters_.data(), parameters_.size() * sizeof(float)); }
  void TearDown() override {
    stream_.synchronize();
    EXPECT_TRUE(device_->order_violations().empty()) << device_->order_violations().front();
  }

  std::vector<float> gradients() {
    std::vector<float> all(oracle_.layout().floats());
    memory_.download(all.data(), model_.gradients().data(), all.size() * sizeof(float));
    return all;
  }
  indices tokens() { return random_.below(shape_.vocabulary, static_cast<std::size_t>(batch_) * shape_.context); }

  static config settings() {
    config settings;
    settings.policy = {policy_kind::keep};
    settings.budget = byte_amount::exactly(std::size_t{32} << 20);
    settings.host_budget = byte_amount::exactly(std::size_t{1} << 20);
    settings.log = log_level::off;
    return settings;
  }

  void expect_gradients(values const& expected) {
    double const tolerance = tolerance_of(shape_, batch_);
    auto const actual = gradients();
    for (auto const& one : oracle_.layout().all()) {
      double const most = largest(std::span(expected).subspan(one.offset, one.count));
      double worst = 0;
      for (std::size_t i = one.offset; i < one.offset + one.count; ++i) {
        double const off = std::abs(actual[i] - expected[i]);
        worst = std::isnan(off) ? off : std::max(worst, off);
      }
      EXPECT_LE(worst, tolerance * most) << one.name << ", of which the largest is " << most;
    }
  }

  gpt_shape shape_ = GetParam().shape;
  int batch_ = GetParam().batch;
  std::unique_ptr<host_device> device_ = make_host_device({.device_bytes = std::size_t{64} << 20,
                                                           .pinned_bytes = std::size_t{8} << 20,
                                                           .compute_threads = 2,
                                                           .check_order = true});
  stream stream_{*device_, stream_kind::compute, "compute"};
  std::unique_ptr<ops> ops_ = make_host_ops(*device_);
  gpt model_{*device_, stream_, *ops_, shape_, batch_};
  staging memory_{*device_, stream_};
  random_values random_;
  oracle::model oracle_{shape_, batch_};
  std::vector<float> parameters_ = random_parameters(oracle_.layout(), random_);
  session session_{*device_, settings()};
};

TEST_P(GptGradients, AreTheOracles) {
  auto const in = tokens(), targets = tokens();
  auto const [loss, expected] = oracle_.backward(widened(parameters_), in, targets);
  session_.begin_step();
  model_.pass(session_, in, targets, 0, 1);
  session_.end_step();
  EXPECT_NEAR(model_.loss(), loss, tolerance_of(shape_, batch_) * loss);
  expect_gradients(expected);
}

/// Of a step of three micro-batches: the mean of theirs. And the step after starts from nothing.
TEST_P(GptGradients, OfMicroBatchesAddUp) {
  values expected(oracle_.layout().floats());
  double loss = 0;
  session_.begin_step();
  model_.pass(session_, tokens(), tokens(), 0, 1);
  session_.end_step();
  session_.begin_step();
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto const in = tokens(), targets = tokens();
    auto const one = oracle_.backward(widened(parameters_), in, targets);
    loss += one.loss / 3;
    expected = sum_of(expected, scaled(one.gradients, 1.0 / 3));
    model_.pass(session_, in, targets, i, 3);
  }
  session_.end_step();
  EXPECT_NEAR(model_.loss(), loss, tolerance_of(shape_, batch_) * loss);
  expect_gradients(expected);
}

TEST_P(GptGradients, EvaluateGivesTheLoss) {
  auto const in = tokens(), targets = tokens();
  double const loss = oracle_.loss(widened(parameters_), in, targets);
  EXPECT_NEAR(model_.evaluate(session_, in, targets), loss, tolerance_of(shape_, batch_) * loss);
}

/// What follows the last of few tokens, and of as many as the model takes.
TEST_P(GptGradients, NextLogitsAreThoseOfTheLastToken) {
  auto in = tokens();
  oracle::model const one_sequence(shape_, 1);
  in.resize(shape_.context);
  auto const logits = one_sequence.logits(widened(parameters_), in);
  for (int const length : {1, 3, shape_.context}) {
    auto const next = model_.next_logits(session_, std::span(in).first(length));
    auto const expected = std::span(logits).subspan((length - 1) * shape_.vocabulary, shape_.vocabulary);
    ASSERT_EQ(next.size(), expected.size());
    double const bound = tolerance_of(shape_, 1) * largest(expected);
    for (std::size_t i = 0; i < next.size(); ++i) EXPECT_NEAR(next[i], expected[i], bound) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(, GptGradients, ::testing::ValuesIn(all_cases()),
                         [](auto const& of) { return of.param.name; });

}  // namespace
