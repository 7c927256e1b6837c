// Hugging Face's config.json, of the architectures that are known, of others, and of what is no config at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "doctor/hf_config.hpp"
#include "doctor/memory.hpp"
#include "ferry/error.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::command {
namespace {

using ferry::testing::message_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char const* gpt2 =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 1600, "n_head": 25,
  "n_layer": 48, "n_positions": 1024, "n_inner": null, "vocab_size": 50257, "activation_function": "gelu_new",
  "task_specific_params": {"text-generation": {"do_sample": true}}})";
constexpr char const* llama = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
  "vocab_size": 128256, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "attention_bias": false,
  "rope_scaling": {"factor": 8.0}})";

TEST(DoctorConfig, ReadsGpt2) {
  auto const of = completed(parse_hf_config(gpt2));
  EXPECT_EQ(of.kind, model_kind::gpt);
  EXPECT_EQ(of.name, "gpt2");
  EXPECT_EQ(of.layers, 48);
  EXPECT_EQ(of.width, 1600);
  EXPECT_EQ(of.heads, 25);
  EXPECT_EQ(of.hidden, 6400);
  EXPECT_EQ(of.context, 1024);
  EXPECT_TRUE(of.tied);
  EXPECT_EQ(of.numbers, precision::bf16) << "which it does not say";
  EXPECT_EQ(parameters_of(of), 1'557'611'200U) << "GPT-2 XL";
}

TEST(DoctorConfig, ReadsLlama) {
  auto const of = completed(parse_hf_config(llama));
  EXPECT_EQ(of.kind, model_kind::llama);
  EXPECT_EQ(of.kv_heads, 8);
  EXPECT_EQ(of.hidden, 14336);
  EXPECT_FALSE(of.tied);
  EXPECT_FALSE(of.qkv_bias);
  EXPECT_EQ(of.window, 0);
  EXPECT_EQ(parameters_of(of), 8'030'261'248U);
}

std::string changed(std::string text, std::string_view from, std::string_view to) {
  auto const at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(DoctorConfig, ReadsWhatIsSpecialOfTheOthers) {
  auto const mistral =
      parse_hf_config(changed(changed(llama, "\"llama\"", "\"mistral\""), "\"torch_dtype\": \"bfloat16\"",
                              "\"dtype\": \"float16\", \"sliding_window\": 4096"));
  EXPECT_EQ(mistral.window, 4096);
  EXPECT_EQ(mistral.numbers, precision::fp16);
  auto const no_window = parse_hf_config(
      changed(changed(llama, "\"llama\"", "\"mistral\""), "\"attention_bias\": false", "\"sliding_window\": null"));
  EXPECT_EQ(no_window.window, 0);
  auto const qwen2 = parse_hf_config(changed(changed(llama, "\"llama\"", "\"qwen2\""), "\"attention_bias\": false",
                                             "\"use_sliding_window\": false, \"sliding_window\": 32768"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_EQ(qwen2.window, 0) << "it has one and does not use it";
  auto const qwen3 = parse_hf_config(changed(changed(llama, "\"llama\"", "\"qwen3\""), "\"num_key_value_heads\"",
                                             "\"head_dim\": 128, \"num_key_value_heads\""));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_width, 128);
  EXPECT_FALSE(qwen3.qkv_bias);
}

/// As the library itself counts them in models of these configurations.
TEST(DoctorConfig, CountsTheWeightsOfTheOtherArchitectures) {
  auto const count = [](char const* type, std::string const& sizes) {
    return parameters_of(completed(parse_hf_config(R"({"model_type": ")" + std::string(type) +
                                                   R"(", "max_position_embeddings": 4096, )" + sizes + "}")));
  };
  EXPECT_EQ(count("mixtral", R"("hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
    "num_experts_per_tok": 2, "tie_word_embeddings": false)"),
            46'702'792'704U);
  EXPECT_EQ(count("qwen2_moe", R"("hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 151936, "num_experts": 60, "num_experts_per_tok": 4,
    "tie_word_embeddings": false, "decoder_sparse_step": 1, "mlp_only_layers": [])"),
            14'315'784'192U);
  EXPECT_EQ(count("qwen3_moe", R"("hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "tie_word_embeddings": false)"),
            30'532'122'624U);
  EXPECT_EQ(count("gpt_oss", R"("hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
    "num_local_experts": 32, "num_experts_per_tok": 4, "tie_word_embeddings": false, "attention_bias": true)"),
            20'914'757'184U);
  EXPECT_EQ(count("gemma", R"("hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
    "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000)"),
            2'506'172'416U);
  EXPECT_EQ(count("gemma2", R"("hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000)"),
            2'614'341'888U);
  EXPECT_EQ(count("gemma3_text", R"("hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144)"),
            999'885'952U);
  EXPECT_EQ(count("phi3", R"("hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "tie_word_embeddings": false)"),
            3'821'079'552U);
}

constexpr char const* mixtral = R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
  "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2})";

TEST(DoctorConfig, ReadsExperts) {
  auto const of = completed(parse_hf_config(mixtral));
  EXPECT_EQ(of.experts, 8);
  EXPECT_EQ(of.experts_per_token, 2);
  EXPECT_EQ(active_hidden(of), 2 * 14336);
  EXPECT_EQ(words_of_hidden(of), "hidden 14336 of each expert, 2 of 8 experts a token");
  auto const message = [](std::string_view from, std::string_view to) {
    std::string const text = changed(mixtral, from, to);
    return message_of<format_error>([&] { static_cast<void>(parse_hf_config(text)); });
  };
  EXPECT_EQ(message("\"num_local_experts\": 8", "\"num_local_experts\": 9999"),
            "num_local_experts: is '9999'; give a number from 1 to 1024");
  EXPECT_EQ(message("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9"),
            "num_experts_per_tok: is '9'; give a number from 1 to 8");
  EXPECT_THAT(message("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 2, \"mlp_only_layers\": [0]"),
              StartsWith("mlp_only_layers: names blocks without experts; only models whose blocks are all alike"));
  EXPECT_THAT(message("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 2, \"decoder_sparse_step\": 2"),
              StartsWith("decoder_sparse_step: is 2; only models whose blocks are all alike"));
}

TEST(DoctorConfig, ReadsTheTextOfAModelThatAlsoSees) {
  auto const of = parse_hf_config(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1},
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
    "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "vocab_size": 262208}})");
  EXPECT_EQ(of.name, "gemma3_text");
  EXPECT_EQ(of.width, 2560);
  EXPECT_TRUE(of.tied);
  EXPECT_TRUE(of.post_norms);
}

TEST(DoctorConfig, SizesThatNoModelHasAreRefused) {
  auto const message = [](std::string_view from, std::string_view to) {
    std::string const text = changed(mixtral, from, to);
    return message_of<setting_error>([&] {
      auto const of = completed(parse_hf_config(text));
      static_cast<void>(step_of(of, {}, named_hardware("t4")));
    });
  };
  EXPECT_EQ(message("\"intermediate_size\": 14336", "\"intermediate_size\": 262144, \"head_dim\": 16384"),
            "this model cannot be: hidden = 524288: give a number from 1 to 262144");
  EXPECT_EQ(message("\"num_local_experts\": 8",
                    "\"num_local_experts\": 1024, \"moe_intermediate_size\": 262144, "
                    "\"n_layer\": 1, \"head_dim\": 16384"),
            "this model cannot be: hidden = 524288: give a number from 1 to 262144");
  model many = parse_hf_config(mixtral);
  many.layers = 10'000;
  many.experts = 1024;
  many.hidden = 1 << 18;
  EXPECT_EQ(message_of<setting_error>([&] { static_cast<void>(completed(many)); }),
            "this model cannot be: it has more than 2^50 weights; lower its sizes");
}

TEST(DoctorConfig, AnUnknownArchitectureIsAnsweredWithTheKnownOnes) {
  auto const message = [](std::string const& text) {
    return message_of<format_error>([&] { static_cast<void>(parse_hf_config(text)); });
  };
  EXPECT_EQ(message(R"({"model_type": "mamba"})"),
            "model_type: is 'mamba'; known are gpt2, llama, mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3_text, "
            "mixtral, "
            "qwen2_moe, qwen3_moe, gpt_oss; else give the shape by flags: --model gpt|llama --layers --width --heads "
            "--context");
  EXPECT_THAT(message("{}"), StartsWith("has no \"model_type\""));
  EXPECT_THAT(message(R"({"model_type": 7})"), StartsWith("has no \"model_type\""));
  EXPECT_THAT(message(R"({"model_type": "m)"
                      "\\u001b[2J"
                      R"("})"),
              HasSubstr("'m?[2J'"));
}

TEST(DoctorConfig, NamesTheKeyThatIsWrong) {
  auto const message = [](std::string_view from, std::string_view to) {
    std::string const text = changed(llama, from, to);
    return message_of<format_error>([&] { static_cast<void>(parse_hf_config(text)); });
  };
  EXPECT_EQ(message("\"hidden_size\": 4096,", ""), "has no \"hidden_size\"; it is not all of a config.json: add it");
  EXPECT_EQ(message("4096", "-4096"), "hidden_size: is '-4096'; give a number from 1 to 65536");
  EXPECT_EQ(message("4096", "1e99"), "hidden_size: is '1e+99'; give a number from 1 to 65536");
  EXPECT_EQ(message("\"num_hidden_layers\": 32", "\"num_hidden_layers\": []"),
            "num_hidden_layers: is an array; give a number from 1 to 10000");
  EXPECT_EQ(message("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 0"),
            "tie_word_embeddings: is '0'; give true or false");
}

TEST(DoctorConfig, WhatIsNoConfigIsRefused) {
  auto const message = [](std::string const& text) {
    return message_of<format_error>([&] { static_cast<void>(parse_hf_config(text)); });
  };
  for (std::string const text : {"", "[]", "7", "{", "{\"model_type\": \"gpt2\"", "\xff\xfe", "nonsense"}) {
    EXPECT_THAT(message(text), StartsWith("is no JSON object")) << text;
  }
  EXPECT_THAT(message(std::string(2'000'000, ' ')), StartsWith("is larger than 1 MiB"));
  EXPECT_THAT(message("{\"a\": " + std::string(500'000, '[') + std::string(500'000, ']') + "}"),
              StartsWith("is nested too deeply"));
  EXPECT_THAT(message_of<format_error>([] { static_cast<void>(read_hf_config("no/such/config.json")); }),
              HasSubstr("no/such/config.json"));
}

TEST(DoctorConfig, SurvivesBrokenOnes) {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string text = i % 3 == 0 ? gpt2 : i % 3 == 1 ? llama : mixtral;
    for (int k = 0; k < 4; ++k) text[random() % text.size()] = static_cast<char>(random() % 256);
    text.resize(random() % 4 == 0 ? random() % text.size() : text.size());
    try {
      auto const of = parse_hf_config(text);
      EXPECT_GE(of.layers, 1);
    } catch (format_error const&) {  // as it should
    }
  }
}

}  // namespace
}  // namespace ferry::command
