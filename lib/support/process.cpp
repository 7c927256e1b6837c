#include "support/process.hpp"

#include <atomic>

#include <fmt/format.h>
#include <pthread.h>

#include "ferry/error.hpp"

namespace ferry::support {

namespace {

std::atomic<std::uint32_t> forks_so_far{0};  // of the process itself: what fork() tells has nowhere else to go

void count_fork() { forks_so_far.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint32_t process_mark::forks() noexcept {
  static int const registered = pthread_atfork(nullptr, nullptr, &count_fork);
  static_cast<void>(registered);  // it fails for lack of memory only; then forks go unnoticed, as without it
  return forks_so_far.load(std::memory_order_relaxed);
}

void process_mark::refuse(char const* what) {
  throw forked_process(fmt::format(
      "{} was made before this process was forked, and its threads stayed in the parent; fork first and make it in the "
      "child, or let the child call exec",
      what));
}

}  // namespace ferry::support
