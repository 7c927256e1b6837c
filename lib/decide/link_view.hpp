// What the link is doing, as the transfer engine publishes it, and what follows for how long bytes will take.
//
// Threads: the engine writes the figures, anyone reads them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "ferry/device.hpp"

namespace ferry::decide {

/// Of a time: nobody knows, or never.
inline constexpr double unknown_us = std::numeric_limits<double>::infinity();

/// Of one direction.
struct link_counters {
  std::atomic<std::uint64_t> transfers{0};
  std::atomic<std::uint64_t> abandoned{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> chunks{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<double> busy_us{0};
  std::atomic<double> bytes_per_us{0};  ///< running estimate of it alone, 0 until something has been copied
  std::atomic<double> share_beside{1};  ///< what is left of it while the other direction is at work
  std::atomic<double> latency_us{0};    ///< the same of a chunk that meets an idle link
  std::atomic<std::size_t> in_flight_bytes{0};
  std::atomic<std::int64_t> copying_since_ns{0};  ///< the chunk that is being copied, on the device's clock; 0: none
  std::atomic<std::size_t> copying_bytes{0};      ///< of that chunk
};

class link_view {
 public:
  /// `punctual`: whoever waits for something acts at the very instant that it happens.
  link_view(device& on, link_counters const& out, link_counters const& back, bool punctual) noexcept
      : device_(on), counters_{&out, &back}, punctual_(punctual) {}

  [[nodiscard]] link_counters const& counters(copy_direction direction) const noexcept {
    return *counters_[direction == copy_direction::device_to_host ? 0 : 1];
  }
  /// 0 if nothing has been copied yet.
  [[nodiscard]] double bytes_per_us(copy_direction direction) const noexcept {
    return counters(direction).bytes_per_us.load(std::memory_order_relaxed);
  }
  /// The same, beside what the other direction is doing now.
  [[nodiscard]] double bytes_per_us_now(copy_direction direction) const noexcept;
  [[nodiscard]] bool is_punctual() const noexcept { return punctual_; }
  /// How long before an event a thread must act so as not to be late for it: sleeping threads wake up slowly.
  [[nodiscard]] double wake_up_us() const noexcept { return punctual_ ? 0 : 200; }

  /// The chunk that is being copied.
  struct chunk_times {
    double so_far_us = 0;
    double bytes_us = 0;  ///< at the link's speed
    double usual_us = 0;  ///< with its latency
  };
  /// Nothing if there is none or nobody knows how long one takes.
  [[nodiscard]] std::optional<chunk_times> chunk_under_way(copy_direction direction) const;
  /// How much longer the chunk that is being copied has taken than any should. Nobody knows when the link will go on.
  [[nodiscard]] double standstill_us(copy_direction direction) const;
  /// Until `bytes` more have gone over the link, those in flight included. The chunk that is being copied has been for
  /// a while. A link that stands still is taken to do so for as long again as it has, so that whoever waits loses at
  /// most twice what they need have.
  [[nodiscard]] double us_for(copy_direction direction, std::size_t bytes) const;

 private:
  device& device_;
  std::array<link_counters const*, 2> counters_;
  bool punctual_;
};

}  // namespace ferry::decide
