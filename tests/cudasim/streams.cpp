// The emulation's streams and events; see streams.hpp.
#include "streams.hpp"

#include <string>
#include <utility>

#include "emulation.hpp"

namespace cudasim {

namespace {

template <typename Handle>
Handle odd_handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>((number << 8U) + 0xC0DA0000U);  // looks like no address, and not like 0, 1 or 2
}

void run_before_operation(char const* kind) {
  std::shared_ptr<std::function<void(char const*)> const> hook;
  {
    std::lock_guard const lock(sim().mutex);
    hook = sim().before_operation;
  }
  if (hook != nullptr) (*hook)(kind);
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

void run_on_stream(stream_state& on, operation const& work) noexcept {
  if (on.device.broken.load() != cudaSuccess) return;
  try {
    run_before_operation(work.kind);
    work.run(on);
  } catch (...) {
    on.device.break_with(cudaErrorLaunchFailure);
  }
}

cudaError_t enqueue(stream_state& on, operation work) {
  emulation& own = sim();
  if (own.clock.running()) {
    std::lock_guard const lock(on.time_mutex);
    on.virtual_end = own.clock.enqueue(work.cost, work.name, on.virtual_end, this_thread().now);
  }
  on.line.launch(on, std::move(work));
  return on.device.broken.load();
}

cudaError_t submit(stream_state& on, operation work) {
  if (auto const announced = std::exchange(this_thread().announced, std::nullopt)) {
    work.accesses.insert(work.accesses.end(), announced->accesses.begin(), announced->accesses.end());
  }
  return sim().captures.add(on, work) ? cudaSuccess : enqueue(on, std::move(work));
}

cudaStream_t stream_table::create(device_state& on, runner& by) {
  std::lock_guard const lock(mutex_);
  auto const handle = odd_handle<cudaStream_t>(++made_);
  ferry::label const name(std::to_string(made_) + " of device " + std::to_string(on.index));
  live_[handle] = &states_.emplace_back(handle, on, name, by.add_line(on, name));
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
  found->second->line.retire();
  live_.erase(found);
  return true;
}

stream_state& stream_table::default_of(device_state& on, runner& by) {
  std::lock_guard const lock(mutex_);
  auto& found = defaults_[on.index];
  if (found == nullptr) {
    ferry::label const name("0 of device " + std::to_string(on.index));
    found = &states_.emplace_back(nullptr, on, name, by.add_line(on, name));
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

cudaEvent_t event_table::create(device_state& on, bool timed, runner& by) {
  std::lock_guard const lock(mutex_);
  if (spare_.empty()) spare_.push_back(&states_.emplace_back());
  event_state* const made = spare_.back();
  spare_.pop_back();
  made->device = &on;
  made->timed = timed;
  made->recorded = false;
  made->capture = 0;
  by.begin(*made);
  auto const handle = odd_handle<cudaEvent_t>(++made_);
  live_[handle] = made;
  return handle;
}

event_state* event_table::find(cudaEvent_t handle) {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(handle);
  return found != live_.end() ? found->second : nullptr;
}

bool event_table::destroy(cudaEvent_t handle, runner& by) {
  std::lock_guard const lock(mutex_);
  auto const found = live_.find(handle);
  if (found == live_.end()) return false;
  event_state* const gone = found->second;
  live_.erase(found);
  by.forget(*gone);
  spare_.push_back(gone);
  return true;
}

std::size_t event_table::live_count() {
  std::lock_guard const lock(mutex_);
  return live_.size();
}

}  // namespace cudasim
