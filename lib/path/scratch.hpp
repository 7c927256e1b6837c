// Scratch memory: the trainer's blocks that are not saved, and how many bytes they will take.
//
// A step allocates about what the step before did. So whoever hands out free bytes ahead of need leaves as many as the
// blocks took at most in the last step. Threads: the session's only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "store/device_pool.hpp"

namespace ferry::path {

class scratch {
 public:
  using slot = std::uint32_t;

  /// The region is a block's from now on.
  [[nodiscard]] slot hold(store::device_region&& region) {
    if (idle_.empty()) {
      idle_.push_back(static_cast<slot>(regions_.size()));
      regions_.emplace_back();
      idle_.reserve(regions_.size());  // giving a slot back must never allocate
    }
    newest_ = idle_.back();
    idle_.pop_back();
    bytes_ += region.bytes();
    peak_bytes_ = std::max(peak_bytes_, bytes_);
    regions_[newest_] = std::move(region);
    return newest_;
  }
  /// The block is saved or freed.
  [[nodiscard]] store::device_region take_out(slot of) noexcept {
    bytes_ -= regions_[of].bytes();
    idle_.push_back(of);
    return std::move(regions_[of]);
  }
  [[nodiscard]] store::device_region const& region(slot of) const noexcept { return regions_[of]; }
  [[nodiscard]] bool has(store::home const& place) const noexcept {
    return std::ranges::any_of(regions_,
                               [&](store::device_region const& one) { return one && one.in_place == &place; });
  }
  [[nodiscard]] bool is_newest(slot of) const noexcept { return of == newest_; }

  void begin_step() noexcept { peak_bytes_ = bytes_; }
  void end_step() noexcept { last_peak_bytes_ = peak_bytes_; }

  /// What blocks hold now.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The most that they held at once in the last step.
  [[nodiscard]] std::size_t last_peak_bytes() const noexcept { return last_peak_bytes_; }
  /// What they will take beside, if the step is like the last one.
  [[nodiscard]] std::size_t still_to_come_bytes() const noexcept {
    return last_peak_bytes_ > bytes_ ? last_peak_bytes_ - bytes_ : 0;
  }

 private:
  std::vector<store::device_region> regions_;  // by slot
  std::vector<slot> idle_;
  slot newest_ = 0;
  std::size_t bytes_ = 0;
  std::size_t peak_bytes_ = 0;  // in this step
  std::size_t last_peak_bytes_ = 0;
};

}  // namespace ferry::path
