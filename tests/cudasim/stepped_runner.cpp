// Streams without threads: each line is a stream of Ferry's sim device, whose clock stands still unless somebody waits
// or lets time pass. Whoever does so does the work of all lines meanwhile, in the order in which it ends on that clock.
//
// Every operation is a launch there, so lines run side by side and only their own order and events hold them up. Owns
// the clock and the lines. Threads: any, of the callers; but only what one thread does can be repeated.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tbb/task_arena.h>

#include "emulation.hpp"
#include "ferry/sim_device.hpp"
#include "runner.hpp"

namespace cudasim {

namespace {

using std::chrono::nanoseconds;

/// Bounded, so that sums of them do not overflow the clock.
constexpr nanoseconds longest_operation = std::chrono::hours(24);

/// What a copy takes over a link that nothing else uses.
nanoseconds time_on_link(work_cost const& copy) {
  using moment = ferry::link_clock::time_point;
  auto const speed = sim().device(copy.device)->link(copy.which).link().speed();
  auto const slot =
      ferry::schedule_copy(speed, moment{}, moment(nanoseconds(-1)), static_cast<std::size_t>(copy.amount));
  return slot.end - slot.start;
}

nanoseconds cost_of(operation const& work) {
  std::shared_ptr<operation_cost_hook const> hook;
  {
    std::lock_guard const lock(sim().mutex);
    hook = sim().operation_cost;
  }
  nanoseconds cost{0};
  if (hook != nullptr) {
    cost = (*hook)(work.kind, work.bytes);
  } else if (work.cost.what == work_cost::kind::copy) {
    cost = time_on_link(work.cost);
  }
  return std::clamp(cost, nanoseconds(0), longest_operation);
}

class stepped_runner;

class stepped_line final : public work_line {
 public:
  stepped_line(stepped_runner& owner, ferry::label const& name);

  void launch(stream_state& on, operation work) override;
  void record(event_state& event) override;
  void wait(event_state& event) override;
  /// The time it takes has passed already.
  void copy(gated_link&, void* to, void const* from, std::size_t bytes) override { ferry::copy_bytes(to, from, bytes); }

  [[nodiscard]] bool idle() override;
  void await_all() override;
  void synchronize() override;
  void retire() override;
  /// Waits for the work that is left. What never ends is dropped.
  void close() noexcept;

 private:
  stepped_runner& owner_;
  ferry::order_checker::stream_id const checker_id_;
  ferry::stream_ref const stream_;
  ferry::event_ref const end_;  // moved to the end of the work to see whether there is any
  thread_state thread_;         // what the work finds where a stream's thread has its own
  bool closed_ = false;
};

class stepped_runner final : public runner {
 public:
  explicit stepped_runner(ferry::order_checker& order);

  [[nodiscard]] work_line& add_line(device_state&, ferry::label const& name) override;
  void finish() noexcept override;

  void begin(event_state& event) override;
  void forget(event_state& event) override;
  [[nodiscard]] bool saw_end(event_state& event) override;
  void await(event_state& event) override;
  [[nodiscard]] std::optional<nanoseconds> stamp(event_state& event) override;

  void set_stalled(gated_link&, bool) override;
  [[nodiscard]] ferry::sim_device* clock() noexcept override { return device.get(); }

  void close_once_idle(stepped_line& line);

  ferry::order_checker& checker;
  std::unique_ptr<ferry::sim_device> const device;
  tbb::task_arena alone{1};  ///< where parallel loops find no other thread

 private:
  void close_idle();

  ferry::event_ref const beginning_;  // when the clock began
  std::mutex mutex_;                  // guards what follows
  std::deque<stepped_line> lines_;
  std::vector<stepped_line*> retired_;  // with work left
};

// Lines.

stepped_line::stepped_line(stepped_runner& owner, ferry::label const& name)
    : owner_(owner),
      checker_id_(owner.checker.add_stream(name)),
      stream_(owner.device->create_stream(ferry::stream_kind::compute, name)),
      end_(owner.device->create_event(ferry::event_timing::off)) {}

void stepped_line::launch(stream_state& on, operation work) {
  auto const nanoseconds_as_bytes = ferry::reads(nullptr, static_cast<std::size_t>(cost_of(work).count()));
  owner_.checker.operation(checker_id_, work.name, work.accesses);
  auto const name = work.name;
  owner_.device->launch(stream_, name, {&nanoseconds_as_bytes, 1}, [this, &on, work = std::move(work)] {
    acting_as const own_thread(thread_);
    owner_.alone.execute([&] { run_on_stream(on, work); });
  });
}

void stepped_line::record(event_state& event) {
  owner_.checker.record(&event, checker_id_);
  owner_.device->record(event.stepped, stream_);
}

void stepped_line::wait(event_state& event) {
  owner_.checker.wait(checker_id_, &event);
  owner_.device->wait(stream_, event.stepped);
}

bool stepped_line::idle() {
  if (closed_) return true;
  owner_.device->record(end_, stream_);
  return owner_.device->query(end_) != ferry::event_status::pending;
}

void stepped_line::await_all() { owner_.device->synchronize(stream_); }

void stepped_line::synchronize() {
  await_all();
  owner_.checker.host_saw_stream(checker_id_);
}

void stepped_line::retire() { owner_.close_once_idle(*this); }

void stepped_line::close() noexcept {
  if (std::exchange(closed_, true)) return;
  owner_.device->destroy_stream(stream_);
  owner_.device->destroy_event(end_);
}

// The runner.

/// Passed when the clock begins.
ferry::event_ref mark_beginning(ferry::sim_device& of) {
  ferry::stream const passing(of, ferry::stream_kind::compute, "beginning");
  auto const mark = of.create_event(ferry::event_timing::on);
  of.record(mark, passing);
  return mark;
}

stepped_runner::stepped_runner(ferry::order_checker& order)
    : checker(order),
      device(ferry::make_sim_device({.kernel_cost =
                                         [](auto const&, auto accesses) {
                                           return nanoseconds(accesses.front().bytes);  // as `launch` of a line has it
                                         }})),
      beginning_(mark_beginning(*device)) {}

work_line& stepped_runner::add_line(device_state&, ferry::label const& name) {
  std::lock_guard const lock(mutex_);
  close_idle();
  return lines_.emplace_back(*this, name);
}

/// Whoever destroys a stream has waited for nothing, so no time passes here.
void stepped_runner::close_once_idle(stepped_line& line) {
  std::lock_guard const lock(mutex_);
  retired_.push_back(&line);
  close_idle();
}

void stepped_runner::close_idle() {
  std::erase_if(retired_, [](stepped_line* each) {
    if (!each->idle()) return false;
    each->close();
    return true;
  });
}

void stepped_runner::finish() noexcept {
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i].close();  // agents act meanwhile, and may add to them
}

void stepped_runner::set_stalled(gated_link&, bool) {
  throw std::logic_error(
      "links cannot be stalled in stepped mode; let copies take long with set_operation_cost, or slow clock() down");
}

// Events.

void stepped_runner::begin(event_state& event) {
  event.stepped = device->create_event(event.timed ? ferry::event_timing::on : ferry::event_timing::off);
}

void stepped_runner::forget(event_state& event) {
  checker.forget_event(&event);
  device->destroy_event(std::exchange(event.stepped, {}));
}

bool stepped_runner::saw_end(event_state& event) {
  if (device->query(event.stepped) == ferry::event_status::pending) return false;
  checker.host_saw(&event);
  return true;
}

void stepped_runner::await(event_state& event) {
  device->synchronize(event.stepped);
  checker.host_saw(&event);
}

std::optional<nanoseconds> stepped_runner::stamp(event_state& event) {
  if (device->query(event.stepped) != ferry::event_status::complete) return std::nullopt;
  return nanoseconds(std::llround(device->elapsed_us(beginning_, event.stepped) * 1e3));
}

}  // namespace

std::unique_ptr<runner> make_stepped_runner(ferry::order_checker& checker) {
  return std::make_unique<stepped_runner>(checker);
}

}  // namespace cudasim
