// Who lets the sim device's time pass; see sim_driver.hpp for ownership and threads.
#include "device/sim_driver.hpp"

#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "ferry/error.hpp"

namespace ferry {

namespace {

bool never() { return false; }

}  // namespace

sim_driver::sim_driver(sim_device_options const& options)
    : options_(options),
      machine_(options.device_to_host, options.host_to_device, options.beside, options.recalls_copies) {
  for (auto const& each : options.slow_downs) machine_.slow_down(each);
  for (auto const& each : options.failures) machine_.fail(each);
}

void sim_driver::pass_time_until(section& held, condition const& done) {
  in_the_seat(held, done, [&] {
    let_agents_act(held);
    while (!done()) pass_one(held);
  });
}

void sim_driver::pass_time(section& held, std::chrono::nanoseconds latest) {
  auto const done = [this, before = happened_] { return happened_ != before; };
  in_the_seat(held, done, [&] {
    let_agents_act(held);
    while (!done()) pass_one(held, latest);
  });
}

/// Calls `drive` in the driver's seat, unless another driver gets things done first.
void sim_driver::in_the_seat(section& held, condition const& done, std::function<void()> const& drive) {
  if (done()) return;
  auto const self = std::this_thread::get_id();
  if (driver_ == self) {  // called by a kernel's function or an agent
    drive();
    return;
  }
  progress_.wait(held.lock_, [&] { return done() || driver_ == std::thread::id(); });
  if (done()) return;
  struct seat {
    sim_driver& of;
    ~seat() {
      of.driver_ = {};
      of.progress_.notify_all();
    }
  } const taken{*this};
  driver_ = self;
  drive();
}

void sim_driver::pass_one(section& held, std::chrono::nanoseconds latest) {
  auto* const stream = machine_.next(latest);
  if (stream == nullptr && latest != forever) {
    something_happened();
    return;
  }
  if (stream == nullptr) {
    throw deadlock_error(fmt::format("nothing can happen any more at {} ns, so what is waited for never will: {}",
                                     now().count(), machine_.describe_waiting()));
  }
  auto over = machine_.operation_of(*stream);
  auto const cause = run(held, stream->head());
  machine_.finish(*stream, cause);
  something_happened();
  if (options_.observe) {
    over.failed = cause.has_value();
    held.unlocked([&] { options_.observe(over); });
  }
  let_agents_act(held);
}

/// Does what the task does when its time is up. Why it failed, or nothing.
std::optional<std::string> sim_driver::run(section& held, sim_task& task) {
  if (machine_.failure_is_due(task.name)) return "it was told to fail";
  auto* const launch = std::get_if<sim_launch>(&task.work);
  auto work = launch != nullptr ? std::move(launch->work) : unique_function<void()>();
  std::optional<std::string> cause;
  held.unlocked([&] {
    try {
      if (options_.before_operation) options_.before_operation(task.name);
      if (work) {
        work();
      } else if (auto const& copy = std::get<sim_copy>(task.work); options_.backed) {
        std::memcpy(copy.to, copy.from, copy.bytes);
      }
    } catch (std::exception const& thrown) {
      cause = thrown.what();
    } catch (...) {
      cause = "an exception that is no std::exception";
    }
    work.reset();  // captures are gone before anybody can see that the kernel is over
  });
  return cause;
}

void sim_driver::add(section& held, agent& added) {
  in_the_seat(held, never, [&] { agents_.push_back(&added); });
}

void sim_driver::remove(section& held, agent& removed) {
  in_the_seat(held, never, [&] { std::erase(agents_, &removed); });
}

bool sim_driver::settle(section& held) {
  bool moved = false;
  in_the_seat(held, never, [&] { moved = let_agents_act(held); });
  return moved;
}

/// Until none of them has anything left to do. Requires: in the seat.
bool sim_driver::let_agents_act(section& held) {
  if (acting_ || agents_.empty()) return false;
  bool moved = false;
  acting_ = true;
  struct done_acting {
    bool& acting;
    ~done_acting() { acting = false; }
  } const guard{acting_};
  held.unlocked([&] {
    for (bool again = true; again;) {
      again = false;
      for (auto* const each : agents_) again |= each->act();
      moved |= again;
    }
  });
  if (moved) something_happened();
  return moved;
}

void sim_driver::something_happened() noexcept {
  ++happened_;
  progress_.notify_all();
}

}  // namespace ferry
