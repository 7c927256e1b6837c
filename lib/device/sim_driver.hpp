// Who lets the sim device's time pass: the machine (sim_machine.hpp) behind a lock, and the waiting that moves it on.
//
// Of the threads that wait, one has the driver's seat: it alone lets time pass, runs kernels' functions and lets the
// agents act, all of that without the lock, so that they may call the device. The others wait for what they want or
// for the seat. Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/sim_machine.hpp"
#include "ferry/sim_device.hpp"

namespace ferry {

class sim_driver {
 public:
  using agent = virtual_time::agent;
  using condition = std::function<bool()>;

  /// The lock, and the machine to whoever has it. What the machine dropped meanwhile goes after the lock, because a
  /// function's captures may call the device when they are destroyed.
  class section {
   public:
    explicit section(sim_driver& of) : driver_(of), lock_(of.mutex_) {}
    section(section const&) = delete;
    section& operator=(section const&) = delete;
    ~section() {
      dropped_ = driver_.machine_.take_dropped();
      lock_.unlock();
    }
    [[nodiscard]] sim_machine& machine() const noexcept { return driver_.machine_; }

   private:
    friend class sim_driver;
    template <typename Call>
    void unlocked(Call const& call) {
      struct relock {
        std::unique_lock<std::mutex>& lock;
        ~relock() { lock.lock(); }
      } const guard{lock_};
      lock_.unlock();
      call();
    }

    sim_driver& driver_;
    std::vector<unique_function<void()>> dropped_;
    std::unique_lock<std::mutex> lock_;
  };

  /// The options must outlive it.
  explicit sim_driver(sim_device_options const& options);
  sim_driver(sim_driver const&) = delete;
  sim_driver& operator=(sim_driver const&) = delete;

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return machine_.now(); }

  /// Throws: `deadlock_error` if nothing is left that could bring it about.
  void pass_time_until(section& held, condition const& done);
  static constexpr auto forever = std::chrono::nanoseconds::max();
  /// Until one thing has happened, agents' doings included, or it is `latest`.
  void pass_time(section& held, std::chrono::nanoseconds latest);

  void add(section& held, agent& added);
  void remove(section& held, agent& removed);
  bool settle(section& held);

 private:
  void in_the_seat(section& held, condition const& done, std::function<void()> const& drive);
  void pass_one(section& held, std::chrono::nanoseconds latest = forever);
  [[nodiscard]] std::optional<std::string> run(section& held, sim_task& task);
  bool let_agents_act(section& held);
  void something_happened() noexcept;

  sim_device_options const& options_;
  std::mutex mutex_;  // guards what follows, but for the machine's `now`
  sim_machine machine_;
  std::vector<agent*> agents_;  // changed, and walked, in the seat only
  bool acting_ = false;
  std::thread::id driver_;
  std::uint64_t happened_ = 0;
  std::condition_variable progress_;  // `happened_` changed, or the seat is free
};

}  // namespace ferry
