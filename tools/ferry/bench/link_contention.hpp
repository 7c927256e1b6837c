// What copies cost each other and the computation beside them: each thing timed alone and beside what disturbs it, by
// turns, so that whatever else the machine does meanwhile is in both.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/progress.hpp"
#include "ferry/config.hpp"
#include "ferry/link.hpp"

namespace ferry::command {

/// How long something takes alone and beside something else: the middle of several rounds each.
struct contended_time {
  double alone_us = 0;  ///< 0: not measured
  double beside_us = 0;

  /// What is left of the speed, in hundredths, because more is noise; 1 where it was not measured.
  [[nodiscard]] double share() const noexcept;
};

struct link_contention {
  std::size_t copied_bytes = 0;  ///< that `out` and `back` are timed with
  contended_time out{};          ///< beside copies back
  contended_time back{};         ///< beside copies out
  int product_width = 0;         ///< of the square matrices that are multiplied
  int products = 0;              ///< in a row, that the others are timed with
  contended_time compute_beside_out{};
  contended_time compute_beside_back{};
  contended_time compute_beside_both{};
  link_speed out_alone{};
  link_speed back_alone{};
  double memory_gbps = 0;        ///< that a layer norm reads and writes device memory with
  std::size_t device_bytes = 0;  ///< of the device, as it is made by the same settings
  std::size_t pinned_bytes = 0;

  [[nodiscard]] contention shares() const noexcept;
  [[nodiscard]] double gbps(double us) const noexcept;
  [[nodiscard]] double tflops() const noexcept;
};

/// Copies of at most so many bytes. Throws: `out_of_memory`; `no_cuda` for a GPU without cuBLAS.
[[nodiscard]] link_contention measure_contention(config const& settings, std::size_t largest, int repeats,
                                                 progress& shown);

[[nodiscard]] std::string table_of(link_contention const& all);
[[nodiscard]] nlohmann::ordered_json json_of(link_contention const& all);
/// The text of a hardware file.
[[nodiscard]] std::string hardware_file_of(link_contention const& all, std::string const& device);

}  // namespace ferry::command
