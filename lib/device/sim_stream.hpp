// A stream of the sim device: its queue, how far it is, and what failed. It has no thread and no lock; the machine
// (sim_machine.hpp) owns it and moves it on, and whoever owns the machine synchronises.
//
// As on the host device an event is a ticket: a stream and how many operations it had been given. A failed operation
// poisons its stream: what was enqueued behind it is skipped, and a stream that waits for a mark behind it is
// poisoned too, until the failure is reported.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ferry/device.hpp"

namespace ferry {

class sim_stream;

/// The point in a stream's work that a recorded event marks.
struct sim_ticket {
  sim_stream* stream = nullptr;  ///< null: never recorded
  std::uint64_t sequence = 0;    ///< the last operation before the mark, counted from 1
  friend bool operator==(sim_ticket, sim_ticket) noexcept = default;

  [[nodiscard]] event_status status() const noexcept;
};

struct sim_event {
  sim_ticket mark;
  std::optional<std::chrono::nanoseconds> stamp;  ///< when the stream passed `mark`, of a timing event
  event_timing timing = event_timing::off;
};

struct sim_launch {
  std::chrono::nanoseconds cost;
  unique_function<void()> work;
};
struct sim_copy {
  copy_direction direction;
  void* to;
  void const* from;
  std::size_t bytes;
};
struct sim_wait {
  sim_ticket mark;
};
struct sim_stamp {
  sim_event* event;
};

/// What stands in a stream's queue.
struct sim_task {
  label name;
  std::variant<sim_launch, sim_copy, sim_wait, sim_stamp> work;
};

/// Why an operation failed, as `stream_error` reports it.
struct sim_cause {
  std::string operation;
  std::string message;
  bool reported = false;
};

class sim_stream {
 public:
  explicit sim_stream(label const& name) : name_(name) {}

  [[nodiscard]] label const& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t submitted() const noexcept { return completed_ + queue_.size(); }
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }
  [[nodiscard]] bool idle() const noexcept { return queue_.empty(); }
  [[nodiscard]] event_status status(std::uint64_t sequence) const noexcept;

  void push(sim_task&& task) { queue_.push_back(std::move(task)); }
  [[nodiscard]] sim_task& head() noexcept { return queue_.front(); }
  [[nodiscard]] sim_task pop();
  /// The task with that number. Requires: it is not over yet.
  [[nodiscard]] sim_task const& task(std::uint64_t sequence) const { return queue_.at(sequence - completed_ - 1); }

  /// Behind a failure that nobody has been told of.
  [[nodiscard]] bool poisoned() const noexcept { return failed_at(completed_ + 1); }
  /// The head fails, with everything behind it.
  void fail_head(sim_cause why);
  [[nodiscard]] sim_cause const* failure_at(std::uint64_t sequence) const noexcept;
  /// The oldest failure up to `sequence` that was not reported, or null.
  [[nodiscard]] sim_cause const* unreported(std::uint64_t sequence) const noexcept;
  /// The failure has been reported: what is enqueued from now on runs. Requires: idle.
  void recover();

  // The machine's notes on the head.
  bool under_way = false;
  std::chrono::nanoseconds began{0};
  std::chrono::nanoseconds over{0};
  std::uint64_t order = 0;  // among all heads that have begun
  double left_ns = 0;       // with nothing beside it, as of the last change of pace

  bool closed = false;

 private:
  /// Operations with sequence numbers in [from, to) failed or were skipped. Kept after it was reported, for marks
  /// inside the range that somebody looks at only then.
  struct failed_range {
    std::uint64_t from;
    std::uint64_t to;
    sim_cause why;
  };
  [[nodiscard]] bool failed_at(std::uint64_t sequence) const noexcept { return failure_at(sequence) != nullptr; }

  label name_;
  std::deque<sim_task> queue_;
  std::uint64_t completed_ = 0;
  std::vector<failed_range> failed_;
};

}  // namespace ferry
