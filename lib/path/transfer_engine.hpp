// The transfer engine: cuts copies into chunks and issues them late.
//
// One thread serves both directions. It holds the submitted transfers, keeps a few chunks per direction in
// the device's queue, and picks the next chunk when one completes: so a transfer can be abandoned between
// chunks, and an urgent one overtakes. A chunk is issued only when its gates have passed, never behind a
// stream wait, so nothing blocks the head of a copy stream.
//
// Between the session's thread and the engine's stand two single-producer queues: submissions one way,
// ended transfers the other. While a transfer is submitted the engine alone touches it, but for the atomics.
//
// On a device with a virtual clock there is no such thread: the engine is an agent of the device's time. It acts when
// something has happened on the device and in every call of the session's, so both see the same instant.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "decide/link_estimate.hpp"
#include "decide/link_view.hpp"
#include "ferry/device.hpp"
#include "store/happenings.hpp"
#include "store/transfer.hpp"
#include "support/doorbell.hpp"

namespace ferry::path {

using decide::link_counters;
using decide::link_estimate;
using store::transfer;
using store::transfer_event;
using store::transfer_phase;

struct engine_options {
  std::size_t chunk_bytes = std::size_t{1} << 20;
  bool checksum = false;
};

class transfer_engine final : private virtual_time::agent {
 public:
  /// Chunks per direction handed to the device at once, until the link's speed is known.
  static constexpr std::size_t first_chunks_ahead = 3;
  static constexpr std::size_t max_chunks_ahead = 8;

  transfer_engine(device& on, engine_options options);
  /// Abandons what is queued and waits for what is in flight.
  ~transfer_engine();

  /// Session's thread. The transfer is the engine's until `next_ended` returns it.
  void submit(transfer& submitted);
  /// Session's thread. An ended transfer, or null.
  [[nodiscard]] transfer* next_ended();
  /// Session's thread. On a virtual clock, where a submission may end in the call that submits it: nothing else would
  /// tell the session, which must not wait for what has happened.
  [[nodiscard]] bool has_ended_at_once() const noexcept { return time_ != nullptr && ended_.read_available() > 0; }
  /// Session's thread. Lets the engine sleep for good while nothing is submitted, or keeps it alert.
  void set_alert(bool alert);

  /// How many it hands out at once now: one copying, the others to keep it fed while the engine sleeps. As
  /// few as do that, so that little is in the way of an urgent transfer.
  [[nodiscard]] std::size_t chunks_ahead(copy_direction direction) const noexcept;

  /// What it publishes, and what follows from that. Punctual: on a virtual clock, unless that lets the engine be late.
  [[nodiscard]] decide::link_view const& link() const noexcept { return link_; }
  [[nodiscard]] link_counters const& counters(copy_direction direction) const noexcept {
    return lane(direction).counters;
  }

 private:
  struct chunk {
    explicit chunk(device& on) : begin(on, event_timing::on), own_mark(on, event_timing::on) {}
    /// That the link has passed it. A transfer's last chunk is marked by the transfer's own event, for one call less.
    [[nodiscard]] event_ref mark() const noexcept { return is_last ? of->done.ref() : own_mark.ref(); }
    /// The transfer may have ended meanwhile and be on its way again: its event marks another chunk then.
    [[nodiscard]] bool is_still_marked() const noexcept { return !is_last || of->progress.times_done == times_done; }
    transfer* of = nullptr;
    std::size_t bytes = 0;
    event begin;  ///< of the copy, if the link was idle; otherwise that is the mark of the chunk before
    event own_mark;
    bool is_last = false;
    std::uint64_t times_done = 0;  ///< of the transfer, with this chunk
    std::chrono::nanoseconds issued{0};
    bool met_idle_link = false;
  };
  /// How long a direction has been at work, as the engine sees it.
  struct work_time {
    void begin(std::chrono::nanoseconds now) noexcept { since = now; }
    void end(std::chrono::nanoseconds now) noexcept { before += now - *std::exchange(since, std::nullopt); }
    [[nodiscard]] std::chrono::nanoseconds until(std::chrono::nanoseconds now) const noexcept {
      return since ? before + (now - *since) : before;
    }
    std::chrono::nanoseconds before{0};
    std::optional<std::chrono::nanoseconds> since;
  };
  struct copy_lane {
    copy_lane(device& on, copy_direction which, label const& name);
    /// What is known of its speed beforehand, 0 for nothing, and what is left of that beside the other direction.
    void expect(double gbps, double share_beside) noexcept;
    copy_direction direction;
    stream copies;
    std::vector<transfer*> waiting;  ///< chunks remain to be issued, in order of submission
    std::vector<chunk> ring;
    std::size_t first = 0;
    std::size_t in_flight = 0;
    bool failing = false;           ///< a chunk failed: drain before issuing more
    std::vector<transfer*> failed;  ///< to be ended once drained
    std::chrono::nanoseconds last_completion{0};
    work_time work;
    /// When the chunk that is being copied began, and how long the other direction had been at work then.
    std::chrono::nanoseconds copying_since{0};
    std::chrono::nanoseconds other_worked{0};
    link_estimate estimate;
    link_counters counters;
  };

  void met(transfer_event what, transfer const& t) const {
    if (listener_ != nullptr) tell_listener(what, t);
  }
  void tell_listener(transfer_event what, transfer const& t) const;
  void run();
  bool act() override;
  void stop_thread();
  void stop_acting() noexcept;
  bool progress();
  bool accept_submissions();
  bool reap(copy_lane& lane);
  void copies_next(copy_lane& lane, std::chrono::nanoseconds now) noexcept;
  [[nodiscard]] double share_beside_other(copy_lane const& lane, std::chrono::nanoseconds now) const noexcept;
  bool handle_cancellations(copy_lane& lane);
  void stop(copy_lane& lane, transfer& cancelled);
  void record_done(copy_lane& lane, transfer& of);
  void give_up(copy_lane& lane, transfer& failed, error const& cause);
  bool issue(copy_lane& lane);
  transfer* pick(copy_lane& lane);
  event_status gates(transfer& waiting);
  void issue_chunk(copy_lane& lane, transfer& chosen);
  void recover(copy_lane& lane);
  void chunk_arrived(copy_lane& lane, chunk& arrived);
  void learn_speed(copy_lane& lane, chunk const& arrived, double beside);
  bool verify(transfer& arrived);
  void finish(transfer& ended, transfer_phase how);
  void rest();
  [[nodiscard]] bool nothing_under_way() const noexcept;
  [[nodiscard]] copy_lane const& lane(copy_direction direction) const noexcept {
    return direction == copy_direction::device_to_host ? d2h_ : h2d_;
  }

  [[nodiscard]] copy_lane const& other_than(copy_lane const& one) const noexcept { return &one == &d2h_ ? h2d_ : d2h_; }

  static constexpr std::size_t queue_capacity = 4096;
  using queue = boost::lockfree::spsc_queue<transfer*, boost::lockfree::capacity<queue_capacity>>;

  device& device_;
  order_hooks* const listener_;  // null unless order is checked
  virtual_time* const time_;     // null where a thread drives the engine
  engine_options options_;
  copy_lane d2h_;
  copy_lane h2d_;
  decide::link_view const link_;
  queue submissions_;
  queue ended_;
  std::deque<transfer*> ended_late_;  // on a virtual clock, where nobody makes room in `ended_` meanwhile
  static constexpr double shortest_idle_nap_us = 50;
  static constexpr double longest_idle_nap_us = 1000;
  double idle_nap_us_ = shortest_idle_nap_us;
  std::atomic<bool> alert_{false};
  doorbell wake_;                            // rung after `alert_` was switched on and after a submission
  std::atomic<std::uint64_t> submitted_{0};  // beside the queue, whose own order is too weak for a doorbell
  std::uint64_t accepted_ = 0;
  std::uint64_t finished_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> exited_{false};
  std::thread thread_;
};

}  // namespace ferry::path
