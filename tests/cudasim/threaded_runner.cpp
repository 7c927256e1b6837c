// Streams as threads: each line is one of Ferry's host streams, copies are paced on the machine's clock.
//
// Owns the lines. Threads: one for each line, and one that ends those of destroyed streams.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "device/host_stream.hpp"
#include "runner.hpp"
#include "streams.hpp"

namespace cudasim {

namespace {

class threaded_runner;

class threaded_line final : public work_line {
 public:
  threaded_line(threaded_runner& owner, ferry::label const& name, ferry::stream_environment const& environment)
      : owner_(owner), stream_(ferry::stream_kind::compute, name, environment) {}

  void launch(stream_state& on, operation work) override;
  void record(event_state& event) override { stream_.record(event.threaded); }
  void wait(event_state& event) override {
    stream_.wait(event.threaded);
    copied_last_ = false;
  }
  void copy(gated_link& over, void* to, void const* from, std::size_t bytes) override;

  [[nodiscard]] bool idle() override { return finished_.load() == submitted_.load(); }
  void await_all() noexcept override {
    auto const until = submitted_.load();
    progress_.wait([&] { return finished_.load() >= until; });
  }
  void synchronize() override { stream_.synchronize(); }
  void retire() override;
  void close() noexcept { stream_.close(); }

 private:
  /// Counts the operation as finished when it is gone, whether it ran or not.
  struct count_finished {
    void operator()(threaded_line* of) const noexcept {
      of->finished_.fetch_add(1);
      of->progress_.ring();
    }
  };
  /// A copy that may start where the link's schedule says.
  struct copy_start {
    ferry::link_clock::time_point enqueued;
    ferry::link_clock::time_point begun;
    bool follows_copy = false;
  };

  threaded_runner& owner_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> finished_{0};
  ferry::doorbell progress_;              // rung after `finished_` changed
  std::atomic<bool> copied_last_{false};  // nothing but copies since the last copy was enqueued
  // The stream's thread only.
  copy_start running_{};
  ferry::link_clock::time_point copied_until_{};
  ferry::host_stream stream_;  // last, so that its thread ends before the rest goes
};

class threaded_runner final : public runner {
 public:
  threaded_runner(unsigned compute_threads, ferry::order_checker& checker)
      : compute_threads_(compute_threads), checker_(checker), reaper_([this] { reap(); }) {}
  ~threaded_runner() override;

  [[nodiscard]] work_line& add_line(device_state& of, ferry::label const& name) override;
  void finish() noexcept override;

  void begin(event_state& event) override {
    event.threaded.timing = event.timed ? ferry::event_timing::on : ferry::event_timing::off;
  }
  void forget(event_state& event) override;
  [[nodiscard]] bool saw_end(event_state& event) override;
  void await(event_state& event) override;
  [[nodiscard]] std::optional<std::chrono::nanoseconds> stamp(event_state& event) override;

  void set_stalled(gated_link& link, bool stalled) override { link.set_stalled(stalled); }
  [[nodiscard]] ferry::sim_device* clock() noexcept override { return nullptr; }

  void close_soon(threaded_line& line);

 private:
  void reap();

  unsigned const compute_threads_;
  ferry::order_checker& checker_;
  std::function<void(ferry::label const&)> const no_hook_;

  std::mutex mutex_;  // guards what follows
  std::deque<threaded_line> lines_;
  // Closing a stream waits for it and tells the checker so, on the calling thread. A thread of its own does it: who
  // destroys a stream has waited for nothing.
  std::condition_variable wanted_;
  std::deque<threaded_line*> to_close_;
  bool ending_ = false;
  std::thread reaper_;
};

// Lines.

void threaded_line::launch(stream_state& on, operation work) {
  bool const follows_copy = copied_last_.exchange(work.cost.what == work_cost::kind::copy);
  auto const name = work.name;
  auto const accesses = work.accesses;
  submitted_.fetch_add(1);
  std::unique_ptr<threaded_line, count_finished> line(this);
  auto const enqueued = ferry::link_clock::now();
  stream_.launch(name, accesses,
                 [line = std::move(line), &on, work = std::move(work), follows_copy, enqueued]() mutable {
                   line->running_ = {enqueued, ferry::link_clock::now(), follows_copy};
                   run_on_stream(on, work);
                 });
}

void threaded_line::copy(gated_link& over, void* to, void const* from, std::size_t bytes) {
  auto const now = ferry::link_clock::now();
  // A copy behind a copy starts where the link's schedule says, not when this thread noticed that the first was over;
  // unless a test's hook held it up.
  bool const on_schedule = running_.follows_copy && now - running_.begun < std::chrono::microseconds(50);
  auto const ready = on_schedule ? std::max(running_.enqueued, copied_until_) : now;
  copied_until_ = over.copy(to, from, bytes, ready);
}

void threaded_line::retire() { owner_.close_soon(*this); }

// The runner.

threaded_runner::~threaded_runner() {
  finish();
  {
    std::lock_guard const lock(mutex_);
    ending_ = true;
  }
  wanted_.notify_all();
  reaper_.join();
}

work_line& threaded_runner::add_line(device_state& of, ferry::label const& name) {
  std::lock_guard const lock(mutex_);
  ferry::stream_environment const environment{of.device_to_host.link(), of.host_to_device.link(), no_hook_,
                                              compute_threads_, &checker_};
  return lines_.emplace_back(*this, name, environment);
}

void threaded_runner::close_soon(threaded_line& line) {
  {
    std::lock_guard const lock(mutex_);
    to_close_.push_back(&line);
  }
  wanted_.notify_all();
}

void threaded_runner::reap() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return ending_ || !to_close_.empty(); });
    if (to_close_.empty()) return;
    auto* const closing = to_close_.front();
    to_close_.pop_front();
    lock.unlock();
    closing->close();
    lock.lock();
  }
}

void threaded_runner::finish() noexcept {
  // Without the lock, which the reaper takes: nothing else runs any more that could add a line.
  for (auto& each : lines_) each.await_all();  // the reaper may be at it: closing twice waits only once
  for (auto& each : lines_) each.close();
}

// Events.

void threaded_runner::forget(event_state& event) {
  std::lock_guard const lock(event.threaded.mutex);
  checker_.forget_event(&event.threaded);
  event.threaded.mark = {};  // a stamp still queued finds another mark and leaves the event alone
  event.threaded.stamp.reset();
}

bool threaded_runner::saw_end(event_state& event) {
  std::lock_guard const lock(event.threaded.mutex);
  auto const mark = event.threaded.mark;
  if (mark.stream == nullptr) return true;
  if (mark.stream->status(mark.sequence) == ferry::event_status::pending) return false;
  // Under the event's lock: a mark recorded meanwhile has not been seen.
  checker_.host_saw(&event.threaded);
  return true;
}

void threaded_runner::await(event_state& event) {
  auto const mark = event.threaded.current();
  if (mark.stream == nullptr) return;
  mark.stream->await_completion(mark.sequence);
  checker_.host_saw(&event.threaded);
}

std::optional<std::chrono::nanoseconds> threaded_runner::stamp(event_state& event) {
  std::lock_guard const lock(event.threaded.mutex);
  auto const mark = event.threaded.mark;
  if (!event.threaded.stamp || mark.stream->status(mark.sequence) == ferry::event_status::pending) return std::nullopt;
  return event.threaded.stamp->time_since_epoch();
}

}  // namespace

std::unique_ptr<runner> make_threaded_runner(unsigned compute_threads, ferry::order_checker& checker) {
  return std::make_unique<threaded_runner>(compute_threads, checker);
}

}  // namespace cudasim
