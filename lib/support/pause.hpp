// Waiting, briefly and politely.
#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

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

/// Waiting for something that others bring about, by looking again and again. The longer it takes, the longer the naps:
/// late by a quarter of the time waited at most, and few enough looks to leave the cores to those others.
class patience {
 public:
  /// One nap, of at most `longest`.
  void wait(std::chrono::microseconds longest = std::chrono::microseconds(300)) noexcept {
    using std::chrono::microseconds;
    auto const waited = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began_);
    nap(std::clamp(waited / 4, microseconds(30), longest));
  }
  [[nodiscard]] double waited_us() const noexcept {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

/// Makes the calling thread wake up as punctually as the system can: by default the kernel rounds wake-ups
/// up by 50 us, which is half of a small copy.
inline void sharpen_sleep() noexcept { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace ferry
