#include "support/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/threads.hpp"

namespace ferry::support {

namespace {

thread_local bool alone = false;

}  // namespace

alone_here::alone_here() noexcept : before_(std::exchange(alone, true)) {}
alone_here::~alone_here() { alone = before_; }

void in_parallel(std::size_t count, std::function<void(std::size_t)> const& part) {
  std::size_t const threads = alone ? 1 : std::min<std::size_t>(count, threads_as_openmp().threads);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // guarded by `mutex`
  auto const work = [&] {
    alone_here const here;
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        part(i);
      } catch (...) {
        std::lock_guard const lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads);
    try {
      while (others.size() + 1 < threads) others.emplace_back(work);
    } catch (std::system_error const&) {  // then with those that there are
    }
    work();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace ferry::support
