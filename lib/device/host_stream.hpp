// A stream of the host device: a thread that runs its operations one by one, in the order they came.
//
// An event is a ticket, not an operation: recording it notes the stream and how many operations it had been
// given so far, and it is complete once the stream has finished that many. So recording and asking cost
// nanoseconds and no system call. Only timing events put something, a time stamp, into the queue.
//
// A failed operation poisons its stream: what was enqueued behind it is skipped, and a stream that waits
// for a mark behind it is poisoned too, until `synchronize` reports the failure.
//
// Ownership: the device owns streams and events and keeps both, once created, until it dies, so a ticket
// never dangles; the thread and its queue go when the stream is closed.
// Threads: any thread may call anything. Enqueueing takes a spin lock, which only producers of the same
// stream share, and allocates nothing. Locks are taken in the order stream, event, checker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tbb/spin_mutex.h>

#include "device/failure_log.hpp"
#include "device/link.hpp"
#include "device/order_checker.hpp"
#include "ferry/device.hpp"
#include "support/doorbell.hpp"
#include "support/process.hpp"

namespace ferry {

class host_stream;

/// The point in a stream's work that a recorded event marks.
struct ticket {
  host_stream* stream = nullptr;  ///< null: never recorded
  std::uint64_t sequence = 0;     ///< the last operation before the mark, counted from 1
  friend bool operator==(ticket, ticket) noexcept = default;
};

/// An event's state; `mark` and `stamp` are guarded by `mutex`.
struct host_event {
  mutable tbb::spin_mutex mutex;
  ticket mark;
  std::optional<link_clock::time_point> stamp;  ///< when the stream passed `mark`, of a timing event
  event_timing timing = event_timing::off;

  [[nodiscard]] ticket current() const;
};

/// What all streams of one device share; lives in the device.
struct stream_environment {
  paced_link& device_to_host;
  paced_link& host_to_device;
  std::function<void(label const&)> const& before_operation;
  unsigned compute_threads;
  order_checker* checker;  ///< null unless ordering is checked
};

class host_stream {
 public:
  host_stream(stream_kind kind, label const& name, stream_environment const& environment);
  host_stream(host_stream const&) = delete;
  host_stream& operator=(host_stream const&) = delete;
  ~host_stream();

  /// Finishes the work and ends the thread; tickets stay valid. In a forked child there is no thread, and nothing ends.
  void close() noexcept;

  // Throw: `invalid_argument` once closed. They wait only if the queue is full.
  void launch(label const& name, std::span<memory_access const> accesses, unique_function<void()> work);
  void copy(label const& name, copy_direction direction, void* to, void const* from, std::size_t bytes);
  void record(host_event& event);
  void wait(host_event& event);

  /// Waits for all work enqueued so far. Throws: `stream_error` for a failure not reported yet.
  void synchronize();
  /// The same, whatever becomes of it.
  void drain() noexcept;
  /// Waits for the marked work, whatever becomes of it.
  void await_completion(std::uint64_t sequence) noexcept;
  /// Waits for the marked work. Throws: `stream_error` if it failed. The stream is usable afterwards.
  void synchronize(std::uint64_t sequence);
  [[nodiscard]] event_status status(std::uint64_t sequence) const;

 private:
  struct operation;
  struct engine;  // the thread, its queue and its arena; gone once closed

  template <typename Fill>
  void enqueue(Fill const& fill);
  [[nodiscard]] engine& open_engine() const;

  void run(engine& own) noexcept;
  void execute(engine& own, operation& next, std::uint64_t sequence);
  void execute_copy(engine& own, operation& next);
  void await(ticket mark, std::uint64_t sequence);

  void report(failure_log::entry const& seen);

  label const name_;
  support::process_mark const made_in_;
  stream_environment const environment_;
  order_checker::stream_id checker_id_ = 0;

  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<bool> closing_{false};
  doorbell work_;      // rung after `submitted_` or `closing_` changed
  doorbell progress_;  // rung after `completed_` changed

  tbb::spin_mutex producers_;
  std::unique_ptr<engine> engine_;  // the pointer is guarded by `producers_`

  failure_log failures_;
};

}  // namespace ferry
