// Models and states in files: what is saved loads again bit for bit, under the names and shapes that Python's
// transformers uses; what does not fit is refused with the file, the tensor and a fix; a full disk harms nothing.
#include "ferry/nn/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferry/nn/file_error.hpp"
#include "ferry/nn/safetensors.hpp"
#include "nn/ops_fixture.hpp"
#include "nn/training_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;
using ferry::testing::in_quotes;
using ferry::testing::read_file;
using ferry::testing::temporary_folder;
using ferry::testing::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Its tensors do not fill whole cache lines: between them are gaps.
gpt_shape hand_shape(bool tied = true, int layers = 1) {
  return {.layers = layers, .width = 6, .heads = 3, .context = 5, .vocabulary = 11, .tied = tied};
}

/// Values that comparisons would not tell apart, too; zeros in the gaps.
std::vector<float> some_values(parameter_layout const& layout, std::uint32_t seed = 1) {
  std::vector<float> all(layout.floats());
  random_values random(seed);
  for (auto const& one : layout.all()) {
    std::ranges::copy(random(one.count), all.begin() + static_cast<std::ptrdiff_t>(one.offset));
  }
  all[layout.all().front().offset] = not_a_number;
  all[layout.all().back().offset] = -0.0F;
  all[layout.all().back().offset + 1] = std::numeric_limits<float>::denorm_min();
  return all;
}

/// A file's content, to be changed before it is written.
struct draft {
  explicit draft(gpt_shape const& shape) : layout(shape), values(some_values(layout)) {
    for (auto const& one : layout.all()) {
      tensors.push_back({one.name, one.shape, std::span<float const>(values).subspan(one.offset, one.count)});
    }
  }
  draft(draft const&) = delete;
  draft& operator=(draft const&) = delete;

  tensor_to_write& operator[](std::string_view name) {
    return *std::ranges::find(tensors, name, &tensor_to_write::name);
  }
  void remove(std::string_view name) {
    std::erase_if(tensors, [&](tensor_to_write const& one) { return one.name == name; });
  }
  /// Of zeros.
  void add(std::string name, std::vector<std::size_t> shape, std::size_t count) {
    tensors.push_back({std::move(name), std::move(shape), std::span<float const>(zeros).first(count)});
  }

  parameter_layout layout;
  std::vector<float> values;
  std::vector<float> zeros = std::vector<float>(1000);
  std::vector<tensor_to_write> tensors;
};

/// The message begins with the file and holds every one of `words`.
template <typename Call>
void expect_refused(std::filesystem::path const& file, Call const& call, std::vector<std::string> const& words) {
  std::string const message = ferry::testing::message_of<file_error>(call);
  EXPECT_THAT(message, StartsWith(in_quotes(file) + ": "));
  for (auto const& word : words) EXPECT_THAT(message, HasSubstr(word));
}

TEST(Checkpoint, ModelsLoadAgainBitForBit) {
  for (bool const tied : {true, false}) {
    temporary_folder const folder;
    auto const shape = hand_shape(tied, 3);
    parameter_layout const layout(shape);
    auto const values = some_values(layout);
    save_model(folder / "m.safetensors", shape, layout, values);
    EXPECT_TRUE(same_bits(load_model(folder / "m.safetensors", layout), values));
    EXPECT_EQ(shape_of_model(folder / "m.safetensors"), shape);
    // A second time over the first.
    auto const others = some_values(layout, 2);
    save_model(folder / "m.safetensors", shape, layout, others);
    EXPECT_TRUE(same_bits(load_model(folder / "m.safetensors", layout), others));
  }
}

/// As GPT2LMHeadModel.state_dict() has them; its Conv1D keeps weights as (in, out).
TEST(Checkpoint, NamesAndShapesAreThoseOfGpt2) {
  using shapes = std::map<std::string, std::vector<std::size_t>>;
  shapes expected{{"transformer.wte.weight", {11, 6}},
                  {"transformer.wpe.weight", {5, 6}},
                  {"transformer.h.0.ln_1.weight", {6}},
                  {"transformer.h.0.ln_1.bias", {6}},
                  {"transformer.h.0.attn.c_attn.weight", {6, 18}},
                  {"transformer.h.0.attn.c_attn.bias", {18}},
                  {"transformer.h.0.attn.c_proj.weight", {6, 6}},
                  {"transformer.h.0.attn.c_proj.bias", {6}},
                  {"transformer.h.0.ln_2.weight", {6}},
                  {"transformer.h.0.ln_2.bias", {6}},
                  {"transformer.h.0.mlp.c_fc.weight", {6, 24}},
                  {"transformer.h.0.mlp.c_fc.bias", {24}},
                  {"transformer.h.0.mlp.c_proj.weight", {24, 6}},
                  {"transformer.h.0.mlp.c_proj.bias", {6}},
                  {"transformer.ln_f.weight", {6}},
                  {"transformer.ln_f.bias", {6}}};
  temporary_folder const folder;
  for (bool const tied : {true, false}) {
    if (!tied) expected["lm_head.weight"] = {11, 6};
    parameter_layout const layout(hand_shape(tied));
    save_model(folder / "m", hand_shape(tied), layout, some_values(layout));
    safetensors_file const file(folder / "m");
    shapes found;
    for (auto const& one : file.tensors()) {
      found[one.name] = one.shape;
      EXPECT_EQ(one.dtype, "F32");
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(file.metadata().at("format"), "pt");
  }
}

/// What a tensor's name says is what the model does with it: each of a block's pointers is where the layout says.
TEST(Checkpoint, NamesMeanWhatTheModelTakesThemFor) {
  parameter_layout const layout(hand_shape(false, 2));
  std::vector<float> values(layout.floats());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  auto const at = [&](char const* name) {
    return &values[std::ranges::find(layout.all(), name, &parameter::name)->offset];
  };
  auto const block = layout.block(values.data(), 1);
  EXPECT_EQ(block.ln1_weight, at("transformer.h.1.ln_1.weight"));
  EXPECT_EQ(block.ln1_bias, at("transformer.h.1.ln_1.bias"));
  EXPECT_EQ(block.qkv_weight, at("transformer.h.1.attn.c_attn.weight"));
  EXPECT_EQ(block.qkv_bias, at("transformer.h.1.attn.c_attn.bias"));
  EXPECT_EQ(block.proj_weight, at("transformer.h.1.attn.c_proj.weight"));
  EXPECT_EQ(block.proj_bias, at("transformer.h.1.attn.c_proj.bias"));
  EXPECT_EQ(block.ln2_weight, at("transformer.h.1.ln_2.weight"));
  EXPECT_EQ(block.ln2_bias, at("transformer.h.1.ln_2.bias"));
  EXPECT_EQ(block.fc_weight, at("transformer.h.1.mlp.c_fc.weight"));
  EXPECT_EQ(block.fc_bias, at("transformer.h.1.mlp.c_fc.bias"));
  EXPECT_EQ(block.out_weight, at("transformer.h.1.mlp.c_proj.weight"));
  EXPECT_EQ(block.out_bias, at("transformer.h.1.mlp.c_proj.bias"));
  auto const outer = layout.outer(values.data());
  EXPECT_EQ(outer.wte, at("transformer.wte.weight"));
  EXPECT_EQ(outer.wpe, at("transformer.wpe.weight"));
  EXPECT_EQ(outer.lnf_weight, at("transformer.ln_f.weight"));
  EXPECT_EQ(outer.lnf_bias, at("transformer.ln_f.bias"));
  EXPECT_EQ(outer.head, at("lm_head.weight"));
}

/// As GPT2Model, without its head, saves them: no prefix; and with the masks of old versions.
TEST(Checkpoint, LoadsFilesOfOtherVersions) {
  temporary_folder const folder;
  draft file(hand_shape(true, 2));
  for (auto& one : file.tensors) one.name = one.name.substr(std::string_view("transformer.").size());
  for (char const* const layer : {"h.0.", "h.1."}) {
    file.add(std::string(layer) + "attn.bias", {1, 1, 5, 5}, 25);
    file.add(std::string(layer) + "attn.masked_bias", {}, 1);
  }
  write_safetensors(folder / "m", file.tensors);
  EXPECT_TRUE(same_bits(load_model(folder / "m", file.layout), file.values));
  EXPECT_EQ(shape_of_model(folder / "m").layers, 2);
}

TEST(Checkpoint, LoadsATiedHeadThatIsThereTwice) {
  temporary_folder const folder;
  draft file(hand_shape());
  file.tensors.push_back(file["transformer.wte.weight"]);
  file.tensors.back().name = "lm_head.weight";
  write_safetensors(folder / "m", file.tensors);
  EXPECT_TRUE(same_bits(load_model(folder / "m", file.layout), file.values));
  EXPECT_TRUE(shape_of_model(folder / "m").tied);
  // An untied model takes both.
  auto const untied = load_model(folder / "m", parameter_layout(hand_shape(false)));
  EXPECT_EQ(untied[1], file.values[1]);
}

TEST(Checkpoint, RefusesWhatIsMissing) {
  temporary_folder const folder;
  draft file(hand_shape());
  file.remove("transformer.h.0.mlp.c_fc.bias");
  write_safetensors(folder / "m", file.tensors);
  expect_refused(folder / "m", [&] { static_cast<void>(load_model(folder / "m", file.layout)); },
                 {"'transformer.h.0.mlp.c_fc.bias' is missing; give "});
}

TEST(Checkpoint, RefusesWhatItHasNoUseFor) {
  temporary_folder const folder;
  draft file(hand_shape());
  file.add("transformer.h.0.attn.rotary", {3}, 3);
  write_safetensors(folder / "m", file.tensors);
  expect_refused(folder / "m", [&] { static_cast<void>(load_model(folder / "m", file.layout)); },
                 {"no use for the tensor 'transformer.h.0.attn.rotary'; give "});
}

TEST(Checkpoint, RefusesAnotherShape) {
  temporary_folder const folder;
  draft file(hand_shape());
  // As nn.Linear would keep it: as many numbers, but the other way round.
  file["transformer.h.0.attn.c_attn.weight"].shape = {18, 6};
  write_safetensors(folder / "m", file.tensors);
  expect_refused(folder / "m", [&] { static_cast<void>(load_model(folder / "m", file.layout)); },
                 {"'transformer.h.0.attn.c_attn.weight' has the shape (18, 6)", "needs (6, 18); give "});
}

TEST(Checkpoint, RefusesAnotherType) {
  temporary_folder const folder;
  draft const file(hand_shape());
  write_safetensors(folder / "m", file.tensors);
  std::string bytes = read_file(folder / "m");
  bytes.replace(bytes.find("F32", bytes.find("transformer.ln_f.bias")), 3, "I32");
  write_file(folder / "m", bytes);
  expect_refused(folder / "m", [&] { static_cast<void>(load_model(folder / "m", file.layout)); },
                 {"'transformer.ln_f.bias' is of type I32, not F32, F16 or BF16; save it"});
}

TEST(Checkpoint, RefusesAnUntiedHeadForATiedModel) {
  temporary_folder const folder;
  draft const file(hand_shape(false));
  write_safetensors(folder / "m", file.tensors);
  expect_refused(folder / "m", [&] { static_cast<void>(load_model(folder / "m", parameter_layout(hand_shape(true)))); },
                 {"'lm_head.weight'; give --untied"});
  EXPECT_FALSE(shape_of_model(folder / "m").tied);
}

TEST(Checkpoint, RefusesATiedFileForAnUntiedModel) {
  temporary_folder const folder;
  draft const file(hand_shape(true));
  write_safetensors(folder / "m", file.tensors);
  expect_refused(folder / "m",
                 [&] { static_cast<void>(load_model(folder / "m", parameter_layout(hand_shape(false)))); },
                 {"'lm_head.weight' is missing; give "});
}

TEST(Checkpoint, RefusesMoreOrFewerLayers) {
  temporary_folder const folder;
  draft const file(hand_shape(true, 2));
  write_safetensors(folder / "m", file.tensors);
  auto const loading = [&](int layers) {
    return [&, layers] { static_cast<void>(load_model(folder / "m", parameter_layout(hand_shape(true, layers)))); };
  };
  expect_refused(folder / "m", loading(1), {"no use for the tensor 'transformer.h.1.", "--layers"});
  expect_refused(folder / "m", loading(3), {"'transformer.h.2.", "is missing", "--layers"});
}

TEST(Checkpoint, RefusesWhatIsNoModel) {
  temporary_folder const folder;
  draft file(hand_shape());
  file.remove("transformer.wpe.weight");
  write_safetensors(folder / "m", file.tensors);
  expect_refused(folder / "m", [&] { static_cast<void>(shape_of_model(folder / "m")); },
                 {"no matrix 'transformer.wpe.weight'", "give a file of a GPT-2 model"});
  expect_refused(folder / "none", [&] { static_cast<void>(shape_of_model(folder / "none")); }, {});
  expect_refused(folder / "none", [&] { static_cast<void>(load_model(folder / "none", file.layout)); }, {});
}

/// The file again, with the upper halves of its numbers, which are brain floats.
void write_as_bf16(std::filesystem::path const& file, draft const& of) {
  nlohmann::json header;
  std::string numbers;
  for (auto const& one : of.tensors) {
    std::size_t const begin = numbers.size();
    for (float const value : one.data) {
      auto const upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
      numbers.append(reinterpret_cast<char const*>(&upper), sizeof upper);
    }
    header[one.name] = {{"dtype", "BF16"}, {"shape", one.shape}, {"data_offsets", {begin, numbers.size()}}};
  }
  std::string const text = header.dump();
  std::uint64_t const length = text.size();
  write_file(file, std::string(reinterpret_cast<char const*>(&length), sizeof length) + text + numbers);
}

TEST(Checkpoint, ModelsInSixteenBitsLoadAsFloats) {
  temporary_folder const folder;
  draft file(hand_shape());
  for (float& value : file.values) {
    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);  // what has no lower half
  }
  write_as_bf16(folder / "m", file);
  EXPECT_TRUE(same_bits(load_model(folder / "m", file.layout), file.values));
  EXPECT_EQ(shape_of_model(folder / "m").width, 6);
}

/// By what the file says of itself; else by config.json; else one per 64 features, and one at least.
TEST(Checkpoint, HeadsAreFoundOut) {
  temporary_folder const folder;
  draft const narrow(hand_shape());
  using source = stored_heads::source;
  auto const heads = [&] { return shape_of_model(folder / "m").heads; };
  auto const by = [&] { return heads_of_model(folder / "m").by; };
  write_safetensors(folder / "m", narrow.tensors);
  EXPECT_EQ(heads(), 1);
  EXPECT_EQ(by(), source::assumed);
  for (char const* const useless : {"", "[]", "{", R"({"n_layer": 2})", R"({"n_head": -2})", R"({"n_head": "2"})"}) {
    write_file(folder / "config.json", useless);
    EXPECT_EQ(heads(), 1) << useless;
  }
  write_file(folder / "config.json", R"({"n_head": 18446744073709551615})");
  EXPECT_EQ(heads(), 65536) << "which no shape may have";
  write_file(folder / "config.json", R"({"n_head": 2, "model_type": "gpt2"})");
  EXPECT_EQ(heads(), 2);
  EXPECT_EQ(by(), source::config_file);
  write_safetensors(folder / "m", narrow.tensors, {{"ferry.heads", "6"}});
  EXPECT_EQ(heads(), 6);
  EXPECT_EQ(by(), source::metadata);
  write_safetensors(folder / "m", narrow.tensors, {{"ferry.heads", "none"}});
  EXPECT_EQ(heads(), 2);
  for (auto const& [width, assumed] : {std::pair{192, 3}, {200, 2}}) {
    auto wide = hand_shape();
    wide.width = width;
    wide.heads = 1;
    draft const of_width(wide);
    std::filesystem::create_directory(folder / "wide");
    write_safetensors(folder / "wide/m", of_width.tensors);
    EXPECT_EQ(shape_of_model(folder / "wide/m").heads, assumed) << "one for 64 features, or fewer that divide them";
  }
}

}  // namespace
