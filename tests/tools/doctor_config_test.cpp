// Hugging Face's config.json, of the architectures that are known, of others, and of what is no config at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "doctor/hf_config.hpp"
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

TEST(DoctorConfig, AnUnknownArchitectureIsAnsweredWithTheKnownOnes) {
  auto const message = [](std::string const& text) {
    return message_of<format_error>([&] { static_cast<void>(parse_hf_config(text)); });
  };
  EXPECT_EQ(
      message(R"({"model_type": "mamba"})"),
      "model_type: is 'mamba'; known are gpt2, llama, mistral, qwen2 and qwen3; else give the shape by flags: --model "
      "gpt|llama --layers --width --heads --context");
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
    std::string text = i % 2 == 0 ? gpt2 : llama;
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
