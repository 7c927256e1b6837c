// A gate that holds work on a stream until the test opens it, so that tests arrange orders instead of
// sleeping. Waiting is bounded: a broken device fails the test rather than hanging it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ferry::testing {

class gate {
 public:
  gate() = default;
  gate(gate const&) = delete;
  gate& operator=(gate const&) = delete;

  void open() {
    std::lock_guard const lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  [[nodiscard]] bool is_open() const {
    std::lock_guard const lock(mutex_);
    return open_;
  }
  /// False if nobody opened it in time.
  bool wait() const { return wait_for(std::chrono::seconds(20)); }
  bool wait_for(std::chrono::milliseconds span) const {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, span, [this] { return open_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  bool open_ = false;
};

/// Opens the gate when the test leaves, also by a failed assertion: the device must be able to finish.
class opens_at_end {
 public:
  explicit opens_at_end(gate& held) : held_(held) {}
  opens_at_end(opens_at_end const&) = delete;
  opens_at_end& operator=(opens_at_end const&) = delete;
  ~opens_at_end() { held_.open(); }

 private:
  gate& held_;
};

}  // namespace ferry::testing
