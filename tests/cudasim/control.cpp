// How tests take hold of the emulation; see cudasim.hpp.
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emulation.hpp"
#include "errors.hpp"

namespace cudasim {

namespace {

/// Passes on to whichever emulation there is, so that a device under test may outlive a `reset`.
class forwarding_hooks final : public ferry::order_hooks {
 public:
  void allocated(void const* address, std::size_t bytes, ferry::label const& name) override {
    sim().blocks.allocated(address, bytes);
    sim().checker.allocated(address, bytes, name);
  }
  void freed(void const* address, std::size_t bytes) override { sim().checker.freed(address, bytes); }
  void host_access(ferry::memory_access access, ferry::label const& name) override {
    sim().checker.host_access(access, name);
  }
  void announce(ferry::label const& name, std::span<ferry::memory_access const> accesses) override {
    this_thread().announced = {name, {accesses.begin(), accesses.end()}};
  }
  void hand_over(void const* channel) override { sim().checker.hand_over(channel); }
  void take_over(void const* channel) override { sim().checker.take_over(channel); }
};

device_state& device_at(int index) {
  device_state* const found = sim().device(index);
  if (found == nullptr) throw ferry::invalid_argument(fmt::format("there is no emulated device {}", index));
  return *found;
}

}  // namespace

void reset(options const& with) { replace(with); }

ferry::order_hooks& order() {
  static forwarding_hooks hooks;
  return hooks;
}

std::vector<std::string> violations() { return sim().violations(); }

void fail(std::string const& function, int nth, cudaError_t error) { sim().calls.fail(function, nth, error); }
void break_device(int device, cudaError_t error) { device_at(device).break_with(error); }
void set_before_call(std::function<cudaError_t(char const*)> hook) { sim().calls.set_hook(std::move(hook)); }

void set_before_operation(std::function<void(char const*)> hook) {
  auto shared = hook ? std::make_shared<std::function<void(char const*)> const>(std::move(hook)) : nullptr;
  std::lock_guard const lock(sim().mutex);
  sim().before_operation = std::move(shared);
}

std::map<std::string, std::size_t> calls() { return sim().calls.counts(); }
void reset_calls() { sim().calls.reset_counts(); }
void remove_driver() { sim().calls.set_driver(driver_state::removed); }
void unload_driver() { sim().calls.set_driver(driver_state::unloaded); }
void remove_devices() { sim().calls.set_driver(driver_state::no_devices); }

void set_device_bytes(int device, std::size_t bytes) { sim().memory.set_device_bytes(device, bytes); }
void set_link(int device, direction which, double gbps, double latency_us) {
  device_at(device).link(which).set_speed({gbps, latency_us});
}
void stall(int device, direction which) { sim().work->set_stalled(device_at(device).link(which), true); }
void resume(int device, direction which) { sim().work->set_stalled(device_at(device).link(which), false); }

std::string live_objects::text() const {
  std::string result;
  auto const add = [&](std::size_t count, char const* one, char const* several) {
    if (count == 0) return;
    result += fmt::format("{}{} {}", result.empty() ? "" : ", ", count, count == 1 ? one : several);
  };
  add(streams, "stream", "streams");
  add(events, "event", "events");
  add(device_allocations, "device allocation", "device allocations");
  add(device_bytes, "byte of device memory", "bytes of device memory");
  add(pinned_allocations, "pinned allocation", "pinned allocations");
  add(pinned_bytes, "byte of pinned memory", "bytes of pinned memory");
  add(registrations, "registration", "registrations");
  add(memory_pools, "memory pool", "memory pools");
  add(graphs, "graph", "graphs");
  add(cublas_handles, "cuBLAS handle", "cuBLAS handles");
  return result.empty() ? "nothing" : result;
}

live_objects live() {
  emulation& own = sim();
  live_objects result;
  own.memory.count_live(result);
  result.streams = own.streams.live_count();
  result.events = own.events.live_count();
  result.graphs = own.graphs.count();
  result.cublas_handles = own.cublas_handles.load();
  return result;
}

void set_mode(mode kernels) {
  std::lock_guard const lock(sim().mutex);
  sim().kernels.how = kernels;
}

void set_thread_order(thread_order order, std::uint64_t seed) {
  std::lock_guard const lock(sim().mutex);
  sim().kernels.order = order;
  sim().kernels.seed = seed;
}

nvtx_counts nvtx() {
  emulation& own = sim();
  return {own.ranges_pushed.load(), own.ranges_popped.load(), own.marks.load()};
}

ferry::sim_device& clock() {
  ferry::sim_device* const found = sim().work->clock();
  if (found == nullptr)
    throw std::logic_error("there is no clock where streams are threads; reset with stepped = true");
  return *found;
}

void set_operation_cost(std::function<std::chrono::nanoseconds(char const*, std::size_t)> hook) {
  auto shared = hook ? std::make_shared<operation_cost_hook const>(std::move(hook)) : nullptr;
  std::lock_guard const lock(sim().mutex);
  sim().operation_cost = std::move(shared);
}

void use_virtual_time(virtual_costs const& costs) { sim().clock.start(costs); }
std::chrono::nanoseconds makespan() { return sim().clock.makespan(); }
std::chrono::nanoseconds virtual_now() { return this_thread().now; }

}  // namespace cudasim
