// Hardware by name. None of these figures was measured here: they are round figures of what such machines are said to
// reach, by the shares below of their nominal rates. Measure the machine in front of you where it matters.
//
// - Memory: what the data sheet says. The driver, weights and optimiser have their part of it; a budget is given apart.
// - Pinned memory: all of a server with 256 GiB, a desktop with 64 GiB or a laptop with 16 GiB.
// - Link: pinned copies of some MiB one way at a time, about 0.8 of the raw rate: 25 GB/s on PCIe 4 x16, 12.5 on PCIe 3
//   x16 or PCIe 4 x8, 53 on PCIe 5 x16. Into the device is a little slower than out of it. A copy costs about 10 us
//   more than its bytes, between its submission and the event that says it has ended.
// - Matrix products: dense bf16 (fp16 on V100 and T4) with fp32 sums. About 0.7 of the tensor cores' peak in servers,
//   0.85 and more on consumer cards, whose peak with fp32 sums is half of what is advertised; L4 and T4 run into their
//   power limits at about half.
// - Device memory: 0.85 to 0.9 of the data sheet.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ferry/error.hpp"
#include "ferry/plan.hpp"
#include "plan/json_reader.hpp"

namespace ferry {

namespace {

constexpr double copy_latency_us = 10;

struct preset {
  std::string_view name;
  std::size_t device_gib;
  std::size_t host_gib;
  double out_gbps;
  double in_gbps;
  double tflops;
  double memory_gbps;
};

constexpr std::array presets{
    preset{"a100-40", 40, 256, 25.5, 24.5, 220, 1400},  // of 312 and 1555; PCIe 4
    preset{"a100-80", 80, 256, 25.5, 24.5, 220, 1800},  // of 312 and 2039; PCIe 4
    preset{"h100", 80, 256, 53, 51, 620, 2900},         // SXM: of 989 and 3350; PCIe 5
    preset{"l4", 24, 256, 25, 24, 60, 260},             // of 121 and 300; PCIe 4
    preset{"laptop", 8, 16, 12.5, 12, 45, 220},         // a GeForce RTX 4070 in one: of 64 and 256; PCIe 4 x8
    preset{"rtx3090", 24, 64, 25.5, 24.5, 60, 830},     // of 71 and 936; PCIe 4
    preset{"rtx4090", 24, 64, 25.5, 24.5, 145, 900},    // of 165 and 1008; PCIe 4
    preset{"t4", 16, 256, 12.5, 12, 30, 260},           // of 65 and 320; PCIe 3
    preset{"v100-32", 32, 256, 12.5, 12, 90, 790},      // of 125 and 900; PCIe 3
};

}  // namespace

hardware named_hardware(std::string_view name) {
  auto const found = std::ranges::find(presets, name, &preset::name);
  if (found == presets.end()) {
    throw invalid_argument(fmt::format("there is no hardware {}: give one of {}", planning::shown(name),
                                       fmt::join(hardware_names(), ", ")));
  }
  return {.name = std::string(found->name),
          .device_bytes = found->device_gib << 30,
          .host_bytes = found->host_gib << 30,
          .device_to_host = {found->out_gbps, copy_latency_us},
          .host_to_device = {found->in_gbps, copy_latency_us},
          .tflops = found->tflops,
          .memory_gbps = found->memory_gbps};
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  names.reserve(presets.size());
  for (preset const& one : presets) names.emplace_back(one.name);
  return names;
}

}  // namespace ferry
