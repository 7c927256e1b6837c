// Waiting, briefly and politely.
#pragma once

#include <chrono>
#include <thread>

namespace ferry {

/// Tells the core that this is a spin loop.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline void nap(std::chrono::microseconds span) noexcept { std::this_thread::sleep_for(span); }

}  // namespace ferry
