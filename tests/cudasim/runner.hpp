// What runs the streams' work and keeps its time: threads on the machine's own clock (threaded_runner.cpp), or the one
// thread there is on a virtual clock (stepped_runner.cpp). Nothing else in the emulation knows which.
//
// A line is what one stream has been given to do, in order. An event marks the end of a line at the moment it was
// recorded. A runner tells the order checker of everything that is enqueued, and of what the calling thread has seen.
//
// Where lines have no threads, every function that waits may do the work of all of them, and throws
// `ferry::deadlock_error` if there is nothing that could ever end its waiting.
//
// The emulation owns its runner, and the runner its lines, until the emulation is reset: events point at them.
// Threads: any.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "ferry/label.hpp"

namespace ferry {
class order_checker;
class sim_device;
}  // namespace ferry

namespace cudasim {

class gated_link;
struct device_state;
struct event_state;
struct operation;
struct stream_state;

class work_line {
 public:
  work_line() = default;
  work_line(work_line const&) = delete;
  work_line& operator=(work_line const&) = delete;

  virtual void launch(stream_state& on, operation work) = 0;
  virtual void record(event_state& event) = 0;
  virtual void wait(event_state& event) = 0;
  /// Moves bytes over a link, which takes its time. Called by the work.
  virtual void copy(gated_link& over, void* to, void const* from, std::size_t bytes) = 0;

  [[nodiscard]] virtual bool idle() = 0;
  /// Waits for what is enqueued now, without telling the checker: nobody has learnt of it.
  virtual void await_all() = 0;
  /// The same, and the calling thread has seen it.
  virtual void synchronize() = 0;
  /// No more work comes. What there is finishes by itself, and nobody has waited for it.
  virtual void retire() = 0;

 protected:
  ~work_line() = default;
};

class runner {
 public:
  runner() = default;
  runner(runner const&) = delete;
  runner& operator=(runner const&) = delete;
  virtual ~runner() = default;

  [[nodiscard]] virtual work_line& add_line(device_state& of, ferry::label const& name) = 0;
  /// Waits for all work, and ends whatever ran it. Nothing comes after it.
  virtual void finish() noexcept = 0;

  /// The event is new, or new again: it marks nothing.
  virtual void begin(event_state& event) = 0;
  virtual void forget(event_state& event) = 0;

  // Require: the event was recorded.

  /// Whether the marked work is over. If it is, the calling thread has seen it.
  [[nodiscard]] virtual bool saw_end(event_state& event) = 0;
  /// Waits for the marked work, which the calling thread has seen then.
  virtual void await(event_state& event) = 0;
  /// When the mark was passed, from any beginning; none if it was not yet. Requires: the event is timed.
  [[nodiscard]] virtual std::optional<std::chrono::nanoseconds> stamp(event_state& event) = 0;

  virtual void set_stalled(gated_link& link, bool stalled) = 0;
  /// Null where time is real.
  [[nodiscard]] virtual ferry::sim_device* clock() noexcept = 0;
};

/// Products and serial kernels of one stream may use that many threads; 0 means all of the machine's.
[[nodiscard]] std::unique_ptr<runner> make_threaded_runner(unsigned compute_threads, ferry::order_checker& checker);
[[nodiscard]] std::unique_ptr<runner> make_stepped_runner(ferry::order_checker& checker);

}  // namespace cudasim
