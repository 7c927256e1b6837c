// Where memory goes, checked against numbers worked out by hand.
#include "doctor/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ferry/error.hpp"
#include "ferry/model_profile.hpp"
#include "support/mib.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::command {
namespace {

using ferry::testing::message_of;
using ::testing::HasSubstr;
using testing::mib;
using ::testing::StartsWith;

model gpt_1b() {
  return completed(
      {.kind = model_kind::gpt, .name = "gpt", .layers = 24, .width = 2048, .heads = 16, .context = 2048, .batch = 8});
}

model llama_8b() {
  return completed({.kind = model_kind::llama,
                    .name = "llama",
                    .layers = 32,
                    .width = 4096,
                    .heads = 32,
                    .kv_heads = 8,
                    .hidden = 14336,
                    .vocabulary = 128256,
                    .context = 8192,
                    .batch = 1,
                    .tied = false});
}

TEST(DoctorModel, CountsThePublishedParameters) {
  EXPECT_EQ(parameters_of(llama_8b()), 8'030'261'248U) << "Llama 3 8B";
  auto gpt2 = gpt_1b();
  gpt2.layers = 12;
  gpt2.width = 768;
  gpt2.hidden = 3072;
  gpt2.heads = 12;
  gpt2.context = 1024;
  EXPECT_EQ(parameters_of(gpt2), 124'439'808U) << "GPT-2";
  model qwen{.kind = model_kind::llama,
             .name = "qwen2",
             .layers = 24,
             .width = 896,
             .heads = 14,
             .kv_heads = 2,
             .hidden = 4864,
             .vocabulary = 151936,
             .context = 1024,
             .tied = true,
             .qkv_bias = true};
  EXPECT_EQ(parameters_of(completed(qwen)), 494'032'768U) << "Qwen2 0.5B";
  qwen = {.kind = model_kind::llama,
          .name = "qwen3",
          .layers = 28,
          .width = 1024,
          .heads = 16,
          .kv_heads = 8,
          .head_width = 128,
          .hidden = 3072,
          .vocabulary = 151936,
          .context = 1024,
          .tied = true,
          .qk_norm = true};
  EXPECT_EQ(parameters_of(completed(qwen)), 596'049'920U) << "Qwen3 0.6B";
}

TEST(DoctorModel, KnowsModelsByName) {
  auto const parameters = [](char const* name) { return parameters_of(completed(*named_model(name))); };
  EXPECT_EQ(parameters("gpt2"), 124'439'808U);
  EXPECT_EQ(parameters("gpt2-xl"), 1'557'611'200U);
  EXPECT_EQ(parameters("llama-2-7b"), 6'738'415'616U);
  EXPECT_EQ(parameters("llama-2-13b"), 13'015'864'320U);
  EXPECT_EQ(parameters("llama-3-8b"), 8'030'261'248U);
  EXPECT_EQ(parameters("llama-3-70b"), 70'553'706'496U);
  EXPECT_EQ(parameters("mistral-7b"), 7'241'732'096U);
  EXPECT_EQ(parameters("qwen2-7b"), 7'615'616'512U);
  EXPECT_FALSE(named_model("gpt5"));
  for (auto const& name : model_names()) EXPECT_TRUE(named_model(name)) << name;
}

TEST(DoctorModel, NamesTheFlagThatIsWrong) {
  auto const message = [](auto change) {
    model of = gpt_1b();
    of.kv_heads = 0;
    change(of);
    return message_of<setting_error>([&] { static_cast<void>(completed(of)); });
  };
  EXPECT_EQ(message([](model& of) { of.layers = 0; }), "the model's --layers is missing: give it");
  EXPECT_EQ(message([](model& of) { of.heads = 7; }),
            "--heads=7 does not divide --width=2048: give for instance --heads=4");
  EXPECT_EQ(message([](model& of) { of.kv_heads = 4; }),
            "--kv-heads=4: a gpt has as many as --heads; leave it out, or give --model llama");
  EXPECT_EQ(message([](model& of) {
              of.kind = model_kind::llama;
              of.kv_heads = 3;
            }),
            "--kv-heads=3 does not divide --heads=16: give one that does");
  model huge = gpt_1b();
  huge.context = 1 << 22;
  huge.batch = 1 << 20;
  EXPECT_THAT(message_of<setting_error>([&] { static_cast<void>(profile_of(huge, named_hardware("t4"))); }),
              StartsWith("this model cannot be: "));
}

TEST(DoctorMemory, StatesAreSixteenBytesAWeightInMixedPrecision) {
  auto const of = gpt_1b();
  std::size_t const count = parameters_of(of);
  auto const states = states_of(of, {});
  EXPECT_EQ(states.weights, 2 * count);
  EXPECT_EQ(states.gradients, 2 * count);
  EXPECT_EQ(states.optimizer, 12 * count) << "two moments and a copy, 4 bytes each";
  EXPECT_EQ(states.sum(), 16 * count);
  auto single = of;
  single.numbers = precision::fp32;
  EXPECT_EQ(states_of(single, {}).sum(), 16 * count) << "4 + 4 + 8";
  EXPECT_EQ(states_of(of, {.optimizer = optimizer_kind::sgd}).optimizer, 4 * count);
  EXPECT_EQ(states_of(single, {.optimizer = optimizer_kind::sgd}).optimizer, 0U);
  EXPECT_EQ(states_of(of, {.optimizer = optimizer_kind::none}).sum(), 2 * count) << "weights alone";
  EXPECT_NEAR(static_cast<double>(states_of(of, {.optimizer = optimizer_kind::adamw8bit}).optimizer),
              6.03125 * static_cast<double>(count), 1);
}

TEST(DoctorModel, WeightsByShapeAreAsManyAsTheLibraryCounts) {
  for (bool const tied : {true, false}) {
    model of = gpt_1b();
    of.tied = tied;
    EXPECT_EQ(
        parameters_of(of),
        parameter_count(
            gpt_dimensions{
                .layers = 24, .width = 2048, .heads = 16, .context = 2048, .batch = 8, .vocabulary = of.vocabulary},
            tied));
    of = llama_8b();
    of.tied = tied;
    of.qk_norm = of.qkv_bias = true;
    EXPECT_EQ(
        parameters_of(of),
        parameter_count(
            llama_dimensions{.hidden = 14336, .context = 8192, .vocabulary = 128256, .qk_norm = true, .qkv_bias = true},
            tied));
  }
}

/// Of a weight, with its gradient and all that the optimizer has of it.
double bytes_a_weight(model const& of, training const& how) {
  return static_cast<double>(states_of(of, how).sum()) / static_cast<double>(parameters_of(of));
}

TEST(DoctorMemory, WithoutACopyInFp32MomentsAreAsWideAsTheWeights) {
  auto const of = gpt_1b();
  EXPECT_NEAR(bytes_a_weight(of, {.optimizer = optimizer_kind::adamw8bit}), 10.03, 0.01);
  EXPECT_NEAR(bytes_a_weight(of, {.optimizer = optimizer_kind::adamw8bit, .master = false}), 6.03, 0.01);
  EXPECT_EQ(bytes_a_weight(of, {.optimizer = optimizer_kind::adamw, .master = false}), 2 + 2 + 2 * 2);
  EXPECT_EQ(bytes_a_weight(of, {.optimizer = optimizer_kind::sgd, .master = false}), 4);
  auto single = of;
  single.numbers = precision::fp32;
  EXPECT_EQ(bytes_a_weight(single, {.master = false}), 16) << "there is nothing to leave out";
}

TEST(DoctorMemory, AdafactorHasAVectorForRowsAndOneForColumns) {
  model of = completed(
      {.kind = model_kind::gpt, .name = "", .layers = 1, .width = 64, .heads = 2, .vocabulary = 1000, .context = 32});
  std::size_t const matrices = (192 + 64) + (64 + 64) + 2 * (256 + 64) + (1000 + 64) + (32 + 64);
  std::size_t const vectors = 192 + 64 + 256 + 64 + 4 * 64 + 2 * 64;
  auto const states = states_of(of, {.optimizer = optimizer_kind::adafactor, .master = false});
  EXPECT_EQ(states.optimizer, 2 * (matrices + vectors));
  EXPECT_EQ(states_of(of, {.optimizer = optimizer_kind::adafactor}).optimizer,
            4 * (matrices + vectors) + 4 * parameters_of(of));
}

TEST(DoctorMemory, MuonHasOneMomentumForTheMatricesOfBlocks) {
  auto const of = llama_8b();
  std::size_t const matrices = 32ULL * (4096 * (4096 + 2 * 1024 + 4096) + 3ULL * 4096 * 14336);
  auto const states = states_of(of, {.optimizer = optimizer_kind::muon});
  EXPECT_EQ(states.optimizer, 4 * matrices + 8 * (parameters_of(of) - matrices) + 4 * parameters_of(of));
}

TEST(DoctorMemory, StatesOnTheHostLeaveTheDevice) {
  auto const of = gpt_1b();
  std::size_t const count = parameters_of(of);
  auto const stepped = states_of(of, {.optimizer = optimizer_kind::adamw_cpu});
  EXPECT_EQ(stepped.optimizer, 0U);
  EXPECT_EQ(stepped.sum(), 4 * count) << "weights and gradients stay";
  EXPECT_EQ(stepped.host, (12 + 2) * count) << "with the gradients that it steps by";
  auto const paged = states_of(of, {.optimizer = optimizer_kind::adamw_paged});
  EXPECT_EQ(paged.optimizer, 4 * count) << "the fp32 copy, which is not paged";
  EXPECT_EQ(paged.host, 8 * count);
  auto const small = states_of(of, {.optimizer = optimizer_kind::adamw8bit_paged, .master = false});
  EXPECT_EQ(small.optimizer, 0U);
  EXPECT_NEAR(static_cast<double>(small.host), 2.03125 * static_cast<double>(count), 1);
  auto const divided = states_of(of, {.optimizer = optimizer_kind::adamw_cpu, .zero = 2, .ranks = 8});
  EXPECT_EQ(divided.host, (12 * count + 7) / 8 + (2 * count + 7) / 8);
}

TEST(DoctorMemory, AdaptersAreTrainedInFp32BesideFrozenWeights) {
  auto const of = llama_8b();
  // Beside queries, keys, values, output, gate, up and down, of 32 blocks.
  std::size_t const adapters = 32ULL * 16 * ((4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096) + 3 * (4096 + 14336));
  EXPECT_EQ(trained_parameters_of(of, {.lora = 16}), adapters);
  auto const states = states_of(of, {.lora = 16});
  EXPECT_EQ(states.weights, 2 * parameters_of(of) + 4 * adapters);
  EXPECT_EQ(states.gradients, 4 * adapters);
  EXPECT_EQ(states.optimizer, 8 * adapters) << "no copy: they are fp32";
  EXPECT_EQ(words_of_optimizer(of, {.lora = 16}), "adamw: 8 bytes a trained weight");
  EXPECT_EQ(words_of_training(of, {.kernels = kernel_kind::eager, .lora = 16}),
            "eager kernels; LoRA of rank 16; adamw");
  model gpt = gpt_1b();
  EXPECT_EQ(trained_parameters_of(gpt, {.lora = 4}), 24ULL * 4 * 2048 * (1 + 3 + 1 + 1 + 1 + 4 + 4 + 1));
}

TEST(DoctorMemory, NF4IsFourBitsAndAScaleForEvery64) {
  auto const of = llama_8b();
  std::size_t const matrices = 32ULL * (4096 * (4096 + 2 * 1024 + 4096) + 3ULL * 4096 * 14336);
  std::size_t const adapters = trained_parameters_of(of, {.lora = 16});
  auto const states = states_of(of, {.lora = 16, .nf4 = true});
  EXPECT_EQ(states.weights, matrices / 2 + matrices / 16 + 2 * (parameters_of(of) - matrices) + 4 * adapters);
}

TEST(DoctorMemory, OfFrozenBlocksAndTheirEmbeddingOnlyWeightsAreThere) {
  auto of = llama_8b();
  std::size_t const all = parameters_of(of);
  of.frozen = 24;
  std::size_t const block = 4096 * (4096 + 2 * 1024 + 4096) + 3ULL * 4096 * 14336 + 2 * 4096;
  std::size_t const trained = 8 * block + 128256ULL * 4096 + 4096;
  auto const states = states_of(of, {});
  EXPECT_EQ(states.weights, 2 * all);
  EXPECT_EQ(states.gradients, 2 * trained);
  EXPECT_EQ(states.optimizer, 12 * trained);
  of.tied = true;
  EXPECT_EQ(states_of(of, {}).gradients, 2 * (8 * block + 4096)) << "the head is the embedding";
  of.frozen = 32;
  EXPECT_EQ(message_of<setting_error>([&] { static_cast<void>(completed(of)); }),
            "--frozen=32 is all of the model's 32 blocks: give at most 31");
}

TEST(DoctorMemory, OptimizersHaveNames) {
  for (auto const name : optimizer_names()) EXPECT_EQ(to_string(*optimizer_named(name)), name);
  EXPECT_FALSE(optimizer_named("adam"));
  auto const of = gpt_1b();
  EXPECT_EQ(words_of_optimizer(of, {}), "adamw: 12 bytes a weight, with an fp32 copy of it");
  EXPECT_EQ(words_of_optimizer(of, {.optimizer = optimizer_kind::adamw8bit, .master = false}),
            "adamw8bit: 2.03 bytes a weight");
  EXPECT_THAT(words_of_optimizer(of, {.optimizer = optimizer_kind::adamw_cpu}), HasSubstr("GiB of host memory"));
}

TEST(DoctorMemory, ZeroDividesTheRightParts) {
  auto const of = gpt_1b();
  std::size_t const count = parameters_of(of);
  auto const part = [](std::size_t bytes) { return (bytes + 7) / 8; };
  auto const one = states_of(of, {.zero = 1, .ranks = 8});
  EXPECT_EQ(one.optimizer, part(12 * count));
  EXPECT_EQ(one.gradients, 2 * count);
  auto const two = states_of(of, {.zero = 2, .ranks = 8});
  EXPECT_EQ(two.gradients, part(2 * count));
  EXPECT_EQ(two.weights, 2 * count);
  EXPECT_EQ(two.gathered, 0U);
  auto const three = states_of(of, {.zero = 3, .ranks = 8});
  EXPECT_EQ(three.weights, part(2 * count));
  // 12 C^2 weights, 13 C biases and norms; of two blocks, 2 bytes each.
  EXPECT_EQ(three.gathered, 2 * 2 * (12 * 2048 * 2048 + 13 * 2048));
}

TEST(DoctorMemory, ActivationsByOperation) {
  auto const of = gpt_1b();
  auto const made = activations_of(of, profile_of(of, named_hardware("a100-80")));
  // A (8, 2048, 2048) tensor of bf16 has 64 MiB; the statistics of 16 heads a MiB.
  std::vector<std::pair<std::string, std::size_t>> const each{{"x", 64},     {"ln1", 64},  {"qkv", 192},
                                                              {"heads", 65}, {"mid", 64},  {"ln2", 64},
                                                              {"fc", 256},   {"act", 256}, {"lnf", 64}};
  ASSERT_EQ(made.operations.size(), each.size());
  for (std::size_t i = 0; i < each.size(); ++i) {
    EXPECT_EQ(made.operations[i].name, each[i].first);
    EXPECT_EQ(made.operations[i].each, each[i].second * mib) << each[i].first;
  }
  EXPECT_EQ(made.operations[0].count, 25U) << "and the head's";
  EXPECT_EQ(made.per_layer, 1025 * mib);
  EXPECT_EQ(made.saved, (24 * 1025 + 2 * 64) * mib);
  // At the head: the gradients of lnf and x, and logits as large as a hidden layer.
  EXPECT_EQ(made.scratch, (2 * 64 + 256) * mib);
  EXPECT_EQ(made.logits, 256 * mib);
}

TEST(DoctorMemory, LlamaHasFewerKeysAndTwoHiddenTensors) {
  auto const of = llama_8b();
  auto const step = profile_of(of, named_hardware("a100-80"));
  std::vector<std::pair<std::string, std::size_t>> const each{{"x", 64},     {"ln1", 64}, {"qkv", 96},
                                                              {"heads", 65}, {"mid", 64}, {"ln2", 64},
                                                              {"gate", 224}, {"up", 224}, {"act", 224}};
  auto const& items = step.segments[3].items;
  ASSERT_EQ(items.size(), each.size());
  for (std::size_t i = 0; i < each.size(); ++i) {
    EXPECT_EQ(items[i].name, each[i].first);
    EXPECT_EQ(items[i].bytes, each[i].second * mib) << each[i].first;
  }
  // Products: queries and output 4096 wide, keys and values 1024, three of the hidden layer.
  double const rows = 8192;
  double const products = 2 * rows * 4096 * (4096 + 2 * 1024 + 4096 + 3 * 14336.0);
  double flops = 0;
  for (auto const& item : items) flops += item.recipe_flops;
  double const attention = 4 * rows * (8193 / 2.0) * 4096;
  EXPECT_NEAR(flops, products + attention, 0.005 * flops) << "the rest passes over memory";
  // gate, up and their gradients' sources: dx, d ln2, d gate, d up.
  EXPECT_EQ(step.segments[3].backward_scratch_bytes, (2 * 64 + 2 * 224) * mib);
}

TEST(DoctorMemory, ExplicitAttentionKeepsTheProbabilities) {
  auto of = gpt_1b();
  of.flash = false;
  auto const made = activations_of(of, profile_of(of, named_hardware("a100-80")));
  auto const& att = made.operations[3];
  EXPECT_EQ(att.name, "att");
  EXPECT_EQ(att.each, 2ULL * 8 * 16 * 2048 * 2048);
}

TEST(DoctorMemory, AWindowSavesTimeAndNoBytes) {
  auto of = llama_8b();
  auto const on = named_hardware("a100-80");
  auto const all = profile_of(of, on);
  of.window = 4096;
  auto const windowed = profile_of(of, on);
  auto const& before = all.segments[1].items[3];
  auto const& after = windowed.segments[1].items[3];
  EXPECT_EQ(before.name, "heads");
  EXPECT_EQ(after.bytes, before.bytes);
  // Of 8192 queries half see up to 4096 tokens and half exactly 4096: 3072.25 on average instead of 4096.5.
  EXPECT_NEAR(after.recipe_flops / before.recipe_flops, 3072.25 / 4096.5, 1e-9);
}

TEST(DoctorMemory, WholeLogitsAreCountedWithTheirCopiesAndGradients) {
  auto const of = gpt_1b();
  auto const on = named_hardware("a100-80");
  auto const portions = activations_of(of, step_of(of, {}, on));
  auto const whole = activations_of(of, step_of(of, {.whole_logits = true}, on));
  std::size_t const all = 8ULL * 2048 * 50257 * 14;
  EXPECT_EQ(whole.logits, all);
  EXPECT_EQ(whole.sum() - portions.sum(), all - 256 * mib);
  auto single = of;
  single.numbers = precision::fp32;
  EXPECT_EQ(logits_bytes(single, true), 8ULL * 2048 * 50257 * 16);
}

TEST(DoctorMemory, FitsWhenEverythingDoes) {
  auto const of = gpt_1b();
  auto const step = profile_of(of, named_hardware("a100-80"));
  std::size_t const needed = 16 * parameters_of(of) + (24 * 1025 + 2 * 64 + 384) * mib + 1024 * mib;
  auto const exactly = memory_of(of, {}, step, needed, 1024 * mib);
  EXPECT_EQ(exactly.needed(), needed);
  EXPECT_TRUE(exactly.fits());
  auto const short_of_one = memory_of(of, {}, step, needed - 1, 1024 * mib);
  EXPECT_FALSE(short_of_one.fits());
  EXPECT_TRUE(short_of_one.states_fit());
  EXPECT_EQ(short_of_one.budget(), (24 * 1025 + 2 * 64 + 384) * mib - 1);
  auto const small = memory_of(of, {}, step, 16 * parameters_of(of), 1024 * mib);
  EXPECT_FALSE(small.states_fit());
  EXPECT_EQ(small.budget(), 0U);
}

}  // namespace
}  // namespace ferry::command
