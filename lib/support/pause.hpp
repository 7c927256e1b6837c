// Waiting, briefly and politely.
#pragma once

#include <sys/prctl.h>

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

/// Makes the calling thread wake up as punctually as the system can: by default the kernel rounds wake-ups
/// up by 50 us, which is half of a small copy.
inline void sharpen_sleep() noexcept { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

}  // namespace ferry
