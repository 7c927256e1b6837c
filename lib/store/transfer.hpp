// One copy of an item between tiers: what to copy, how far it is, and what it still holds.
//
// The session's thread fills it in and submits it; from then until it has ended the transfer engine's
// thread works on it, and the two share only the atomics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferry/item.hpp"
#include "store/device_pool.hpp"

namespace ferry::store {

struct entry;

enum class transfer_phase : std::uint8_t {
  queued,     ///< chunks remain to be issued
  issued,     ///< `done` is recorded after the last chunk
  stopped,    ///< abandoned: no more chunks; `done` is recorded after those issued
  completed,  ///< ended: every byte has arrived (and its checksum is right)
  abandoned,  ///< ended: given up, nothing in flight
  failed,     ///< ended: `failure` says why
};

/// What is to be copied. Set before it is submitted, and untouched until it has ended.
struct transfer_job {
  copy_direction direction = copy_direction::device_to_host;
  void* to = nullptr;
  void const* from = nullptr;
  /// On the device, if the bytes do not lie there in one piece; `to` or `from` is where the first one begins.
  std::span<device_view const> pieces;
  std::size_t bytes = 0;
  label name;
  std::uint64_t priority = 0;  ///< smaller is sooner
  /// Nothing is issued before these are complete; a failed one fails an offload, which would copy garbage.
  std::vector<event_handle> gates;
  std::uint64_t expected_checksum = 0;  ///< with FERRY_VERIFY=checksum, for the way back
};

/// Whose bytes they are, whatever becomes of the item.
struct transfer_owner {
  entry* item = nullptr;  ///< null once it has been released
  item_key key;
  std::uint64_t saved_in_step = 0;
  std::uint32_t log_line = 0;
};

/// What a transfer still touches of an item released meanwhile; freed when it has ended.
struct transfer_orphans {
  bool any = false;
  device_region device;
  slab_piece pinned;
  std::vector<event_handle> uses;
  release_callback release;
};

/// What has become of it. Written by the engine, read by the session once it has ended.
struct transfer_result {
  std::string failure;
  std::uint64_t checksum = 0;
  double moved_us = 0;
  // When bytes were under way, on the device's clock: without the time that its first chunk was queued behind others.
  std::chrono::nanoseconds copying_since{0};
  std::chrono::nanoseconds copying_until{0};
};

/// The engine's own notes.
struct transfer_progress {
  std::uint64_t times_done = 0;  ///< how often `done` was recorded
  std::uint32_t chunks_in_flight = 0;
  bool gates_passed = false;
  std::chrono::nanoseconds began{0};  ///< on the device's clock
};

struct transfer {
  explicit transfer(device& on) : done(on, event_timing::on) {}

  transfer_job job;

  // The session's own notes.
  transfer_owner owner;
  bool submitted = false;
  reservation in_flight;
  transfer_orphans orphans;
  device_region left_behind;  ///< bytes it may still write, which its item has given up for others

  // Shared while submitted.
  std::atomic<transfer_phase> phase{transfer_phase::queued};
  std::atomic<bool> cancel{false};
  std::atomic<bool> urgent{false};
  std::atomic<std::size_t> issued_bytes{0};  ///< the item's first so many bytes have been handed to the link
  std::atomic<std::size_t> arrived_bytes{0};
  /// Handed to the link and not arrived yet. What has arrived is read first, so that it is never the more of the two.
  [[nodiscard]] std::size_t in_flight_bytes() const noexcept {
    std::size_t const arrived = arrived_bytes.load(std::memory_order_acquire);
    return issued_bytes.load(std::memory_order_relaxed) - arrived;
  }

  event done;  ///< recorded by the engine; to be read from `issued` or `stopped` on
  transfer_result result;
  transfer_progress progress;
};

}  // namespace ferry::store
