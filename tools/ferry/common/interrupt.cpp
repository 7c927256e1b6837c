#include "common/interrupt.hpp"

#include <csignal>

#include <atomic>

namespace ferry::command {

namespace {

// A signal handler is given nothing, so what it writes has to be global.
std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");

extern "C" void raise_flag(int) { flag.store(true, std::memory_order_relaxed); }

}  // namespace

void listen_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = raise_flag;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (int const signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool interrupted() noexcept { return flag.load(std::memory_order_relaxed); }

}  // namespace ferry::command
