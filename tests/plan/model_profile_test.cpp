// Profiles by formula and hardware by name, and the shipped files that were made of them.
#include "ferry/model_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ferry/error.hpp"
#include "support/temporary_folder.hpp"

namespace ferry {

namespace {

using ferry::testing::message_of;
using ferry::testing::read_file;
using ferry::testing::write_file;
using ::testing::ElementsAre;
using ::testing::StartsWith;

std::vector<std::string> names_in(profile_segment const& segment) {
  std::vector<std::string> names;
  for (auto const& item : segment.items) names.push_back(item.name);
  return names;
}

profile_item const& find(profile_segment const& segment, std::string_view name) {
  for (auto const& item : segment.items) {
    if (item.name == name) return item;
  }
  throw std::runtime_error("no item " + std::string(name));
}

double flops_of(profile const& step) {
  double sum = 0;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) sum += item.recipe_flops;
  }
  return sum;
}

gpt_dimensions const gpt_7b{.layers = 32, .width = 4096, .heads = 32, .context = 2048, .batch = 4};

TEST(GptProfile, HasTheItemsOfTheTransformerCore) {
  auto const flash = gpt_profile(gpt_7b, named_hardware("a100-80"));
  ASSERT_EQ(flash.segments.size(), 33U);
  EXPECT_THAT(names_in(flash.segments[5]), ElementsAre("x", "ln1", "qkv", "heads", "mid", "ln2", "fc", "act"));
  EXPECT_THAT(names_in(flash.segments[32]), ElementsAre("x", "lnf"));
  auto quadratic = gpt_7b;
  quadratic.flash_attention = false;
  auto const plain = gpt_profile(quadratic, named_hardware("a100-80"));
  EXPECT_THAT(names_in(plain.segments[5]), ElementsAre("x", "ln1", "qkv", "att", "heads", "mid", "ln2", "fc", "act"));
  EXPECT_EQ(find(plain.segments[5], "att").bytes, 2ULL * 4 * 32 * 2048 * 2048);
  EXPECT_THAT(find(plain.segments[5], "heads").inputs, ElementsAre(item_name{5, "att"}, item_name{5, "qkv"}));
}

TEST(GptProfile, InputsComeFromTheBlockBeforeAndTheFirstFromTheTokens) {
  auto const step = gpt_profile(gpt_7b, named_hardware("a100-80"));
  auto const& first = find(step.segments[0], "x");
  EXPECT_TRUE(first.inputs.empty());
  EXPECT_LT(*first.recipe_us, 0.01 * step.segments[0].forward_us);
  EXPECT_THAT(find(step.segments[7], "x").inputs, ElementsAre(item_name{6, "mid"}, item_name{6, "act"}));
  EXPECT_THAT(find(step.segments[32], "x").inputs, ElementsAre(item_name{31, "mid"}, item_name{31, "act"}));
  EXPECT_EQ(step.need_order.size(), 32U * 8 + 2);
  EXPECT_EQ(step.need_order.front(), (item_name{32, "lnf"}));
  EXPECT_EQ(step.need_order.back(), (item_name{0, "x"}));
}

TEST(GptProfile, WorkAndBytesAreThoseOfA7BModel) {
  auto const step = gpt_profile(gpt_7b, named_hardware("a100-80"));
  double const tokens = 4 * 2048;
  double const weights = 12.0 * 4096 * 4096;
  // Two FLOPs a weight and token, and the attention: 32 blocks' recipes make their outputs once each.
  EXPECT_NEAR(flops_of(step) / (32 * 2 * tokens * weights), 1.05, 0.02);
  std::size_t bytes = 0;
  for (auto const& item : step.segments[1].items) bytes += item.bytes;
  EXPECT_NEAR(static_cast<double>(bytes), 2 * 16 * tokens * 4096, 0.01 * static_cast<double>(bytes));
  // Backward is twice forward, and saving a block takes some times as long as computing it.
  EXPECT_NEAR(step.segments[1].backward_us / step.segments[1].forward_us, 2, 0.1);
  EXPECT_NEAR(static_cast<double>(bytes) / 25e3 / step.segments[1].forward_us, 2.7, 0.3);
}

TEST(GptProfile, ForwardIsTheSumOfWhatItMakes) {
  auto const step = gpt_profile(gpt_7b, named_hardware("rtx4090"));
  double recipes = 0;
  for (auto const& item : step.segments[3].items) recipes += *item.recipe_us;  // x costs what the next one's x does
  EXPECT_NEAR(step.segments[3].forward_us, recipes, 0.01);
}

TEST(GptProfile, RefusesDimensionsThatMakeNoSense) {
  auto const on = named_hardware("a100-80");
  auto const message = [&](gpt_dimensions const& of) {
    return message_of<invalid_argument>([&] { static_cast<void>(gpt_profile(of, on)); });
  };
  EXPECT_EQ(message({.layers = 0}), "layers = 0: give a number from 1 to 10000");
  EXPECT_EQ(message({.heads = 7}), "heads = 7 does not divide width = 768: give one that does");
  EXPECT_THAT(message({.width = 1 << 16, .heads = 1, .context = 1 << 22, .batch = 1 << 20}),
              StartsWith("the dimensions are too large: segments[0].forward_us: "));
  EXPECT_THAT(message({.width = 1 << 16, .heads = 1 << 16, .context = 1 << 22, .batch = 8, .flash_attention = false}),
              StartsWith("the dimensions are too large: segments[0]."));
  hardware unknown;
  unknown.name = "box";
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(gpt_profile({}, unknown)); }),
            "the hardware 'box' has no rates: give its tflops and memory_gbps");
}

TEST(ResnetProfile, HasTheWorkOfThePublishedNetworks) {
  auto const on = named_hardware("rtx4090");
  struct known {
    int depth;
    std::size_t segments;
    double gflops;  // of one image, forward
  };
  for (auto const& [depth, segments, gflops] : {known{50, 18, 8.2}, known{101, 35, 15.6}, known{152, 52, 23.0}}) {
    auto const step = resnet_profile({.depth = depth, .batch = 32, .image = 224}, on);
    EXPECT_EQ(step.segments.size(), segments);
    EXPECT_NEAR(flops_of(step) / 32 / 1e9, gflops, 0.25);
  }
}

TEST(ResnetProfile, ItemsAreConvolutionsNormalisedTensorsAndMasks) {
  auto const step = resnet_profile({.depth = 50, .batch = 64, .image = 224}, named_hardware("rtx4090"));
  EXPECT_THAT(names_in(step.segments[0]), ElementsAre("x", "conv1", "bn1", "argmax"));
  EXPECT_FALSE(step.segments[0].items[0].recipe_us);
  EXPECT_THAT(names_in(step.segments[1]), ElementsAre("x", "conv1", "bn1", "conv2", "bn2", "conv3", "skip", "mask"));
  EXPECT_THAT(names_in(step.segments[2]), ElementsAre("x", "conv1", "bn1", "conv2", "bn2", "conv3", "mask"));
  EXPECT_THAT(find(step.segments[2], "x").inputs, ElementsAre(item_name{1, "conv3"}, item_name{1, "skip"}));
  EXPECT_THAT(find(step.segments[3], "x").inputs, ElementsAre(item_name{2, "conv3"}, item_name{2, "x"}));
  EXPECT_EQ(find(step.segments[2], "x").bytes, 2ULL * 64 * 56 * 56 * 256);
  EXPECT_EQ(find(step.segments[17], "x").bytes, 2ULL * 64 * 7 * 7 * 2048);
}

TEST(ResnetProfile, RefusesDimensionsThatMakeNoSense) {
  auto const on = named_hardware("t4");
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(resnet_profile({.depth = 18}, on)); }),
            "depth = 18: give 50, 101 or 152");
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(resnet_profile({.image = 8}, on)); }),
            "image = 8: give a number from 32 to 16384");
}

TEST(NamedHardware, EveryNameGivesSomethingPlausible) {
  for (auto const& name : hardware_names()) {
    auto const on = named_hardware(name);
    EXPECT_EQ(on.name, name);
    EXPECT_GE(on.device_bytes, 8ULL << 30) << name;
    EXPECT_GT(on.host_bytes, on.device_bytes) << name;
    for (auto const& link : {on.device_to_host, on.host_to_device}) {
      EXPECT_GT(link.gbps, 10) << name;
      EXPECT_LT(link.gbps, name == "gh200" ? 450 : 64) << name << ", of which one has NVLink to its host";
      EXPECT_GT(link.latency_us, 0) << name;
    }
    EXPECT_GT(on.tflops, 20) << name;
    EXPECT_GT(on.memory_gbps, 4 * on.device_to_host.gbps) << name;
  }
  EXPECT_THAT(hardware_names(),
              ::testing::IsSupersetOf({"a100-40", "a100-80", "h100-sxm", "rtx3090", "rtx4090", "v100-32", "l4", "t4"}));
}

TEST(NamedHardware, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  auto const message = message_of<invalid_argument>([] { static_cast<void>(named_hardware("a1000")); });
  EXPECT_THAT(message, StartsWith("there is no hardware 'a1000': did you mean a100-40 or a100-80 or a6000? Else give "
                                  "one of a100-40, "));
}

/// `FERRY_WRITE_EXAMPLES=1 ferry_plan_tests --gtest_filter='ShippedFiles.*'` writes them anew.
void expect_shipped(std::string const& name, std::string const& text) {
  auto const file = std::filesystem::path(FERRY_EXAMPLES) / name;
  if (std::getenv("FERRY_WRITE_EXAMPLES") != nullptr) write_file(file, text);
  EXPECT_EQ(read_file(file), text) << file << " is not what the formula gives: write it anew";
}

TEST(ShippedFiles, AreWhatTheFormulasGive) {
  auto const a100 = named_hardware("a100-80");
  auto const rtx4090 = named_hardware("rtx4090");
  gpt_dimensions const gpt_1_3b{.layers = 24, .width = 2048, .heads = 16, .context = 2048, .batch = 4};
  resnet_dimensions const resnet{.depth = 101, .batch = 128, .image = 224};
  expect_shipped("profiles/gpt_7b_a100.json", to_json(gpt_profile(gpt_7b, a100)));
  expect_shipped("profiles/gpt_1.3b_rtx4090.json", to_json(gpt_profile(gpt_1_3b, rtx4090)));
  expect_shipped("profiles/resnet101_rtx4090.json", to_json(resnet_profile(resnet, rtx4090)));
  expect_shipped("hardware/a100-80.json", to_json(a100));
  expect_shipped("hardware/rtx4090.json", to_json(rtx4090));
}

TEST(ShippedFiles, CanBeReadAndAreSmall) {
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(FERRY_EXAMPLES) / "profiles")) {
    auto const step = read_profile(entry.path());
    EXPECT_EQ(to_json(step), read_file(entry.path()));
    EXPECT_LT(entry.file_size(), 16U << 10);
    ++files;
  }
  EXPECT_GE(files, 3);
}

}  // namespace

}  // namespace ferry
