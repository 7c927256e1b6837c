// What a random program is exposed to on its streams, delays and failing operations, and where whatever goes wrong is
// collected. Any thread may call both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ferry/device.hpp"
#include "support/session_model.hpp"
#include "support/session_program.hpp"

namespace ferry::testing {

/// Complaints from any thread; the first few are enough.
class complaints {
 public:
  void add(std::string text) {
    std::lock_guard const lock(mutex_);
    ++count_;
    if (texts_.size() < 10) texts_.push_back(std::move(text));
  }
  [[nodiscard]] std::size_t count() const {
    std::lock_guard const lock(mutex_);
    return count_;
  }
  [[nodiscard]] std::string text() const {
    std::lock_guard const lock(mutex_);
    std::string all;
    for (auto const& each : texts_) all += each + "\n";
    if (count_ > texts_.size()) all += "and " + std::to_string(count_ - texts_.size()) + " more\n";
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
  std::size_t count_ = 0;
};

/// What happens before each operation of any stream: a pause, or a failure. Names of items begin with 'i' and
/// are those of copies; names of kernels begin with 'k'.
class weather {
 public:
  weather(std::uint64_t seed, unsigned delays_per_mille, unsigned longest_delay_us, fault_rates faults)
      : seed_(seed), delays_per_mille_(delays_per_mille), longest_delay_us_(longest_delay_us), faults_(faults) {}

  void operator()(label const& operation) {
    auto const drawn = draw();
    if (auto const pause = delay(drawn); pause.count() > 0) std::this_thread::sleep_for(pause);
    strike(operation, drawn);
  }
  /// The same for a device that does not pause by itself.
  std::chrono::microseconds delay() { return delay(draw()); }
  void strike(label const& operation) { strike(operation, draw()); }

  /// What is drawn from now on is drawn from this.
  void draw_from(std::uint64_t seed) {
    seed_ = seed;
    drawn_.store(0);
  }
  /// From that copy on, all fail. For one thread only.
  void break_link_at(std::uint64_t copy) { broken_at_ = copy; }
  [[nodiscard]] bool call_fails(unsigned per_mille) { return per_mille > 0 && (draw() >> 20U) % 1000 < per_mille; }
  void set_stormy(bool stormy) { stormy_.store(stormy); }
  [[nodiscard]] bool is_stormy() const { return stormy_.load(); }
  [[nodiscard]] std::uint64_t strikes() const { return strikes_.load(); }

 private:
  std::uint64_t draw() { return mixed(seed_ + mixed(drawn_.fetch_add(1, std::memory_order_relaxed))); }
  [[nodiscard]] std::chrono::microseconds delay(std::uint64_t drawn) const {
    return std::chrono::microseconds(drawn % 1000 < delays_per_mille_ ? (drawn >> 10U) % longest_delay_us_ : 0);
  }
  void strike(label const& operation, std::uint64_t drawn) {
    bool const copy = operation.view().starts_with('i');
    unsigned const rate = copy ? faults_.copies_per_mille : faults_.kernels_per_mille;
    bool const broken = copy && broken_at_ > 0 && ++copies_ >= broken_at_;
    if (stormy_.load(std::memory_order_relaxed) && (broken || (drawn >> 40U) % 1000 < rate)) {
      strikes_.fetch_add(1, std::memory_order_relaxed);
      throw std::runtime_error("struck by lightning");
    }
  }

  std::uint64_t seed_;
  unsigned delays_per_mille_;
  unsigned longest_delay_us_;
  fault_rates faults_;
  std::uint64_t broken_at_ = 0;
  std::uint64_t copies_ = 0;
  std::atomic<std::uint64_t> drawn_{0};
  std::atomic<std::uint64_t> strikes_{0};
  std::atomic<bool> stormy_{false};
};

}  // namespace ferry::testing
