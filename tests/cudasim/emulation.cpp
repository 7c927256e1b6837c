// The whole of the emulation, and what is per thread; see emulation.hpp.
#include "emulation.hpp"

#include <atomic>
#include <utility>

namespace cudasim {

namespace {

std::atomic<std::uint64_t> generations{0};

thread_local thread_state* acted = nullptr;  // null: the thread is itself

/// Never destroyed: the program's own destructors may still call CUDA.
std::unique_ptr<emulation>& current() {
  static auto& owner = *new std::unique_ptr<emulation>(std::make_unique<emulation>(options{}));
  return owner;
}

}  // namespace

emulation& sim() { return *current(); }

void replace(options const& with) {
  auto& owner = current();
  owner->finish();  // streams still use it through `sim`
  owner = std::make_unique<emulation>(with);
}

emulation::emulation(options const& with)
    : settings(with),
      generation(generations.fetch_add(1) + 1),
      memory(with),
      kernels{.how = with.kernels},
      work(with.stepped ? make_stepped_runner(checker) : make_threaded_runner(with.compute_threads, checker)) {
  checker.report_unrecorded_waits(with.report_unrecorded_waits);
  for (int i = 0; i < with.devices; ++i) devices_.push_back(std::make_unique<device_state>(i));
  if (with.devices == 0) calls.set_driver(driver_state::no_devices);
}

emulation::~emulation() { finish(); }

void emulation::finish() {
  for (auto const& each : devices_) {
    each->device_to_host.set_stalled(false);
    each->host_to_device.set_stalled(false);
  }
  work->finish();
}

void emulation::report(std::string text) {
  std::lock_guard const lock(found_mutex_);
  found_.add(std::move(text));
}

device_state* emulation::device(int index) {
  return index >= 0 && index < static_cast<int>(devices_.size()) ? devices_[static_cast<std::size_t>(index)].get()
                                                                 : nullptr;
}

std::vector<std::string> emulation::violations() const {
  auto result = checker.violations();
  std::lock_guard const lock(found_mutex_);
  for (auto& text : found_.texts()) result.push_back(std::move(text));
  return result;
}

thread_state& this_thread() {
  thread_local thread_state own;
  thread_state& state = acted != nullptr ? *acted : own;
  if (auto const generation = sim().generation; state.generation != generation) {
    state = {};
    state.generation = generation;
  }
  return state;
}

acting_as::acting_as(thread_state& other) noexcept : before_(std::exchange(acted, &other)) {}
acting_as::~acting_as() { acted = before_; }

}  // namespace cudasim
