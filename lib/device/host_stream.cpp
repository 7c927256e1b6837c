// A stream of the host device; see host_stream.hpp for ownership, threads and order.
#include "device/host_stream.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <boost/lockfree/spsc_queue.hpp>

#include "device/compute_arena.hpp"
#include "ferry/error.hpp"
#include "support/threads.hpp"

namespace ferry {

namespace {

// Enough for the operations of several transformer blocks; the caller waits when a stream is this far behind.
constexpr std::size_t queue_capacity = 1024;

struct launch_work {
  unique_function<void()> function;
};
struct copy_work {
  copy_direction direction;
  void* to;
  void const* from;
  std::size_t bytes;
  link_clock::time_point enqueued;
};
struct wait_work {
  ticket mark;
};
struct stamp_work {
  host_event* event;
  link_clock::time_point enqueued;
};

}  // namespace

struct host_stream::operation {
  label name;
  std::variant<std::monostate, launch_work, copy_work, wait_work, stamp_work> work;
};

struct host_stream::engine {
  std::vector<operation> slots = std::vector<operation>(queue_capacity);
  boost::lockfree::spsc_queue<operation*> queue{queue_capacity};
  boost::lockfree::spsc_queue<operation*> free{queue_capacity};  // filled by the stream's thread, taken by producers
  std::optional<compute_arena> arena;
  link_clock::time_point ready;  // when the work so far was over, on the links' schedule
  std::thread thread;
};

ticket host_event::current() const {
  std::lock_guard const lock(mutex);
  return mark;
}

host_stream::host_stream(stream_kind kind, label const& name, stream_environment const& environment)
    : name_(name), environment_(environment), engine_(std::make_unique<engine>()) {
  if (environment_.checker != nullptr) checker_id_ = environment_.checker->add_stream(name);
  for (auto& slot : engine_->slots) engine_->free.push(&slot);
  if (kind == stream_kind::compute) {
    engine_->arena.emplace(support::compute_threads(environment_.compute_threads).threads);
  }
  engine_->thread = std::thread([this, own = engine_.get()] { run(*own); });
}

host_stream::~host_stream() { close(); }

void host_stream::close() noexcept {
  if (!made_in_.is_this_process()) {
    static_cast<void>(engine_.release());
    return;
  }
  std::unique_ptr<engine> closing;
  {
    std::lock_guard const lock(producers_);
    closing = std::move(engine_);
  }
  if (closing == nullptr) return;
  closing_.store(true);
  work_.ring();
  closing->thread.join();
  if (environment_.checker != nullptr) environment_.checker->host_saw_stream(checker_id_);
}

// Enqueueing, on the caller's thread.

/// Requires: `producers_` held.
host_stream::engine& host_stream::open_engine() const {
  if (engine_ == nullptr) {
    throw invalid_argument(fmt::format("the stream '{}' was destroyed; use a live one", name_.view()));
  }
  return *engine_;
}

/// Calls `fill(operation, sequence)` under the producers' lock, in the order of the queue.
template <typename Fill>
void host_stream::enqueue(Fill const& fill) {
  for (;;) {
    {
      std::lock_guard const lock(producers_);
      engine& own = open_engine();
      if (own.free.read_available() > 0) {
        operation* const slot = own.free.front();
        auto const sequence = submitted_.load(std::memory_order_relaxed) + 1;
        fill(*slot, sequence);  // may throw; the slot is taken only afterwards
        own.free.pop();
        own.queue.push(slot);
        submitted_.store(sequence);
        break;
      }
    }
    // Until half of the queue is free, so that a producer far ahead does not sleep and wake once per operation.
    progress_.wait([&] { return submitted_.load() <= completed_.load() + queue_capacity / 2; });
  }
  work_.ring();
}

void host_stream::launch(label const& name, std::span<memory_access const> accesses, unique_function<void()> work) {
  enqueue([&](operation& slot, std::uint64_t) {
    if (environment_.checker != nullptr) environment_.checker->operation(checker_id_, name, accesses);
    slot.name = name;
    slot.work.emplace<launch_work>(launch_work{std::move(work)});
  });
}

void host_stream::copy(label const& name, copy_direction direction, void* to, void const* from, std::size_t bytes) {
  enqueue([&](operation& slot, std::uint64_t) {
    if (environment_.checker != nullptr) {
      std::array const accesses{reads(from, bytes), writes(to, bytes)};
      environment_.checker->operation(checker_id_, name, accesses);
    }
    slot.name = name;
    slot.work.emplace<copy_work>(copy_work{direction, to, from, bytes, link_clock::now()});
  });
}

void host_stream::record(host_event& event) {
  auto const mark_at = [&](std::uint64_t sequence, std::optional<link_clock::time_point> when = std::nullopt) {
    std::lock_guard const lock(event.mutex);
    if (environment_.checker != nullptr) environment_.checker->record(&event, checker_id_);
    event.mark = {this, sequence};
    event.stamp = when;
  };
  bool const timed = event.timing == event_timing::on;
  {
    std::lock_guard const lock(producers_);
    static_cast<void>(open_engine());
    auto const submitted = submitted_.load(std::memory_order_relaxed);
    bool const idle = completed_.load() == submitted;  // the time is now, and nobody need wake up to tell
    if (!timed || idle) {
      mark_at(submitted, timed ? std::optional(link_clock::now()) : std::nullopt);
      return;
    }
  }
  // Marked before the stream can reach the operation: a stamp counts only for the mark it was made for.
  enqueue([&](operation& slot, std::uint64_t sequence) {
    mark_at(sequence);
    slot.work.emplace<stamp_work>(stamp_work{&event, link_clock::now()});
  });
}

void host_stream::wait(host_event& event) {
  ticket const mark = event.current();
  bool const passed =
      mark.stream == nullptr || mark.stream == this || mark.stream->status(mark.sequence) == event_status::complete;
  if (passed) {
    std::lock_guard const lock(producers_);
    static_cast<void>(open_engine());
    // The order holds whatever the timing, so the checker learns of it although nothing is enqueued.
    if (environment_.checker != nullptr) environment_.checker->wait(checker_id_, &event);
    return;
  }
  enqueue([&](operation& slot, std::uint64_t) {
    if (environment_.checker != nullptr) environment_.checker->wait(checker_id_, &event);
    slot.work.emplace<wait_work>(wait_work{mark});
  });
}

// The stream's own thread.

void host_stream::run(engine& own) noexcept {
  sharpen_sleep();
  std::uint64_t done = 0;
  for (;;) {
    work_.wait([&] { return submitted_.load() != done || closing_.load(); });
    operation* next = nullptr;
    if (!own.queue.pop(next)) return;  // closed, and everything is done
    ++done;
    if (!failures_.failed_at(done)) {
      execute(own, *next, done);
    } else if (auto const* const wait = std::get_if<wait_work>(&next->work)) {
      // Work is skipped behind a failure, waits are not: a failed mark promises that all before it is over.
      wait->mark.stream->await_completion(wait->mark.sequence);
    }
    // Captures are gone and the slot is free before anybody can see that the operation is done.
    next->work.emplace<std::monostate>();
    own.free.push(next);
    completed_.store(done);
    progress_.ring();
  }
}

void host_stream::execute(engine& own, operation& next, std::uint64_t sequence) {
  auto const failed = [&](char const* cause) {
    failures_.fail(sequence, {next.name.str(), fmt::format("the operation '{}' failed on the stream '{}': {}",
                                                           next.name.view(), name_.view(), cause)});
  };
  try {
    if (auto* const launch = std::get_if<launch_work>(&next.work)) {
      if (environment_.before_operation) environment_.before_operation(next.name);
      own.arena ? own.arena->run(launch->function) : launch->function();
      own.ready = link_clock::now();
    } else if (std::holds_alternative<copy_work>(next.work)) {
      execute_copy(own, next);
    } else if (auto* const wait = std::get_if<wait_work>(&next.work)) {
      await(wait->mark, sequence);
      own.ready = link_clock::now();
    } else if (auto* const stamp = std::get_if<stamp_work>(&next.work)) {
      // A copy is over when the link's schedule says so: that this thread was late to notice is not the link's time.
      auto const passed = std::max(stamp->enqueued, own.ready);
      std::lock_guard const lock(stamp->event->mutex);
      if (stamp->event->mark == ticket{this, sequence}) stamp->event->stamp = passed;
    }
  } catch (std::exception const& cause) {
    failed(cause.what());
  } catch (...) {
    failed("an exception that is no std::exception");
  }
}

void host_stream::execute_copy(engine& own, operation& next) {
  auto const& work = std::get<copy_work>(next.work);
  auto ready = std::max(work.enqueued, own.ready);
  if (environment_.before_operation) {
    environment_.before_operation(next.name);
    ready = link_clock::now();  // what the hook slept through is no time on the link
  }
  auto& link =
      work.direction == copy_direction::device_to_host ? environment_.device_to_host : environment_.host_to_device;
  own.ready = link.copy(work.to, work.from, work.bytes, ready);
}

void host_stream::await(ticket mark, std::uint64_t sequence) {
  mark.stream->await_completion(mark.sequence);
  if (auto failed = mark.stream->failures_.failure_at(mark.sequence)) {
    failed->why.message += fmt::format("; the stream '{}' waited for it", name_.view());
    failures_.fail(sequence, std::move(failed->why));
  }
}

// Completion and failure, on any thread.

void host_stream::await_completion(std::uint64_t sequence) noexcept {
  progress_.wait([&] { return completed_.load() >= sequence; });
}

event_status host_stream::status(std::uint64_t sequence) const {
  if (completed_.load() < sequence) return event_status::pending;
  return failures_.failed_at(sequence) ? event_status::failed : event_status::complete;
}

void host_stream::drain() noexcept {
  await_completion(submitted_.load());
  if (environment_.checker != nullptr) environment_.checker->host_saw_stream(checker_id_);
}

void host_stream::synchronize() {
  auto const sequence = submitted_.load();
  await_completion(sequence);
  if (environment_.checker != nullptr) environment_.checker->host_saw_stream(checker_id_);
  if (auto const seen = failures_.unreported(sequence)) report(*seen);
}

void host_stream::synchronize(std::uint64_t sequence) {
  await_completion(sequence);
  if (auto const seen = failures_.failure_at(sequence)) report(*seen);
}

/// Throws what failed, and makes the stream usable again: work enqueued so far stays skipped, work enqueued from now on
/// runs.
void host_stream::report(failure_log::entry const& seen) {
  if (!seen.reported && !closing_.load()) {
    // An operation of its own ends the failure, so that an event recorded next lies outside of it. Nothing of what was
    // skipped is left in the queue when the caller goes on: failed work is over.
    std::uint64_t end = 0;
    enqueue([&](operation&, std::uint64_t sequence_of_end) {
      end = sequence_of_end;
      failures_.close(end);
    });
    await_completion(end);
  }
  throw stream_error(seen.why.operation, seen.why.message);
}

}  // namespace ferry
