// A doorbell between threads: one side waits for a condition over atomics, the other changes them and
// rings. The waiter looks for a few tens of microseconds before it sleeps, because waking a sleeper takes
// about as long; ringing is one load unless somebody really sleeps.
//
// Threads: any number may ring and wait. The condition must read, and the ringing side must have changed,
// sequentially consistent atomics: then either the ringer sees the sleeper or the sleeper sees the change.
// (Operations rather than fences, because ThreadSanitizer does not model fences.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "support/pause.hpp"

namespace ferry {

class doorbell {
 public:
  /// Call after the change.
  void ring() noexcept {
    if (sleepers_.load() == 0) return;
    rung_.fetch_add(1);
    rung_.notify_all();
  }

  /// Returns once `ready()` holds.
  template <typename Condition>
  void wait(Condition const& ready) noexcept {
    if (ready() || spin(ready)) return;
    sleepers_.fetch_add(1);
    for (;;) {
      auto const seen = rung_.load();
      if (ready()) break;
      rung_.wait(seen);
    }
    sleepers_.fetch_sub(1);
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds spin_time{30};
  static constexpr std::chrono::microseconds private_spin_time{5};

  /// True as soon as `ready()`, false when it is time to sleep. After the first microseconds it offers the
  /// core to others each round: on a small machine the thread it waits for may need this very core.
  template <typename Condition>
  static bool spin(Condition const& ready) noexcept {
    auto const begin = clock::now();
    for (;;) {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return true;
        relax_cpu();
      }
      auto const spent = clock::now() - begin;
      if (spent > spin_time) return false;
      if (spent > private_spin_time) std::this_thread::yield();
    }
  }

  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> rung_{0};
};

}  // namespace ferry
