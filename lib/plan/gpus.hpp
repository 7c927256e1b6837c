// GPUs by name: a catalogue that ships with the library (lib/plan/gpus.json) and that files of the same format extend
// or correct. docs/formats.md describes the format.
//
// Threads: values; any thread.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/plan.hpp"

namespace ferry::planning {

/// A rate by the data sheet, and the part of it that long work is assumed to reach.
struct rate {
  double peak = 0;
  double sustained = 0;
  friend bool operator==(rate const&, rate const&) = default;
};

struct gpu {
  std::string name;
  std::vector<std::string> also;  ///< other names, as drivers and people write them
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;  ///< of the machines it is typically in
  bool bf16 = false;           ///< its tensor cores know it; else half precision is fp16
  rate half_tflops;
  rate fp32_tflops;
  rate memory_gbps;
  unsigned pcie_generation = 0;
  unsigned pcie_lanes = 0;
  link_speed device_to_host;
  link_speed host_to_device;
  contention beside{};  ///< of the two directions; what copies cost the computation is not known of a GPU by name
  friend bool operator==(gpu const&, gpu const&) = default;
};

/// What a step in half precision, or in fp32, runs on.
[[nodiscard]] hardware hardware_of(gpu const& which, bool half = true);

class gpu_catalogue {
 public:
  /// What the library ships.
  [[nodiscard]] static gpu_catalogue shipped();

  /// Entries replace those of the same name; others are added. Throws: `bad_field`, and nothing is changed.
  void read(std::istream& in);
  /// The same from a file. Throws: `format_error` that names it.
  void read(std::filesystem::path const& file);

  /// However it is written: "rtx4090", "RTX 4090", "4090", "NVIDIA A100-SXM4-80GB".
  /// Throws: `invalid_argument` that suggests the nearest names, or says whose accelerators have no CUDA.
  [[nodiscard]] gpu const& find(std::string_view name) const;
  /// The known names most like it, the nearest first; at most three, none if nothing is like it.
  [[nodiscard]] std::vector<std::string> nearest(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::vector<gpu> const& all() const noexcept { return all_; }

 private:
  std::vector<gpu> all_;  // by name
};

}  // namespace ferry::planning
