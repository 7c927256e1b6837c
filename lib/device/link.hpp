// One direction of the host device's link: copies for real, one copy at a time, and takes as long over it
// as a link of the set bandwidth and latency would.
//
// Pacing follows a schedule rather than the clock: a copy starts at the later of the moment it could start
// and the scheduled end of the copy before it. Waking up late therefore delays one completion but not the
// ones after it, and the long-run bandwidth is exact although the thread sleeps instead of spinning.
//
// Where the two directions disturb each other, a copy takes longer for as long as the other direction was at work by
// its own schedule. A copy learns of what begins beside it when its time is up, and then goes on.
//
// Threads: any; streams contend for the link as engines of a GPU do. Stream order: none of its own, the
// caller's `ready` carries it.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "ferry/host_device.hpp"

namespace ferry {

using link_clock = std::chrono::steady_clock;

/// When one copy occupies the link.
struct link_slot {
  link_clock::time_point start;
  link_clock::time_point end;
};

/// The speed as it is. Throws: `invalid_argument` for one that is negative or no number.
[[nodiscard]] link_speed checked_speed(link_speed speed);

/// The shares as they are. Throws: `invalid_argument` for one that is no share.
[[nodiscard]] contention checked_contention(contention const& beside);

/// The slot of a copy that could start at `ready` on a link that is taken until `next_free`. A link that
/// stood idle adds its latency; back to back, latencies overlap with the copy before.
[[nodiscard]] link_slot schedule_copy(link_speed speed, link_clock::time_point ready, link_clock::time_point next_free,
                                      std::size_t bytes) noexcept;

/// When a copy that alone would end with its slot does, if the other direction was at work during `other` (ascending,
/// apart from each other) and that leaves this share of the speed.
[[nodiscard]] link_clock::time_point end_beside(link_slot alone, std::span<link_slot const> other,
                                                double share) noexcept;

/// When the copy counts as over: as scheduled, unless this machine needed longer to move the bytes.
[[nodiscard]] link_clock::time_point settle_copy(link_slot scheduled, link_clock::duration moving) noexcept;

/// Copies past the cache if the block is large: nothing reads it soon, and the compute beside it keeps its
/// cache lines.
void copy_bytes(void* to, void const* from, std::size_t bytes) noexcept;

/// When a direction was at work of late, for the other one to ask.
class work_times {
 public:
  /// Work that follows the last without a gap is one with it.
  void begin(link_clock::time_point start);
  /// What has begun last goes on until then.
  void last_until(link_clock::time_point end);
  [[nodiscard]] link_clock::time_point end_beside(link_slot alone, double share) const;

 private:
  mutable std::mutex mutex_;
  std::vector<link_slot> latest_;
};

class paced_link {
 public:
  /// Throws: `invalid_argument` for a speed that is negative or no number.
  explicit paced_link(link_speed speed);

  /// Before the first copy: so much is left of the speed while the other direction is at work.
  void disturbed_by(paced_link const& other, double share) noexcept;

  /// Returns when the copy is done and its time is up, with the scheduled end: where the next copy in
  /// the same stream may start.
  link_clock::time_point copy(void* to, void const* from, std::size_t bytes, link_clock::time_point ready);

  /// From the next copy on. Throws: `invalid_argument`, as the constructor.
  void set_speed(link_speed speed);
  /// The same, and the latency stays.
  void set_gbps(double gbps);
  [[nodiscard]] link_speed speed() const;

 private:
  [[nodiscard]] link_slot beside_other(link_slot alone) const;
  void wait_until(link_clock::time_point when) noexcept;

  mutable std::mutex speed_mutex_;  // separate, so that a change need not wait for the copy under way
  link_speed speed_;
  work_times work_;
  work_times const* other_ = nullptr;  // null where nothing is lost beside it
  double share_beside_ = 1;
  std::mutex busy_;  // held for the whole of a copy; guards what follows
  link_clock::time_point next_free_{};
  link_clock::duration wake_up_time_{};
};

}  // namespace ferry
