// Events that are recorded often and held briefly: a pool, so that marking a stream allocates nothing
// once warm. Handles share an event by a plain count. Threads: the session's only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ferry/device.hpp"

namespace ferry::store {

class event_pool;

struct pooled_event {
  pooled_event(device& owner, event_timing timing) : mark(owner, timing) {}
  event mark;
  stream_ref stream;
  std::uint32_t holders = 0;
  std::vector<pooled_event*>* home = nullptr;
};

/// A recorded event, shared; the last holder gives it back.
class event_handle {
 public:
  event_handle() noexcept = default;
  explicit event_handle(pooled_event* held) noexcept : held_(held) { ++held_->holders; }
  event_handle(event_handle const& other) noexcept : held_(other.held_) {
    if (held_ != nullptr) ++held_->holders;
  }
  event_handle(event_handle&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  event_handle& operator=(event_handle other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~event_handle() {
    if (held_ != nullptr && --held_->holders == 0) held_->home->push_back(held_);
  }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  [[nodiscard]] event_ref ref() const noexcept { return held_->mark; }
  [[nodiscard]] stream_ref stream() const noexcept { return held_->stream; }

 private:
  pooled_event* held_ = nullptr;
};

/// How long it was from one mark to the other; nothing where the device cannot say. Requires: both have passed.
[[nodiscard]] std::optional<double> elapsed_us(device& on, event_handle const& from, event_handle const& to) noexcept;

class event_pool {
 public:
  explicit event_pool(device& owner) : device_(owner) {}
  event_pool(event_pool const&) = delete;
  event_pool& operator=(event_pool const&) = delete;

  /// Marks the stream's current end.
  [[nodiscard]] event_handle record(stream_ref stream, event_timing timing = event_timing::off);
  /// The same, or nothing where that fails: for marks that nobody's bytes depend on.
  [[nodiscard]] event_handle record_if_possible(stream_ref stream, event_timing timing = event_timing::off) noexcept;
  /// The same for a stream that may have been destroyed: then its work is over and there is nothing to mark.
  [[nodiscard]] event_handle record_if_alive(stream_ref stream, event_timing timing = event_timing::off) noexcept;

 private:
  device& device_;
  std::vector<std::unique_ptr<pooled_event>> all_;
  std::vector<pooled_event*> idle_[2];  // by event_timing
};

}  // namespace ferry::store
