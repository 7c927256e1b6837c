// States of training in files: a run that goes on from one is the run that was not stopped, a run that is another is
// told so, and a disk that is full leaves the state that was there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "ferry/nn/checkpoint.hpp"
#include "ferry/nn/file_error.hpp"
#include "ferry/nn/safetensors.hpp"
#include "nn/ops_fixture.hpp"
#include "nn/training_fixture.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;
using ferry::testing::in_quotes;
using ferry::testing::message_of;
using ferry::testing::file_size_limit;
using ferry::testing::names_in;
using ferry::testing::read_file;
using ferry::testing::temporary_folder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The state file of a run with a narrow model, whose tensors have gaps between them.
class StateFile : public ::testing::Test {
 protected:
  StateFile() {
    random_values random;
    for (auto* const values : {&state.weights, &state.m, &state.v}) {
      values->resize(layout.floats());
      for (auto const& one : layout.all()) {
        std::ranges::copy(random(one.count), values->begin() + static_cast<std::ptrdiff_t>(one.offset));
      }
    }
    state.weights[1] = not_a_number;
    state.steps_done = 123;
    save_state(file, run, layout, state);
  }

  void expect_same(trainer::state const& other) const {
    EXPECT_TRUE(same_bits(other.weights, state.weights));
    EXPECT_TRUE(same_bits(other.m, state.m));
    EXPECT_TRUE(same_bits(other.v, state.v));
    EXPECT_EQ(other.steps_done, state.steps_done);
  }
  [[nodiscard]] std::string error_of_loading(run_identity const& as) const {
    return message_of<file_error>([&] { static_cast<void>(load_state(file, as, parameter_layout(as.shape))); });
  }
  /// What the file's texts and tensors become by `change` is refused.
  template <typename Change>
  std::string error_after(Change change) {
    std::map<std::string, std::string> about;
    std::vector<tensor_to_write> tensors;
    std::map<std::string, std::vector<float>> values;
    {
      safetensors_file const saved(file);
      about = saved.metadata();
      for (auto const& one : saved.tensors()) {
        auto& copy = values[one.name];
        copy.resize(one.bytes.size() / sizeof(float));
        saved.copy_floats(one, copy);
        tensors.push_back({one.name, one.shape, copy});
      }
    }
    change(about, tensors);
    write_safetensors(file, tensors, about);
    return error_of_loading(run);
  }

  temporary_folder folder;
  std::filesystem::path file = folder / "run.state";
  run_identity run{{.layers = 2, .width = 6, .heads = 3, .context = 5, .vocabulary = 11}, 4, 2, 9};
  parameter_layout layout{run.shape};
  trainer::state state;
};

TEST_F(StateFile, LoadsAgainBitForBit) { expect_same(load_state(file, run, layout)); }

TEST_F(StateFile, LoadsForAnotherFormOfAttention) {
  run.shape.attention = attention_form::whole;
  expect_same(load_state(file, run, layout));
}

/// Model files hold no state; state files hold a model, and more than one.
TEST_F(StateFile, IsNotTakenForAModel) {
  EXPECT_THAT(message_of<file_error>([&] { static_cast<void>(load_model(file, layout)); }),
              AllOf(StartsWith(in_quotes(file)), HasSubstr("no use for the tensor 'm.")));
  save_model(folder / "m", run.shape, layout, state.weights);
  EXPECT_EQ(
      message_of<file_error>([&] { static_cast<void>(load_state(folder / "m", run, layout)); }),
      in_quotes(folder / "m") +
          ": it does not say how many steps are done; resume from the .state file that --save wrote; --init loads "
          "a model alone");
}

TEST_F(StateFile, OfAnotherRunIsRefused) {
  struct difference {
    std::string words;
    std::function<void(run_identity&)> make;
  };
  std::vector<difference> const all{
      {"layers=2, but this run has layers=3", [](run_identity& r) { r.shape.layers = 3; }},
      {"width=6, but this run has width=12", [](run_identity& r) { r.shape.width = 12; }},
      {"heads=3, but this run has heads=2", [](run_identity& r) { r.shape.heads = 2; }},
      {"context=5, but this run has context=6", [](run_identity& r) { r.shape.context = 6; }},
      {"vocab=11, but this run has vocab=12", [](run_identity& r) { r.shape.vocabulary = 12; }},
      {"tied=true, but this run has tied=false", [](run_identity& r) { r.shape.tied = false; }},
      {"batch=4, but this run has batch=5", [](run_identity& r) { r.batch = 5; }},
      {"accumulate=2, but this run has accumulate=1", [](run_identity& r) { r.accumulate = 1; }},
      {"seed=9, but this run has seed=8", [](run_identity& r) { r.seed = 8; }}};
  for (auto const& [words, make] : all) {
    auto other = run;
    make(other);
    EXPECT_EQ(error_of_loading(other),
              in_quotes(file) + ": it was made with " + words + "; resume with the flags of the run that saved it");
  }
}

TEST_F(StateFile, ThatSaysNoNumberOfStepsIsRefused) {
  for (char const* const steps : {"", "-1", "12a", " 12", "1e3", "12345678901234567890"}) {
    EXPECT_THAT(error_after([&](auto& about, auto&) { about["ferry.steps_done"] = steps; }),
                HasSubstr("does not say how many steps are done; resume from"))
        << steps;
  }
}

TEST_F(StateFile, ThatSaysNothingOfItsRunIsRefused) {
  EXPECT_THAT(error_after([](auto& about, auto&) { about.erase("ferry.seed"); }),
              HasSubstr("it was made with seed=nothing, but this run has seed=9; resume with"));
}

TEST_F(StateFile, WithoutAMomentIsRefused) {
  EXPECT_THAT(error_after([](auto&, auto& tensors) {
                std::erase_if(tensors, [](auto const& one) { return one.name == "v.transformer.ln_f.bias"; });
              }),
              AllOf(StartsWith(in_quotes(file)), HasSubstr("the tensor 'v.transformer.ln_f.bias' is missing; give")));
}

TEST_F(StateFile, SurvivesAFullDisk) {
  std::string const before = read_file(file);
  auto const saving = [&](trainer::state const& next) { save_state(file, run, layout, next); };
  auto next = state;
  next.steps_done = 124;
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{100}, before.size() / 2, before.size() - 1}) {
    std::string message;
    {
      file_size_limit const limit(bytes);
      message = message_of<file_error>([&] { saving(next); });
    }
    EXPECT_THAT(message, AllOf(StartsWith(in_quotes(file) + ": cannot be saved: "), HasSubstr("save on")));
    EXPECT_EQ(read_file(file), before);
    EXPECT_THAT(names_in(folder.path()), ElementsAre("run.state"));
  }
  expect_same(load_state(file, run, layout));
  saving(next);
  EXPECT_EQ(load_state(file, run, layout).steps_done, 124U);
}

/// Ten steps at once; and five, a file, another process's trainer, and five.
TEST(StateFileOfARun, GoesOnBitForBit) {
  auto const data = token_data::shipped();
  auto const shape = small_shape();
  training_options const options{.steps = 10, .accumulate = 2, .warmup = 3, .seed = 4};
  run_identity const run{shape, small_batch, options.accumulate, options.seed};
  temporary_folder const folder;
  auto const train = [&](training_world& world, int steps) {
    session on(*world.on, session_settings({policy_kind::offload}));
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(world.in_training.step(on, data).loss);
    return losses;
  };
  training_world all(shape, small_batch, options);
  auto const expected = train(all, 10);
  std::vector<double> losses;
  {
    training_world first(shape, small_batch, options);
    losses = train(first, 5);
    save_state(folder / "s", run, first.in_training.model().layout(), first.in_training.save_state());
  }
  training_world second(shape, small_batch, options);
  second.in_training.restore_state(load_state(folder / "s", run, second.in_training.model().layout()));
  std::ranges::copy(train(second, 5), std::back_inserter(losses));
  EXPECT_TRUE(same_bits(losses, expected));
  EXPECT_TRUE(same_bits(second.in_training.weights(), all.in_training.weights()));
}

}  // namespace
