// How fast the link is: by size and by chunk, each way and both at once, pinned and pageable, against what the machine
// itself can do.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/link_contention.hpp"
#include "common/progress.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

/// GB/s for copies of one size; 0: not measured.
struct link_row {
  std::size_t bytes = 0;
  double out = 0;
  double in = 0;
  double both = 0;      ///< sum of both directions at once
  double both_out = 0;  ///< each of them while the other is at work; 0 also where they hardly met
  double both_in = 0;
  double pageable_out = 0;
  double pageable_in = 0;
  double limit = 0;  ///< the machine's own memcpy of that size; of a GPU, its lanes' raw rate
};

/// GB/s for a large transfer cut into chunks.
struct chunk_row {
  std::size_t chunk_bytes = 0;
  double out = 0;
  double in = 0;
};

struct link_result {
  std::string device;
  std::string limit_words;      ///< what `limit` is
  std::string paced_words;      ///< of the host device: what its sessions make of it
  std::size_t moved_bytes = 0;  ///< of the transfers that were cut
  std::vector<link_row> sizes;
  std::vector<chunk_row> chunks;
  link_contention beside;
  bool interrupted = false;

  /// The smallest chunk that reaches 95% of the best, by the slower direction.
  [[nodiscard]] std::optional<std::size_t> good_chunk() const;
  /// How much faster that is than with this chunk; 1 if not known.
  [[nodiscard]] double gain_over(std::size_t chunk_bytes) const;
};

/// GB/s of a copy while the other direction was at work too, which it was for `overlap_us`; the rest went at
/// `alone_gbps`. Nothing where the two hardly met.
[[nodiscard]] std::optional<double> gbps_beside(std::size_t bytes, double own_us, double overlap_us,
                                                double alone_gbps) noexcept;

struct link_options {
  config settings;
  std::size_t largest = std::size_t{256} << 20;
  int repeats = 5;
};

/// Throws: `setting_error` for the sim device; `out_of_memory`.
[[nodiscard]] link_result measure_link(link_options const& how, progress& shown);

[[nodiscard]] std::string table_of(link_result const& all);
[[nodiscard]] nlohmann::ordered_json json_of(link_result const& all);

/// "16.0 GT/s PCIe" and "16", as the kernel writes them: GB/s of payload and words; nothing if they are no such texts.
struct pcie_rate {
  double gbps = 0;
  std::string words;  ///< "PCIe 4 x16"
};
[[nodiscard]] std::optional<pcie_rate> pcie_rate_of(std::string_view speed, std::string_view width);

}  // namespace ferry::command
