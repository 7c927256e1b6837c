// The planning problem: a chain of stages under byte limits on the device and the host, one compute stream, and a link
// with one engine per direction. docs/planner.md states it in full.
//
// Stage i reads its input X[i] and makes X[i+1]; its backward needs X[i] and S[i], which is everything that the stage
// saves and includes X[i+1]. Sizes and times are doubles: the problem is scale-free, and files of cases have fractions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ferry::planning {

/// One way to save a stage: part of it stays on the device, part is ferried, the rest is rebuilt before its backward.
struct saving_option {
  double kept_bytes = 0;
  double ferried_bytes = 0;
  double rebuilt_bytes = 0;
  double rebuild_s = 0;
  bool output_stays = true;  ///< the stage's output is among what is kept
};

struct chain {
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  std::string name;
  std::vector<double> forward_s;       ///< L
  std::vector<double> backward_s;      ///< L
  std::vector<double> boundary_bytes;  ///< L + 1: X[0] ... X[L]
  std::vector<double> saved_bytes;     ///< L: S[0] ... S[L-1]
  std::vector<double> forward_scratch_bytes;
  std::vector<double> backward_scratch_bytes;
  double device_bytes = 0;
  double host_bytes = unlimited;
  double d2h_bytes_per_s = 0;  ///< 0: nothing can be ferried
  double h2d_bytes_per_s = 0;
  /// Further ways to save each stage beside all of it kept and all of it ferried. Empty, or one list per stage.
  std::vector<std::vector<saving_option>> options;

  [[nodiscard]] std::size_t stages() const noexcept { return forward_s.size(); }
  /// The time of a step with unlimited memory.
  [[nodiscard]] double ideal_s() const noexcept;
};

/// What a schedule does. `rebuild` completes a stage that was saved in part.
enum class chain_op : std::uint8_t { forward_only, forward_saving, rebuild, backward, d2h, h2d, drop_device, drop_host };

/// A tensor of the chain: X[index], or what a stage saves. Of a stage saved in part only the ferried part travels.
struct chain_tensor {
  enum class kind : std::uint8_t { boundary, saved };
  kind what = kind::boundary;
  std::uint32_t index = 0;
  friend bool operator==(chain_tensor, chain_tensor) noexcept = default;
};

/// One row of a timed schedule. Compute operations name a stage, the others a tensor.
struct scheduled {
  double start_s = 0;
  double end_s = 0;
  chain_op op{};
  std::uint32_t stage = 0;
  chain_tensor tensor{};
};

}  // namespace ferry::planning
