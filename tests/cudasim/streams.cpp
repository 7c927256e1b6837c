// The emulation's streams and events; see streams.hpp.
#include "streams.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "emulation.hpp"

namespace cudasim {

namespace {

template <typename Handle>
Handle handle_of(std::uintptr_t number) {
  return reinterpret_cast<Handle>((number << 8U) + 0xC0DA0000U);  // looks like no address, and not like 0, 1 or 2
}

/// Counts the operation as finished when it is gone, whether it ran or not.
struct finish {
  void operator()(stream_state* of) const noexcept {
    of->finished.fetch_add(1);
    of->progress.ring();
  }
};

void run_before_operation(char const* kind) {
  std::shared_ptr<std::function<void(char const*)> const> hook;
  {
    std::lock_guard const lock(sim().mutex);
    hook = sim().before_operation;
  }
  if (hook != nullptr) (*hook)(kind);
}

void run_on_stream(stream_state& on, operation const& work, bool follows_copy, ferry::link_clock::time_point enqueued) {
  if (on.device.broken.load() != cudaSuccess) return;
  try {
    auto const begin = ferry::link_clock::now();
    run_before_operation(work.kind);
    auto const now = ferry::link_clock::now();
    // A copy behind a copy starts where the link's schedule says, not when this thread noticed that the first was over.
    bool const on_schedule = follows_copy && now - begin < std::chrono::microseconds(50);
    on.copy_ready = on_schedule ? std::max(enqueued, on.copy_ready) : now;
    work.run(on);
  } catch (...) {
    on.device.break_with(cudaErrorLaunchFailure);
  }
}

}  // namespace

ferry::link_clock::time_point gated_link::copy(void* to, void const* from, std::size_t bytes,
                                               ferry::link_clock::time_point ready) {
  {
    std::unique_lock lock(mutex_);
    if (stalled_) {
      changed_.wait(lock, [&] { return !stalled_; });
      ready = ferry::link_clock::now();
    }
  }
  return link_.copy(to, from, bytes, ready);
}

void gated_link::set_stalled(bool stalled) {
  {
    std::lock_guard const lock(mutex_);
    stalled_ = stalled;
  }
  changed_.notify_all();
}

void device_state::break_with(cudaError_t error) noexcept {
  cudaError_t none = cudaSuccess;
  broken.compare_exchange_strong(none, error);
}

void stream_state::await_all() noexcept {
  auto const until = submitted.load();
  progress.wait([&] { return finished.load() >= until; });
}

cudaError_t enqueue(stream_state& on, operation work) {
  emulation& own = sim();
  if (own.clock.running()) {
    std::lock_guard const lock(on.time_mutex);
    on.virtual_end = own.clock.enqueue(work.cost, work.name, on.virtual_end, this_thread().now);
  }
  bool const follows_copy = on.copied_last.exchange(work.cost.what == work_cost::kind::copy);
  auto const name = work.name;
  auto const accesses = work.accesses;
  on.submitted.fetch_add(1);
  std::unique_ptr<stream_state, finish> count(&on);
  on.stream.launch(name, accesses,
                   [count = std::move(count), work = std::move(work), follows_copy,
                    enqueued = ferry::link_clock::now()] { run_on_stream(*count, work, follows_copy, enqueued); });
  return on.device.broken.load();
}

cudaError_t submit(stream_state& on, operation work) {
  if (auto const announced = std::exchange(this_thread().announced, std::nullopt)) {
    work.accesses.insert(work.accesses.end(), announced->accesses.begin(), announced->accesses.end());
  }
  return sim().captures.add(on, work) ? cudaSuccess : enqueue(on, std::move(work));
}

stream_table::stream_table() : reaper_([this] { reap(); }) {}

stream_table::~stream_table() {
  close_all();
  {
    std::lock_guard const lock(mutex_);
    ending_ = true;
  }
  wanted_.notify_all();
  reaper_.join();
}

void stream_table::reap() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return ending_ || !to_close_.empty(); });
    if (to_close_.empty()) return;
    auto* const closing = to_close_.front();
    to_close_.pop_front();
    lock.unlock();
    closing->stream.close();
    lock.lock();
  }
}

cudaStream_t stream_table::create(device_state& on, ferry::stream_environment const& environment) {
  std::lock_guard const lock(mutex_);
  auto const handle = handle_of<cudaStream_t>(++made_);
  auto const name = std::to_string(made_) + " of device " + std::to_string(on.index);
  live_[handle] = &states_.emplace_back(handle, on, ferry::label(name), environment);
  return handle;
}

stream_state* stream_table::find(cudaStream_t handle) {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(handle);
  return found != live_.end() ? found->second : nullptr;
}

bool stream_table::destroy(cudaStream_t handle) {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(handle);
  if (found == live_.end()) return false;
  to_close_.push_back(found->second);
  live_.erase(found);
  wanted_.notify_all();
  return true;
}

stream_state& stream_table::default_of(device_state& on, ferry::stream_environment const& environment) {
  std::lock_guard const lock(mutex_);
  auto& found = defaults_[on.index];
  if (found == nullptr) {
    auto const name = "0 of device " + std::to_string(on.index);
    found = &states_.emplace_back(nullptr, on, ferry::label(name), environment);
  }
  return *found;
}

std::vector<stream_state*> stream_table::all() {
  std::lock_guard const lock(mutex_);
  std::vector<stream_state*> result;
  for (auto& each : states_) result.push_back(&each);
  return result;
}

std::size_t stream_table::live_count() {
  std::lock_guard const lock(mutex_);
  return live_.size();
}

void stream_table::close_all() {
  auto const streams = all();
  for (auto* const each : streams) each->await_all();  // the reaper may be at it: closing twice waits only once
  for (auto* const each : streams) each->stream.close();
}

cudaEvent_t event_table::create(device_state& on, bool timed) {
  std::lock_guard const lock(mutex_);
  if (spare_.empty()) spare_.push_back(&states_.emplace_back());
  event_state* const made = spare_.back();
  spare_.pop_back();
  made->device = &on;
  made->timed = timed;
  made->recorded = false;
  made->capture = 0;
  made->event.timing = timed ? ferry::event_timing::on : ferry::event_timing::off;
  auto const handle = handle_of<cudaEvent_t>(++made_);
  live_[handle] = made;
  return handle;
}

event_state* event_table::find(cudaEvent_t handle) {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(handle);
  return found != live_.end() ? found->second : nullptr;
}

bool event_table::destroy(cudaEvent_t handle, ferry::order_checker& checker) {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(handle);
  if (found == live_.end()) return false;
  event_state* const gone = found->second;
  live_.erase(found);
  {
    std::lock_guard const event_lock(gone->event.mutex);
    checker.forget_event(&gone->event);
    gone->event.mark = {};  // a stamp still queued finds another mark and leaves the event alone
    gone->event.stamp.reset();
  }
  spare_.push_back(gone);
  return true;
}

std::size_t event_table::live_count() {
  std::lock_guard const lock(mutex_);
  return live_.size();
}

}  // namespace cudasim
