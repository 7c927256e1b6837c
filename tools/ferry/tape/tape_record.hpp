// The tape of one step: where every item was after each step of forward and backward, and how many bytes that took. It
// is written down while the real session is put through the step on the sim device, from the session's own answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ferry/plan.hpp"
#include "ferry/simulate.hpp"

namespace ferry::command {

/// Steps larger than this are no tapes to look at.
inline constexpr std::size_t most_tape_items = 4000;

enum class tape_place : std::uint8_t {
  absent,  ///< not saved yet, or released
  device,
  leaving,  ///< on the device, its copy to the host under way
  host,
  arriving,  ///< on the host, device bytes taken for its way back
  dropped,   ///< nowhere: its recipe will rebuild it
};
/// "device", "on its way out"
[[nodiscard]] std::string_view words_of(tape_place where) noexcept;

struct tape_item {
  std::uint32_t segment = 0;
  std::string name;
  std::string label;  ///< with its segment's number: "h3"
  std::size_t bytes = 0;
};

/// Forward or backward of one segment. Indices are those of `tape::items`.
struct tape_step {
  std::string label;  ///< "F3", "B3"
  bool is_backward = false;
  std::uint32_t segment = 0;
  double start_us = 0;
  double end_us = 0;
  std::vector<std::size_t> writes;   ///< saved by forward; the input of the next segment is part of this one's forward
  std::vector<std::size_t> reads;    ///< needed by backward
  std::vector<std::size_t> rebuilt;  ///< once for each run of a recipe
  std::vector<std::size_t> sent, fetched, dropped;
  /// In forward at its end; in backward while it computes, when all that it reads is there.
  std::vector<tape_place> places;
  std::size_t most_bytes = 0;   ///< on the device, blocks that are no items included
  std::size_t after_bytes = 0;  ///< of the items on the device
  std::size_t host_bytes = 0;   ///< afterwards
};

/// An item was in one place from one time to another.
struct tape_span {
  std::size_t item = 0;
  tape_place where = tape_place::absent;
  double from_us = 0;
  double to_us = 0;
};

/// A recipe's run.
struct tape_rebuild {
  std::size_t item = 0;
  double from_us = 0;
  double to_us = 0;
};

/// From then on, so many bytes.
struct tape_bytes {
  double at_us = 0;
  std::size_t device = 0;
  std::size_t host = 0;
};

struct tape {
  std::string net;                 ///< what the step is called
  std::string policy;              ///< as FERRY_POLICY has it
  std::uint32_t first_number = 0;  ///< of the first segment, in labels
  std::vector<tape_item> items;
  std::vector<tape_step> steps;  ///< forward, then backward
  std::vector<tape_span> spans;
  std::vector<tape_rebuild> rebuilds;  ///< by time
  std::vector<tape_bytes> curve;

  double step_us = 0;
  double ahead_us = 0;  ///< what the step takes when the host runs ahead, as it does where nobody looks
  std::size_t budget_bytes = 0;
  std::size_t peak_bytes = 0;
  std::size_t peak_step = 0;  ///< the first that reaches it
  double average_bytes = 0;   ///< over time
  std::size_t host_peak_bytes = 0;
  double host_average_bytes = 0;
  std::size_t sent_bytes = 0, fetched_bytes = 0;  ///< over the link

  std::size_t forward_operations = 0;  ///< that make an item
  double forward_us = 0;
  std::vector<recompute_share> recomputed;  ///< by operation, in the order of forward
  [[nodiscard]] std::uint64_t recomputed_operations() const noexcept;
  [[nodiscard]] double recompute_us() const noexcept;
};

/// Runs the step and writes down its tape. To be looked at, the device is waited for at each operation; policies that
/// fetch when the host asks (`offload`) are then later than where it runs ahead, and `ahead_us` says by how much.
/// `first_number` is what the first segment is called. Throws: as `simulate`; `setting_error` for more than
/// `most_tape_items`.
[[nodiscard]] tape record_tape(profile const& step, hardware const& on, simulation_options how,
                               std::uint32_t first_number);

}  // namespace ferry::command
