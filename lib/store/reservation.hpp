// Byte budgets. A budget is a hard limit; holding part of it is a move-only reservation, so bytes can be
// neither forgotten nor counted twice. Keeps the peak, and the average over time by the device's clock. Threads: the
// session's only.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "ferry/device.hpp"
#include "ferry/stats.hpp"

namespace ferry::store {

class budget;

/// Told of every change of a budget's use.
class budget_watcher {
 public:
  virtual void changed(budget const& what) noexcept = 0;

 protected:
  ~budget_watcher() = default;
};

class reservation {
 public:
  reservation() noexcept = default;
  reservation(reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  reservation& operator=(reservation&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~reservation();
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  friend class budget;
  reservation(budget& from, std::size_t bytes) noexcept : budget_(&from), bytes_(bytes) {}
  budget* budget_ = nullptr;
  std::size_t bytes_ = 0;
};

class budget {
 public:
  budget(device const& clock, std::size_t limit_bytes) noexcept : clock_(clock), limit_bytes_(limit_bytes) {}
  budget(budget const&) = delete;
  budget& operator=(budget const&) = delete;

  /// Nothing when the limit would be exceeded.
  [[nodiscard]] std::optional<reservation> reserve(std::size_t bytes) noexcept {
    if (bytes > limit_bytes_ - used_bytes_) return std::nullopt;
    change(used_bytes_ + bytes);
    return reservation(*this, bytes);
  }

  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  /// Requires: no more than that is used.
  void set_limit(std::size_t bytes) noexcept { limit_bytes_ = bytes; }
  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_bytes_; }
  [[nodiscard]] std::size_t free_bytes() const noexcept { return limit_bytes_ - used_bytes_; }
  [[nodiscard]] std::size_t peak_bytes() const noexcept { return peak_bytes_; }

  /// The average counts only the time between these two.
  void start_clock() noexcept {
    since_ = clock_.now();
    running_ = true;
  }
  void stop_clock() noexcept {
    settle();
    running_ = false;
  }

  [[nodiscard]] tier_stats stats() const noexcept;
  /// Null: nobody.
  void tell(budget_watcher* watcher) noexcept { watcher_ = watcher; }

 private:
  friend class reservation;

  void settle() noexcept {
    if (!running_) return;
    auto const now = clock_.now();
    double const seconds = std::chrono::duration<double>(now - since_).count();
    byte_seconds_ += static_cast<double>(used_bytes_) * seconds;
    seconds_ += seconds;
    since_ = now;
  }
  void change(std::size_t used) noexcept {
    settle();
    used_bytes_ = used;
    if (used > peak_bytes_) peak_bytes_ = used;
    if (watcher_ != nullptr) watcher_->changed(*this);
  }

  device const& clock_;
  std::size_t limit_bytes_;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  bool running_ = false;
  budget_watcher* watcher_ = nullptr;
  std::chrono::nanoseconds since_{0};
  double byte_seconds_ = 0;
  double seconds_ = 0;
};

inline reservation::~reservation() {
  if (budget_ != nullptr) budget_->change(budget_->used_bytes_ - bytes_);
}

inline tier_stats budget::stats() const noexcept {
  return {limit_bytes_, used_bytes_, peak_bytes_, seconds_ > 0 ? byte_seconds_ / seconds_ : 0, 0};
}

}  // namespace ferry::store
