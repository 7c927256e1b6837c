// As much of oneTBB as Ferry uses, over plain threads, for builds with ThreadSanitizer.
//
// Debian's libtbb is not instrumented: ThreadSanitizer does not see what it orders and reports all that goes through
// it, and a suppression of that hides whatever runs inside of a loop or an arena, which is nearly all that a compute
// stream does. Here every order is seen, and none is stronger than oneTBB's: a loop's pieces come after what its caller
// did before, and before what he does next, and are not ordered among themselves, whatever the timing. They are dealt
// to the arena's threads in turns, not to whoever is idle: a machine with few cores finds what one with many would.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace tbb {

/// A thread with a queue of its own: of those who give it work, it is ordered after them alone.
class crew_member {
 public:
  crew_member() : thread_([this] { work(); }) {}
  crew_member(crew_member const&) = delete;
  crew_member& operator=(crew_member const&) = delete;
  /// After all that was given.
  ~crew_member() {
    give({});
    thread_.join();
  }

  void give(std::function<void()> task) {
    std::lock_guard const lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

 private:
  std::function<void()> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !tasks_.empty(); });
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }
  void work() {
    for (auto task = next(); task != nullptr; task = next()) task();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

class task_arena {
 public:
  static constexpr int automatic = -1;

  explicit task_arena(int threads = automatic, unsigned /*reserved*/ = 1)
      : threads_(threads == automatic ? at_least_two() : threads) {}
  task_arena(task_arena const&) = delete;
  task_arena& operator=(task_arena const&) = delete;
  ~task_arena() = default;

  void initialize() {}
  [[nodiscard]] int max_concurrency() const noexcept { return threads_; }

  template <typename Function>
  decltype(auto) execute(Function&& work) {
    inside const here(*this, false);
    return std::forward<Function>(work)();
  }

  /// Calls `piece(i)` for each i below `count`. Inside of another loop, one after the other.
  void run_loop(std::size_t count, std::function<void(std::size_t)> const& piece) {
    auto const shares = std::min(static_cast<std::size_t>(threads_), count);
    if (shares < 2 || this_thread().in_loop) {
      for (std::size_t i = 0; i < count; ++i) piece(i);
      return;
    }
    loop own{.count = count, .shares = shares, .piece = piece, .missing = shares};
    for (std::size_t share = 1; share < shares; ++share) member(share).give([&, share] { run_share(own, share); });
    run_share(own, 0);
    std::unique_lock lock(own.mutex);
    own.changed.wait(lock, [&] { return own.missing == 0; });
    if (own.failure != nullptr) std::rethrow_exception(own.failure);
  }

  /// Of the calling thread; outside of all others one that the process shares.
  static task_arena& current() {
    static task_arena everybodys;
    task_arena* const own = this_thread().arena;
    return own != nullptr ? *own : everybodys;
  }

 private:
  struct thread_state {
    task_arena* arena = nullptr;
    bool in_loop = false;
  };
  static thread_state& this_thread() {
    thread_local thread_state own;
    return own;
  }

  class inside {
   public:
    inside(task_arena& arena, bool in_loop) : before_(std::exchange(this_thread(), {&arena, in_loop})) {}
    inside(inside const&) = delete;
    inside& operator=(inside const&) = delete;
    ~inside() { this_thread() = before_; }

   private:
    thread_state before_;
  };

  struct loop {
    std::size_t count;
    std::size_t shares;
    std::function<void(std::size_t)> const& piece;
    std::size_t missing;  // shares that have not ended
    std::exception_ptr failure{};
    std::mutex mutex{};
    std::condition_variable changed{};
  };

  static int at_least_two() { return std::max(2, static_cast<int>(std::thread::hardware_concurrency())); }

  void run_share(loop& of, std::size_t share) {
    std::exception_ptr failure;
    try {
      inside const here(*this, true);
      for (std::size_t i = share; i < of.count; i += of.shares) of.piece(i);
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard const lock(of.mutex);
    if (of.failure == nullptr) of.failure = std::move(failure);
    --of.missing;
    of.changed.notify_one();
  }

  crew_member& member(std::size_t number) {
    std::lock_guard const lock(mutex_);
    if (crew_.size() <= number) crew_.resize(number + 1);
    if (crew_[number] == nullptr) crew_[number] = std::make_unique<crew_member>();
    return *crew_[number];
  }

  int const threads_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<crew_member>> crew_;
};

namespace this_task_arena {
inline int max_concurrency() { return task_arena::current().max_concurrency(); }
}  // namespace this_task_arena

/// An arena has as many threads here as it is told.
class global_control {
 public:
  enum parameter { max_allowed_parallelism };
  global_control(parameter, std::size_t) {}
};

template <typename Value>
class blocked_range {
 public:
  blocked_range(Value begin, Value end, std::size_t grain = 1) : begin_(begin), end_(end), grain_(grain) {}
  [[nodiscard]] Value begin() const noexcept { return begin_; }
  [[nodiscard]] Value end() const noexcept { return end_; }
  [[nodiscard]] std::size_t size() const noexcept {
    return begin_ < end_ ? static_cast<std::size_t>(end_ - begin_) : 0;
  }
  [[nodiscard]] std::size_t grainsize() const noexcept { return grain_; }

 private:
  Value begin_;
  Value end_;
  std::size_t grain_;
};

struct simple_partitioner {};
struct auto_partitioner {};

template <typename Value, typename Body, typename Partitioner = auto_partitioner>
void parallel_for(blocked_range<Value> const& range, Body const& body, Partitioner const& = {}) {
  auto& arena = task_arena::current();
  std::size_t step = range.grainsize();
  if constexpr (std::is_same_v<Partitioner, auto_partitioner>) {
    auto const pieces = static_cast<std::size_t>(arena.max_concurrency()) * 4;
    step = std::max(step, (range.size() + pieces - 1) / pieces);
  }
  arena.run_loop((range.size() + step - 1) / step, [&](std::size_t i) {
    std::size_t const from = i * step;
    std::size_t const to = std::min(range.size(), from + step);
    body(blocked_range<Value>(range.begin() + static_cast<Value>(from), range.begin() + static_cast<Value>(to), step));
  });
}

template <typename Index, typename Function>
void parallel_for(Index first, Index last, Function const& function) {
  parallel_for(blocked_range<Index>(first, last), [&](blocked_range<Index> const& some) {
    for (Index i = some.begin(); i < some.end(); ++i) function(i);
  });
}

}  // namespace tbb
