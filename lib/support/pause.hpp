// Waiting, briefly and politely.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "ferry/device.hpp"

namespace ferry {

/// Tells the core that this thread spins.
inline void relax_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline void nap(std::chrono::microseconds span) noexcept { std::this_thread::sleep_for(span); }

[[nodiscard]] inline double microseconds_of(std::chrono::nanoseconds span) noexcept {
  return static_cast<double>(span.count()) / 1e3;
}

/// Waiting for something that others bring about, by looking again and again. The longer it takes, the longer the naps:
/// late by a quarter of the time waited at most, and few enough looks to leave the cores to those others. Where the
/// device's time is virtual, a look is as far from the next as the next thing that happens.
class patience {
 public:
  explicit patience(device& on) noexcept : device_(on), began_(on.now()) {}

  /// One nap, of at most `longest`. Throws: `deadlock_error`, on a device with a virtual clock only.
  void wait(std::chrono::microseconds longest = std::chrono::microseconds(300)) {
    if (auto* const time = device_.time()) {
      time->pass_time();
    } else {
      nap_for(longest);
    }
  }
  /// The same for somebody who will not wait for ever: on a virtual clock too, so much time passes at most, or a little
  /// of what has passed already. Who has waited for hours has not changed his mind and never will.
  void wait_or_look(double longest_us) {
    using namespace std::chrono;
    if (auto* const time = device_.time()) {
      auto const waited = device_.now() - began_;
      constexpr hours for_ever{10};
      constexpr int little = 64;
      if (waited > for_ever) {
        time->pass_time();
      } else {
        auto const longest = ceil<nanoseconds>(duration<double, std::micro>(std::max(longest_us, 1.0)));
        time->pass_time(std::max(longest, waited / little));
      }
    } else {
      nap_for(microseconds(static_cast<long>(std::clamp(longest_us, 30.0, 300.0))));
    }
  }
  [[nodiscard]] double waited_us() const noexcept { return microseconds_of(device_.now() - began_); }

 private:
  void nap_for(std::chrono::microseconds longest) const {
    using std::chrono::microseconds;
    auto const waited = std::chrono::duration_cast<microseconds>(device_.now() - began_);
    nap(std::clamp(waited / 4, microseconds(30), longest));
  }

  device& device_;
  std::chrono::nanoseconds began_;
};

/// Until the marked work is over, whatever became of it. No failure is reported.
inline void wait_until_over(device& on, event_ref mark) noexcept {
  try {
    patience waiting(on);
    while (on.query(mark) == event_status::pending) waiting.wait();
  } catch (deadlock_error const&) {
    // It never will be: nothing is left that could touch anything.
  }
}

/// Makes the calling thread wake up as punctually as the system can: by default the kernel rounds wake-ups
/// up by 50 us, which is half of a small copy.
inline void sharpen_sleep() noexcept { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace ferry
