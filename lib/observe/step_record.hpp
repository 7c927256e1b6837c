// What the step log writes down of one step: plain records, filled on the hot path and read once the step is over.
// Times are microseconds since the session began, by the device's clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ferry/stats.hpp"
#include "store/entry.hpp"
#include "store/event_pool.hpp"
#include "store/transfer.hpp"

namespace ferry::observe {

/// Of a time: it did not happen.
inline constexpr double never_us = -1;
/// Of an index: there is none.
inline constexpr std::uint32_t no_line = store::item_record::no_line;

/// One item in one step.
struct item_line {
  item_key key;
  std::size_t bytes = 0;
  double saved_us = never_us;
  double offload_began_us = never_us;
  double offload_ended_us = never_us;
  double needed_us = never_us;  ///< its first restore was asked for
  double fetch_began_us = never_us;
  double arrived_us = never_us;
  double moved_us = 0;                ///< its transfers took so long in all
  double exposed_us = 0;              ///< of which somebody waited for so long
  double recipe_us = 0;               ///< runs of its recipe
  std::uint32_t needed_in = no_line;  ///< the stretch in which it was
};

struct decision_line {
  decision_record record;
  std::uint32_t item = no_line;
};

/// What the compute stream had to do between two entries of segments.
struct stretch_line {
  pass which{};
  std::uint32_t micro_batch = 0;
  std::uint32_t segment = 0;
  std::uint32_t lane = 0;
  store::event_handle from;
  store::event_handle to;
  double from_us = never_us;  ///< known once both have passed
  double to_us = never_us;
};

/// Compute standing still for an item or for its device bytes, or rebuilding it.
struct compute_line {
  enum class kind : std::uint8_t { standing_still, short_of_bytes, recipe };
  kind what{};
  std::uint32_t lane = 0;
  std::uint32_t item = no_line;
  double from_us = 0;
  double to_us = 0;
};

struct copy_line {
  copy_direction direction{};
  store::transfer_phase outcome{};
  label name;
  std::uint32_t item = no_line;
  std::size_t bytes = 0;
  std::size_t arrived_bytes = 0;
  double from_us = 0;
  double to_us = 0;
};

/// The host standing still.
struct host_line {
  enum class kind : std::uint8_t { waiting_for_bytes, held_back };
  kind what{};
  std::uint32_t item = no_line;  ///< on its way out
  double from_us = 0;
  double to_us = 0;
};

enum class tier : std::uint8_t { device, pinned, in_flight };
inline constexpr std::size_t tier_count = 3;

struct byte_line {
  tier of{};
  double at_us = 0;
  std::size_t bytes = 0;
};

/// One direction of the link.
struct link_line {
  std::uint64_t transfers = 0;
  std::uint64_t abandoned = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
  double gbps = 0;  ///< the running estimate at the end
};

/// What of a step adds up.
struct step_totals {
  double run_ahead_us = 0;
  double exposed_us = 0;           ///< compute for arrivals and for bytes
  double waited_for_bytes_us = 0;  ///< of that, for bytes
  double host_waited_us = 0;
  double recompute_us = 0;
  std::uint64_t restores = 0;
  std::uint64_t recomputes = 0;
  std::array<std::size_t, tier_count> peak_bytes{};
  std::array<link_line, 2> links{};  ///< by copy_direction
  std::array<std::uint64_t, reason_count> counts{};
  std::array<std::uint64_t, reason_count> bytes{};  ///< of the items decided about
};

struct step_record : step_totals {
  std::uint64_t number = 0;
  bool ended = false;
  double began_us = 0;  ///< the host's calls
  double ended_us = 0;
  double planned_us = 0;     ///< 0 without a plan
  double base_us = 0;        ///< when `base` passed
  store::event_handle base;  ///< ties timed events to the device's clock; only with a trace
  std::vector<item_line> items;
  std::vector<decision_line> decisions;
  std::vector<stretch_line> stretches;
  std::vector<compute_line> compute;
  std::vector<copy_line> copies;
  std::vector<host_line> waits;
  std::vector<byte_line> tiers;
  std::vector<stream_ref> streams;  ///< by lane

  /// Empty, with the memory it has.
  void clear() {
    step_record fresh;
    fresh.items.swap(items);
    fresh.decisions.swap(decisions);
    fresh.stretches.swap(stretches);
    fresh.compute.swap(compute);
    fresh.copies.swap(copies);
    fresh.waits.swap(waits);
    fresh.tiers.swap(tiers);
    fresh.streams.swap(streams);
    fresh.items.clear();
    fresh.decisions.clear();
    fresh.stretches.clear();
    fresh.compute.clear();
    fresh.copies.clear();
    fresh.waits.clear();
    fresh.tiers.clear();
    fresh.streams.clear();
    *this = std::move(fresh);
  }

  [[nodiscard]] bool has(std::uint32_t line) const noexcept { return line < items.size(); }
  /// How long the compute stream took for it; 0 if that is not known.
  [[nodiscard]] double step_us() const noexcept {
    if (stretches.empty() || stretches.back().to_us < 0 || stretches.front().from_us < 0) return 0;
    return stretches.back().to_us - stretches.front().from_us;
  }
};

}  // namespace ferry::observe
