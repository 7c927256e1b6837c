// The sim device: memory (sim_memory.hpp), and streams and events on a machine (sim_machine.hpp) that waiting moves on
// (sim_driver.hpp).
//
// Ownership: the device owns everything it hands out; refs carry plain pointers into the machine.
// Threads: any. The driver has the machine's lock, memory has locks of its own.
#include "ferry/sim_device.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "device/memory_names.hpp"
#include "device/native.hpp"
#include "device/sim_driver.hpp"
#include "device/sim_machine.hpp"
#include "device/sim_memory.hpp"
#include "ferry/error.hpp"
#include "support/log.hpp"

namespace ferry {

namespace {

using std::chrono::nanoseconds;

class sim_device_implementation final : public sim_device {
 public:
  explicit sim_device_implementation(sim_device_options options);
  ~sim_device_implementation() override;

  [[nodiscard]] device_capabilities const& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] nanoseconds now() const noexcept override { return driver_.now(); }

  [[nodiscard]] void* allocate(memory_space space, std::size_t bytes) override {
    return memory_of(space).allocate(bytes);
  }
  void deallocate(memory_space space, void* address) noexcept override;

  [[nodiscard]] stream_ref create_stream(stream_kind kind, label const& name) override;
  void destroy_stream(stream_ref stream) noexcept override;
  [[nodiscard]] event_ref create_event(event_timing timing) override;
  void destroy_event(event_ref event) noexcept override;

  void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
              unique_function<void()> work) override;
  void copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
            std::size_t bytes) override;
  void record(event_ref event, stream_ref stream) override;
  void wait(stream_ref stream, event_ref event) override;
  [[nodiscard]] event_status query(event_ref event) override;
  void synchronize(event_ref event) override;
  void synchronize(stream_ref stream) override;
  void drain(stream_ref stream) noexcept override;
  [[nodiscard]] double elapsed_us(event_ref from, event_ref to) override;

  void add(agent& added) override {
    section held(driver_);
    driver_.add(held, added);
  }
  void remove(agent& removed) noexcept override {
    section held(driver_);
    driver_.remove(held, removed);
  }
  bool settle() override {
    section held(driver_);
    return driver_.settle(held);
  }
  void pass_time() override {
    section held(driver_);
    driver_.pass_time(held, sim_driver::forever);
  }
  void pass_time(std::chrono::nanoseconds longest) override {
    section held(driver_);
    driver_.pass_time(held, driver_.now() + longest);
  }

  void slow_down(sim_slow_down const& added) override { section(driver_).machine().slow_down(added); }
  void fail(sim_failure const& added) override { section(driver_).machine().fail(added); }
  void set_link(copy_direction direction, link_speed speed) override {
    section(driver_).machine().set_link(direction, speed);
  }
  bool set_link_gbps(copy_direction direction, double gbps) override {
    section const held(driver_);
    held.machine().set_link(direction, {gbps, held.machine().link(direction).latency_us});
    return true;
  }
  [[nodiscard]] link_speed link(copy_direction direction) const override {
    return section(driver_).machine().link(direction);
  }

 private:
  using section = sim_driver::section;

  void close(section& held, sim_stream& stream) noexcept;
  void report(section& held, sim_stream& stream, sim_cause const& why);

  [[nodiscard]] nanoseconds cost_of(label const& name, std::span<memory_access const> accesses) const;
  [[nodiscard]] sim_stream& own(stream_ref stream) const;
  [[nodiscard]] sim_stream& own_open(stream_ref stream) const;
  [[nodiscard]] sim_event& own(event_ref event) const;
  [[nodiscard]] static nanoseconds stamp_of(sim_event const& event);
  [[nodiscard]] sim_memory& memory_of(memory_space space) noexcept {
    return space == memory_space::device ? device_memory_ : pinned_memory_;
  }

  device_capabilities const capabilities_;
  sim_device_options const options_;
  support::logger log_;
  sim_memory device_memory_;
  sim_memory pinned_memory_;
  mutable sim_driver driver_;
};

sim_device_implementation::sim_device_implementation(sim_device_options options)
    : capabilities_{.name = "sim",
                    .device_bytes = options.device_bytes,
                    .pinned_bytes = options.pinned_bytes,
                    .host_addressable = options.backed,
                    .holds_bytes = options.backed,
                    .addresses_per_byte = options.gaps_cost ? 1 : sim_memory::many_addresses_per_byte,
                    .recalls_copies = options.recalls_copies},
      options_(std::move(options)),
      log_(options_.quiet ? log_level::off : log_level::warning),
      device_memory_(memory_space::device, options_.device_bytes, capabilities_.addresses_per_byte, options_.backed),
      pinned_memory_(memory_space::pinned, options_.pinned_bytes, capabilities_.addresses_per_byte, options_.backed),
      driver_(options_) {}

sim_device_implementation::~sim_device_implementation() {
  section held(driver_);
  while (!held.machine().open_streams().empty()) close(held, *held.machine().open_streams().front());
}

void sim_device_implementation::deallocate(memory_space space, void* address) noexcept {
  if (address == nullptr || memory_of(space).deallocate(address)) return;
  log_.warning("{} is no {} of this device: freed twice, or in the wrong space; ignored", address,
               names_of(space).words);
}

stream_ref sim_device_implementation::create_stream(stream_kind, label const& name) {
  section const held(driver_);
  return {*this, &held.machine().add_stream(name)};
}

void sim_device_implementation::destroy_stream(stream_ref stream) noexcept {
  if (!stream || stream.owner() != this) return;
  section held(driver_);
  if (auto& gone = own(stream); !gone.closed) close(held, gone);
}

event_ref sim_device_implementation::create_event(event_timing timing) {
  section const held(driver_);
  return {*this, &held.machine().add_event(timing)};
}

void sim_device_implementation::destroy_event(event_ref event) noexcept {
  if (!event || event.owner() != this) return;
  section const held(driver_);
  held.machine().remove_event(own(event));
}

// Enqueueing: the host's time, which is none.

void sim_device_implementation::launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
                                       unique_function<void()> work) {
  static_cast<void>(own(stream));
  if (!work) throw invalid_argument(fmt::format("the launch '{}' has no function; pass one", name.view()));
  auto const cost = cost_of(name, accesses);
  section const held(driver_);
  held.machine().enqueue(own_open(stream), {name, sim_launch{cost, std::move(work)}});
}

void sim_device_implementation::copy(stream_ref stream, label const& name, copy_direction direction, void* to,
                                     void const* from, std::size_t bytes) {
  section const held(driver_);
  auto& target = own_open(stream);
  if (bytes == 0) return;
  if (to == nullptr || from == nullptr) {
    throw invalid_argument(fmt::format("the copy '{}' has a null pointer; pass memory on both sides", name.view()));
  }
  held.machine().enqueue(target, {name, sim_copy{direction, to, from, bytes}});
}

void sim_device_implementation::record(event_ref event, stream_ref stream) {
  section const held(driver_);
  auto& target = own_open(stream);
  held.machine().record(own(event), target);
}

void sim_device_implementation::wait(stream_ref stream, event_ref event) {
  section const held(driver_);
  auto& target = own_open(stream);
  held.machine().wait(target, own(event));
}

event_status sim_device_implementation::query(event_ref event) {
  section const held(driver_);
  return own(event).mark.status();
}

double sim_device_implementation::elapsed_us(event_ref from, event_ref to) {
  section const held(driver_);
  return static_cast<double>((stamp_of(own(to)) - stamp_of(own(from))).count()) / 1e3;
}

nanoseconds sim_device_implementation::stamp_of(sim_event const& event) {
  if (event.timing == event_timing::off) {
    throw invalid_argument("elapsed time of an event without timing; create it with event_timing::on");
  }
  if (!event.stamp || event.mark.status() != event_status::complete) {
    throw invalid_argument("elapsed time of an event that is not complete; record and synchronize it first");
  }
  return *event.stamp;
}

nanoseconds sim_device_implementation::cost_of(label const& name, std::span<memory_access const> accesses) const {
  if (options_.kernel_cost) {
    auto const cost = options_.kernel_cost(name, accesses);
    if (cost < nanoseconds::zero()) {
      throw invalid_argument(fmt::format("the kernel '{}' is to cost {} ns; let kernel_cost return zero or more",
                                         name.view(), cost.count()));
    }
    return cost;
  }
  if (options_.memory_gbps <= 0) return nanoseconds::zero();
  std::size_t bytes = 0;
  for (auto const& access : accesses) bytes += access.bytes;
  return nanoseconds(std::llround(static_cast<double>(bytes) / options_.memory_gbps));  // GB/s is bytes per nanosecond
}

// Waiting, which lets time pass.

void sim_device_implementation::synchronize(event_ref event) {
  section held(driver_);
  auto const mark = own(event).mark;
  driver_.pass_time_until(held, [&] { return mark.status() != event_status::pending; });
  if (mark.status() == event_status::failed) report(held, *mark.stream, *mark.stream->failure_at(mark.sequence));
}

void sim_device_implementation::synchronize(stream_ref stream) {
  section held(driver_);
  auto& awaited = own(stream);
  auto const last = awaited.submitted();
  driver_.pass_time_until(held, [&] { return awaited.completed() >= last; });
  if (auto const* const why = awaited.unreported(last)) report(held, awaited, *why);
}

void sim_device_implementation::drain(stream_ref stream) noexcept {
  if (!stream || stream.owner() != this) return;
  section held(driver_);
  auto& awaited = own(stream);
  try {
    driver_.pass_time_until(held, [&, last = awaited.submitted()] { return awaited.completed() >= last; });
  } catch (deadlock_error const& stuck) {
    log_.error("the work of the stream '{}' never ends: {}", awaited.name().view(), stuck.what());
  }
}

/// Throws what failed, and makes the stream usable again: work enqueued so far stays skipped.
void sim_device_implementation::report(section& held, sim_stream& stream, sim_cause const& why) {
  stream_error const failure(why.operation, why.message);
  if (!why.reported) {
    // Nothing of what was skipped is left in the queue when the caller goes on: failed work is over.
    driver_.pass_time_until(held, [&] { return stream.idle(); });
    stream.recover();
  }
  throw failure;
}

void sim_device_implementation::close(section& held, sim_stream& stream) noexcept {
  std::string why;
  try {
    driver_.pass_time_until(held, [&] { return stream.idle(); });
  } catch (error const& stuck) {
    why = stuck.what();
    log_.error("the stream '{}' is destroyed with work that never ends and is dropped: {}", stream.name().view(), why);
  }
  held.machine().close(stream, why);
}

// Arguments.

sim_stream& sim_device_implementation::own(stream_ref stream) const {
  return native_of<sim_stream>(*this, stream, "stream");
}

/// Requires: the lock held.
sim_stream& sim_device_implementation::own_open(stream_ref stream) const {
  auto& found = own(stream);
  if (found.closed) {
    throw invalid_argument(fmt::format("the stream '{}' was destroyed; use a live one", found.name().view()));
  }
  return found;
}

sim_event& sim_device_implementation::own(event_ref event) const { return native_of<sim_event>(*this, event, "event"); }

}  // namespace

std::unique_ptr<sim_device> make_sim_device(sim_device_options options) {
  return std::make_unique<sim_device_implementation>(std::move(options));
}

}  // namespace ferry
