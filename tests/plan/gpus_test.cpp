// The catalogue of GPUs: what ships, how names are found however they are written, files that add to it, and files that
// nobody should write.
#include "plan/gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "ferry/error.hpp"
#include "support/temporary_folder.hpp"

namespace {

using ferry::format_error;
using ferry::invalid_argument;
using ferry::planning::gpu;
using ferry::planning::gpu_catalogue;
using ferry::planning::hardware_of;
using ferry::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

constexpr char const* one_gpu = R"({"ferry_gpus": 1, "gpus": [
  {"name": "mi-300", "also": ["Instinct 300"], "memory_gib": 192, "host_gib": 512.5, "bf16": true,
   "half_tflops": {"peak": 1307, "sustained": 700}, "fp32_tflops": {"peak": 163, "sustained": 100},
   "memory_gbps": {"peak": 5300, "sustained": 4500}, "pcie": {"generation": 5, "lanes": 8}}]})";

void add(gpu_catalogue& to, std::string const& text) {
  std::istringstream in(text);
  to.read(in);
}

TEST(Gpus, ShipsWhatPeopleHave) {
  auto const known = gpu_catalogue::shipped();
  EXPECT_THAT(known.names(),
              IsSupersetOf({"a100-40", "a100-80", "h100-pcie", "h100-sxm", "l4",      "l40s",    "t4",
                            "v100-16", "v100-32", "rtx3060",   "rtx3090",  "rtx4070", "rtx4080", "rtx4090",
                            "rtx5090", "laptop",  "a10g",      "a6000",    "h200",    "gh200",   "b200"}));
  for (auto const& one : known.all()) {
    // What one would call implausible: a share of the peak below a third, or a link beyond its raw rate.
    EXPECT_GT(one.half_tflops.sustained, one.half_tflops.peak / 3) << one.name;
    EXPECT_GT(one.memory_gbps.sustained, 0.8 * one.memory_gbps.peak) << one.name;
    EXPECT_LT(one.fp32_tflops.peak, one.half_tflops.peak) << one.name;
    constexpr double nvlink_c2c = 450;
    double const pcie = one.pcie_lanes * 0.985 * (1U << (one.pcie_generation - 3));
    double const raw = one.name == "gh200" ? nvlink_c2c : pcie;
    EXPECT_LT(one.device_to_host.gbps, 0.9 * raw) << one.name;
    EXPECT_GT(one.host_to_device.gbps, 0.7 * raw) << one.name;
  }
}

TEST(Gpus, FiguresThatPlansWereMadeWithStay) {
  auto const known = gpu_catalogue::shipped();
  auto const a100 = hardware_of(known.find("a100-80"));
  EXPECT_EQ(a100.device_bytes, 80ULL << 30);
  EXPECT_EQ(a100.host_bytes, 256ULL << 30);
  EXPECT_EQ(a100.device_to_host.gbps, 25.5);
  EXPECT_EQ(a100.host_to_device.gbps, 24.5);
  EXPECT_NEAR(a100.device_to_host.gbps * a100.beside.out_beside_back, 24, 1e-9);  // as published
  EXPECT_NEAR(a100.host_to_device.gbps * a100.beside.back_beside_out, 11, 1e-9);
  EXPECT_FALSE(hardware_of(known.find("rtx4090")).beside.any());
  EXPECT_EQ(a100.tflops, 220);
  EXPECT_EQ(a100.memory_gbps, 1800);
  EXPECT_EQ(hardware_of(known.find("h100")).tflops, 620);
  EXPECT_EQ(hardware_of(known.find("h100")).device_to_host.gbps, 53);
  EXPECT_EQ(hardware_of(known.find("laptop")).device_to_host.gbps, 12.5);
  EXPECT_EQ(hardware_of(known.find("l4")).host_to_device.gbps, 24);
  EXPECT_EQ(hardware_of(known.find("v100-32")).device_to_host.gbps, 12.5);
}

TEST(Gpus, SinglePrecisionHasItsOwnRate) {
  auto const known = gpu_catalogue::shipped();
  auto const& found = known.find("rtx4090");
  EXPECT_EQ(hardware_of(found, true).tflops, 145);
  EXPECT_EQ(hardware_of(found, false).tflops, 70);
}

TEST(Gpus, AreFoundHoweverTheyAreWritten) {
  auto const known = gpu_catalogue::shipped();
  for (char const* written : {"rtx4090", "RTX 4090", "rtx-4090", "4090", "NVIDIA GeForce RTX 4090"}) {
    EXPECT_EQ(known.find(written).name, "rtx4090") << written;
  }
  EXPECT_EQ(known.find("NVIDIA A100-SXM4-80GB").name, "a100-80");
  EXPECT_EQ(known.find("A100-PCIE-40GB").name, "a100-40");
  EXPECT_EQ(known.find("NVIDIA H100 80GB HBM3").name, "h100-sxm");
  EXPECT_EQ(known.find("NVIDIA H200").name, "h200");
  EXPECT_EQ(known.find("NVIDIA GH200 480GB").name, "gh200");
  EXPECT_EQ(known.find("NVIDIA B200").name, "b200");
  EXPECT_EQ(known.find("NVIDIA A10G").name, "a10g");
  EXPECT_EQ(known.find("NVIDIA RTX A6000").name, "a6000");
  EXPECT_EQ(known.find("NVIDIA GeForce RTX 4080").name, "rtx4080");
  EXPECT_EQ(known.find("4070").name, "rtx4070");
  EXPECT_EQ(known.find("NVIDIA GeForce RTX 4070 Laptop GPU").name, "laptop");
  EXPECT_EQ(known.find("h100").name, "h100-sxm");
  EXPECT_EQ(known.find("Tesla T4").name, "t4");
  EXPECT_EQ(known.find("Tesla V100-SXM2-16GB").name, "v100-16");
}

TEST(Gpus, AnUnknownOneIsAnsweredWithTheNearest) {
  auto const known = gpu_catalogue::shipped();
  EXPECT_THAT(known.nearest("a100"), ElementsAre("a100-40", "a100-80"));
  EXPECT_THAT(known.nearest("V100"), ElementsAre("v100-16", "v100-32"));
  EXPECT_THAT(known.nearest("rtx4060"), ElementsAre("rtx3060", "rtx4070", "rtx4080"));
  EXPECT_THAT(known.nearest("l40"), ElementsAre("l40s"));
  EXPECT_THAT(known.nearest("rtx4090 laptop gpu"), ElementsAre("rtx4090"));
  EXPECT_THAT(known.nearest("potato"), IsEmpty());
  EXPECT_THAT(known.nearest(""), IsEmpty());
  EXPECT_THAT(known.nearest(std::string(1'000'000, '9')), IsEmpty());
  EXPECT_THAT(message_of<invalid_argument>([&] { static_cast<void>(known.find("rtx4091")); }),
              StartsWith("there is no hardware 'rtx4091': did you mean rtx4090"));
  EXPECT_THAT(message_of<invalid_argument>([&] { static_cast<void>(known.find("potato")); }),
              StartsWith("there is no hardware 'potato': give one of a100-40, a100-80, a10g, "));
}

TEST(Gpus, WhatHasNoCudaIsRefusedWithTheReason) {
  auto const known = gpu_catalogue::shipped();
  auto const message = [&](char const* name) {
    return message_of<invalid_argument>([&] { static_cast<void>(known.find(name)); });
  };
  EXPECT_THAT(
      message("mi300x"),
      StartsWith("'mi300x' is made by AMD, and Ferry runs on CUDA GPUs alone, which NVIDIA makes: give one of "));
  EXPECT_THAT(message("mi300x"), HasSubstr("figures for another go into a file of GPUs (docs/formats.md)"));
  for (char const* name : {"AMD Instinct MI250", "Radeon RX 7900 XTX", "RX 7900", "MI-355X"}) {
    EXPECT_THAT(message(name), HasSubstr("is made by AMD")) << name;
  }
  for (char const* name : {"Apple M3 Max", "m2 ultra", "M4"}) {
    EXPECT_THAT(message(name), HasSubstr("is made by Apple")) << name;
  }
  EXPECT_THAT(message("Gaudi 3"), HasSubstr("is made by Intel"));
  EXPECT_THAT(message("TPU v5e"), HasSubstr("is made by Google"));
  for (char const* name : {"Quadro M4000", "Tesla M60", "GTX 1080", "arctic"}) {
    EXPECT_THAT(message(name), HasSubstr("there is no hardware")) << name;
  }
}

TEST(Gpus, AFileAddsAndReplaces) {
  auto known = gpu_catalogue::shipped();
  auto const before = known.all().size();
  add(known, one_gpu);
  EXPECT_EQ(known.all().size(), before + 1);
  auto const& added = known.find("instinct-300");
  EXPECT_EQ(added.device_bytes, 192ULL << 30);
  EXPECT_EQ(added.host_bytes, (512ULL << 30) + (1ULL << 29));
  EXPECT_EQ(added.device_to_host.gbps, 26.5) << "half of 16 lanes";
  std::string other(one_gpu);
  other.replace(other.find("mi-300"), 6, "rtx4090");
  add(known, other);
  EXPECT_EQ(known.all().size(), before + 1);
  EXPECT_EQ(known.find("rtx4090").device_bytes, 192ULL << 30);
}

TEST(Gpus, ABadFileNamesThePlaceAndChangesNothing) {
  struct change {
    char const* from;
    char const* to;
    char const* message;
  };
  for (auto const& [from, to, message] : {
           change{"\"ferry_gpus\": 1", "\"ferry_gpus\": 2", "ferry_gpus: is 2; this Ferry reads version 1"},
           change{"\"ferry_gpus\": 1", "\"ferry_hardware\": 1", "is no gpus: it says 'ferry_hardware'"},
           change{"\"mi-300\"", "\"\"", "gpus[0].name: is ''; give a name in plain letters"},
           change{"\"mi-300\"", "\"m\\u001b[2J\"", "gpus[0].name: is 'm?[2J'; give a name in plain letters"},
           change{"192", "0", "gpus[0].memory_gib: is 0; give a number above 0"},
           change{"192", "1e300", "gpus[0].memory_gib: is 1e+300; give a number above 0, to "},
           change{"\"sustained\": 700", "\"sustained\": 1400",
                  "gpus[0].half_tflops.sustained: is 1400, above the peak; give at most 1307"},
           change{"\"generation\": 5", "\"generation\": 9", "gpus[0].pcie.generation: is 9; give 3, 4 or 5, or "},
           change{"\"lanes\": 8", "\"lanes\": 0", "gpus[0].pcie.lanes: is 0; give a number from 1 to 16"},
           change{"\"bf16\": true", "\"bf16\": 1", "gpus[0].bf16: is 1; give true or false"},
           change{"\"bf16\": true,", "", "gpus[0]: has no \"bf16\"; add it"},
           change{"\"bf16\"", "\"color\": 1, \"bf16\"", "gpus[0]: has an unknown key 'color'; known are name, also"},
           change{"\"also\": [\"Instinct 300\"]", "\"also\": [7]", "gpus[0].also[0]: is 7; give a text in quotes"},
           change{"\"gpus\": [", "\"note\": [1], \"gpus\": [", "note: is an array; give a text in quotes"},
       }) {
    std::string bad(one_gpu);
    ASSERT_NE(bad.find(from), bad.npos) << from;
    bad.replace(bad.find(from), std::string_view(from).size(), to);
    gpu_catalogue known;
    EXPECT_THAT(message_of<format_error>([&] { add(known, bad); }), StartsWith(message)) << to;
    EXPECT_THAT(known.all(), IsEmpty());
  }
  gpu_catalogue known;
  EXPECT_THAT(message_of<format_error>([&] { add(known, std::string(one_gpu).substr(0, 200)); }), HasSubstr("damaged"));
  EXPECT_THAT(message_of<format_error>([&] { add(known, R"({"ferry_gpus": 1})"); }), HasSubstr("has no \"gpus\""));
}

TEST(Gpus, TheSameNameTwiceInAFileIsRefused) {
  std::string text(one_gpu);
  auto const begin = text.find("{\"name\"");
  auto const row = text.substr(begin, text.rfind("]}") - begin);
  text.insert(begin, row + ",");
  gpu_catalogue known;
  EXPECT_THAT(message_of<format_error>([&] { add(known, text); }),
              StartsWith("gpus[1].name: 'mi-300' stands there twice"));
}

}  // namespace
