// The planning problem: a chain of stages under byte limits on the device and the host, one compute stream, and a link
// with one engine per direction. docs/planner.md states it in full.
//
// Stage i reads its input X[i] and makes X[i+1]; its backward needs X[i] and S[i], which is everything that the stage
// saves and includes X[i+1]. Sizes and times are doubles: the problem is scale-free, and files of cases have fractions.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ferry/link.hpp"

namespace ferry::planning {

/// One way to save a stage: part of it stays on the device, part is ferried, the rest is rebuilt before its backward.
struct saving_option {
  double kept_bytes = 0;
  double ferried_bytes = 0;
  double rebuilt_bytes = 0;
  double rebuild_s = 0;
  bool output_stays = true;       ///< the stage's output is among what is kept
  double forward_peak_bytes = 0;  ///< while forward makes it; 0: all of S at once
  std::uint64_t tag = 0;          ///< whoever made the option knows it by this
};

/// A part of S that is placed on its own; for the lower bound of a chain with `options`.
struct saved_piece {
  double bytes = 0;
  double rebuild_s = 0;  ///< infinity if it cannot be rebuilt
};

/// The link stands still, both directions of it. Times from the step's beginning.
struct link_stall {
  double from_s = 0;
  double until_s = 0;
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
  std::vector<double> passing_scratch_bytes;  ///< of a forward that saves nothing; empty: as any forward
  double device_bytes = 0;
  double host_bytes = unlimited;
  double d2h_bytes_per_s = 0;  ///< 0: nothing can be ferried
  double h2d_bytes_per_s = 0;
  double d2h_latency_s = 0;  ///< of each transfer
  double h2d_latency_s = 0;
  /// Only the simulator and so the search know of these two exactly: bounds ignore them and still hold.
  contention beside{};
  std::vector<link_stall> stalls;  ///< in order and apart
  /// Stages that cannot be run again: something in them has no recipe. Empty: all can.
  std::vector<bool> must_save;
  /// A ferried stage's output travels on its own, so that it can come back before the rest.
  bool output_apart = false;
  /// Whatever is ferried must be rebuildable from what stays: no input is ferried, and no stage's output.
  bool insured = false;
  /// Further ways to save each stage beside all of it kept and all of it ferried. Empty, or one list per stage.
  std::vector<std::vector<saving_option>> options;
  /// What each S consists of; empty, or one list per stage. Without it, S is one piece.
  std::vector<std::vector<saved_piece>> pieces;

  [[nodiscard]] std::size_t stages() const noexcept { return forward_s.size(); }
  [[nodiscard]] double passing_scratch(std::size_t i) const noexcept {
    return passing_scratch_bytes.empty() ? forward_scratch_bytes[i] : passing_scratch_bytes[i];
  }
  /// Bytes of the gradient that waits while stages up to i are run again.
  [[nodiscard]] double waiting_gradient(std::size_t i) const noexcept {
    return i + 1 == stages() ? 0 : boundary_bytes[i + 1];
  }
  /// What the backward of a stage needs beside its X and S: both gradients and scratch memory.
  [[nodiscard]] double backward_bytes(std::size_t i) const noexcept {
    return boundary_bytes[i] + boundary_bytes[i + 1] + backward_scratch_bytes[i];
  }
  [[nodiscard]] bool may_replay(std::size_t i) const noexcept { return must_save.empty() || !must_save[i]; }
  [[nodiscard]] bool has_link() const noexcept { return d2h_bytes_per_s > 0 && h2d_bytes_per_s > 0; }
  /// What the computation beside them loses by bytes that go out and come back, each, at the least.
  [[nodiscard]] double slowed_s_a_byte() const noexcept {
    if (!has_link()) return 0;
    double const out_s = (1 - beside.compute_beside_out) / d2h_bytes_per_s;
    double const back_s = (1 - beside.compute_beside_back) / h2d_bytes_per_s;
    // Both at once may cost less than one after the other.
    double const apart = 2 - beside.compute_beside_out - beside.compute_beside_back;
    double const together = 1 - beside.compute_beside_both;
    return (out_s + back_s) * (together < apart ? together / apart : 1);
  }
  /// The time of a step with unlimited memory.
  [[nodiscard]] double ideal_s() const noexcept;
};

/// What a schedule does. `rebuild` completes a stage that was saved in part.
enum class chain_op : std::uint8_t {
  forward_only,
  forward_saving,
  rebuild,
  backward,
  d2h,
  h2d,
  drop_device,
  drop_host
};

/// A tensor of the chain: X[index], or what a stage saves. Of a stage saved in part only the ferried part travels.
struct chain_tensor {
  enum class kind : std::uint8_t { boundary, saved };
  kind what = kind::boundary;
  std::uint32_t index = 0;
  friend bool operator==(chain_tensor, chain_tensor) noexcept = default;
};

}  // namespace ferry::planning
