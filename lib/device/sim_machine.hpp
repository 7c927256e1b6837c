// The sim device without its locks: streams, engines and a clock in whole nanoseconds, moved on one happening at a
// time.
//
// A happening is the end of a launch or copy. Waits and time stamps take no time and are done as soon as what they wait
// for is; so after each call everything that can be under way is. Ties are broken by the order in which things began.
//
// Owns its streams and events until it dies, because tickets point at them. Threads: one at a time; `now` any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "device/sim_stream.hpp"
#include "ferry/sim_device.hpp"

namespace ferry {

/// The slow-downs of one engine.
class sim_pace {
 public:
  void add(sim_slow_down const& added) { slow_downs_.push_back(added); }
  /// When what begins at `start` and takes `span` at full speed is over, or `sim_slow_down::never`.
  [[nodiscard]] std::chrono::nanoseconds end_of(std::chrono::nanoseconds start, std::chrono::nanoseconds span) const;
  /// How much of it, at full speed, is done between two times.
  [[nodiscard]] double done_ns(std::chrono::nanoseconds from, std::chrono::nanoseconds until) const;

 private:
  /// The factor at a time, and when it is another one.
  struct stretch {
    double factor = 1;
    std::chrono::nanoseconds until = sim_slow_down::never;
  };
  [[nodiscard]] stretch at(std::chrono::nanoseconds when) const;

  std::vector<sim_slow_down> slow_downs_;
};

class sim_machine {
 public:
  /// Throws: `invalid_argument` for a speed or a share that is none.
  sim_machine(link_speed device_to_host, link_speed host_to_device, contention beside, bool recalls_copies);
  sim_machine(sim_machine const&) = delete;
  sim_machine& operator=(sim_machine const&) = delete;

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept {
    return std::chrono::nanoseconds(now_ns_.load(std::memory_order_relaxed));
  }

  [[nodiscard]] sim_stream& add_stream(label const& name);
  /// No more work. What is left of it, because it can never run, is dropped as failed.
  void close(sim_stream& stream, std::string const& why_dropped);
  [[nodiscard]] std::vector<sim_stream*> const& open_streams() const noexcept { return open_; }
  [[nodiscard]] sim_event& add_event(event_timing timing);
  void remove_event(sim_event& removed) noexcept;

  void enqueue(sim_stream& stream, sim_task&& task);
  void record(sim_event& event, sim_stream& stream);
  void wait(sim_stream& stream, sim_event const& event);

  /// Lets time pass until a head's time is up; null if that does not happen by `latest`. The head stands until
  /// `finish`.
  [[nodiscard]] sim_stream* next(std::chrono::nanoseconds latest);
  /// The operation whose time is up.
  [[nodiscard]] sim_operation operation_of(sim_stream& stream) const;
  /// Whether the operation is to fail. Counts it.
  [[nodiscard]] bool failure_is_due(label const& name);
  /// The head is over, well or because of `cause`.
  void finish(sim_stream& stream, std::optional<std::string> const& cause);

  void slow_down(sim_slow_down const& added);
  void fail(sim_failure const& added);
  /// Throws: `invalid_argument` for a speed that is negative or no number.
  void set_link(copy_direction direction, link_speed speed);
  [[nodiscard]] link_speed link(copy_direction direction) const {
    return links_[static_cast<std::size_t>(direction)].speed;
  }

  /// Functions that were skipped, to be destroyed where that may call the device.
  [[nodiscard]] std::vector<unique_function<void()>> take_dropped() noexcept { return std::exchange(dropped_, {}); }
  /// What every unfinished stream waits for.
  [[nodiscard]] std::string describe_waiting() const;

 private:
  struct link_state {
    link_speed speed;
    std::chrono::nanoseconds next_free{-1};  // never used: the first copy meets an idle link
    sim_stream* copying = nullptr;
    std::deque<sim_stream*> ready;
  };
  struct happening {
    std::chrono::nanoseconds when;
    std::uint64_t order;
    sim_stream* stream;
    /// The head ends at another time now, or has ended.
    [[nodiscard]] bool is_stale() const noexcept {
      return stream->closed || !stream->under_way || stream->order != order || stream->over != when;
    }
    friend bool operator>(happening const& a, happening const& b) noexcept {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };

  void start_all();
  bool start(sim_stream& stream);
  void start_copy(link_state& link);
  void begin(sim_stream& stream, std::chrono::nanoseconds start, std::chrono::nanoseconds span);
  void skip_head(sim_stream& stream);
  [[nodiscard]] bool is_running(sim_stream& stream);
  [[nodiscard]] double rate_of(sim_stream& stream);
  void settle_pace();
  void predict_ends();
  [[nodiscard]] std::string describe_waiting(sim_stream const& stream) const;
  [[nodiscard]] link_state& link_of(copy_direction direction) { return links_[static_cast<std::size_t>(direction)]; }
  [[nodiscard]] sim_pace& pace_of(sim_engine engine) { return paces_[static_cast<std::size_t>(engine)]; }
  [[nodiscard]] static sim_engine engine_of(sim_task const& task) noexcept;

  bool const recalls_copies_;
  contention const beside_;
  bool const contended_;
  std::chrono::nanoseconds paced_since_{0};  // whatever runs has run beside the same others since
  std::atomic<std::int64_t> now_ns_{0};
  std::deque<sim_stream> streams_;
  std::vector<sim_stream*> open_;
  std::deque<sim_event> events_;
  std::vector<sim_event*> spare_events_;
  std::array<link_state, 2> links_;  // by copy_direction
  std::array<sim_pace, 3> paces_;    // by sim_engine
  std::vector<sim_failure> failures_;
  std::priority_queue<happening, std::vector<happening>, std::greater<>> happenings_;
  std::uint64_t begun_ = 0;
  std::vector<unique_function<void()>> dropped_;
};

}  // namespace ferry
