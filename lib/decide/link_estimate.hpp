// The speed of one direction of the link, from the chunks that have arrived.
//
// Chunks that follow each other show the bandwidth, those that meet an idle link also the latency. Of the last few,
// those that took many times as long as the middle one are left out: a link that stood still for a moment is not a slow
// link, and whoever waits meanwhile sees for himself how long. The two directions may disturb each other: chunks that
// went alone and chunks that went beside the other direction's are compared, and what is left of the speed beside it is
// a figure of its own. The speed is that of the direction alone. Threads: the engine's; whoever reads gets published
// copies.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "ferry/link.hpp"

namespace ferry::decide {

class link_estimate {
 public:
  /// Until something has arrived.
  void expect(double bytes_per_us) noexcept { bytes_per_us_ = bytes_per_us; }
  /// Until enough has arrived alone and beside the other direction to tell.
  void expect_share(double share) noexcept { share_ = share; }

  /// `beside`: for which share of that time the other direction was at work.
  void arrived(std::size_t bytes, double us, bool met_idle_link, double beside = 0) noexcept {
    double const size = static_cast<double>(bytes);
    us = std::max(us, shortest_us);
    if (!met_idle_link) compare(us / std::max(1.0, size), beside);
    // Until it is known what the other direction costs, such chunks say little; but not for ever.
    unexplained_ = beside > hardly ? unexplained_ + 1 : 0;
    if (unexplained_ > 0 && unexplained_ <= patience && alone_.full() && !together_.full()) return;
    us *= 1 - beside * (1 - share_);  // as it would have taken alone
    if (met_idle_link && known()) {
      add_latency(std::max(0.0, us - size / bytes_per_us_));
      // Only the tail of an isolated chunk is the link's speed: it counts unless it would make the link look slow.
      us = std::max(us - latency_us_, size / bytes_per_us_ / 2);
    }
    samples_[next_] = {size, us};
    next_ = (next_ + 1) % samples_.size();
    size_ = std::min(size_ + 1, samples_.size());
    estimate();
  }

  [[nodiscard]] bool known() const noexcept { return bytes_per_us_ > 0; }
  [[nodiscard]] double bytes_per_us() const noexcept { return bytes_per_us_; }
  [[nodiscard]] double latency_us() const noexcept { return latency_us_; }
  /// What is left of the speed beside the other direction; as expected, or 1, until both have been seen.
  [[nodiscard]] double share_beside() const noexcept { return share_; }

 private:
  struct sample {
    double bytes = 0;
    double us = 0;
  };
  /// Microseconds a byte of the last chunks.
  struct pace {
    std::array<double, 8> last{};
    std::size_t count = 0;
    void add(double us) noexcept { last[count++ % last.size()] = us; }
    [[nodiscard]] bool full() const noexcept { return count >= last.size(); }
    [[nodiscard]] double middle() const noexcept {
      auto sorted = last;
      std::nth_element(sorted.begin(), sorted.begin() + last.size() / 2, sorted.end());
      return sorted[last.size() / 2];
    }
  };

  void compare(double us_per_byte, double beside) noexcept {
    constexpr double worth_noting = 0.95;  // more than that is noise
    if (beside > hardly && beside < 1 - hardly) return;
    (beside < hardly ? alone_ : together_).add(us_per_byte);
    if (!alone_.full() || !together_.full() || together_.middle() <= 0) return;
    double const share = alone_.middle() / together_.middle();
    share_ = share < worth_noting ? std::max(contention::least, share) : 1;
  }

  void estimate() noexcept {
    constexpr double standstill = 4;
    std::array<double, window> per_byte{};
    for (std::size_t i = 0; i < size_; ++i) per_byte[i] = samples_[i].us / std::max(1.0, samples_[i].bytes);
    auto const middle = per_byte.begin() + static_cast<std::ptrdiff_t>(size_ / 2);
    std::nth_element(per_byte.begin(), middle, per_byte.begin() + static_cast<std::ptrdiff_t>(size_));
    double bytes = 0;
    double us = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (size_ > 2 && samples_[i].us > standstill * *middle * samples_[i].bytes) continue;
      bytes += samples_[i].bytes;
      us += samples_[i].us;
    }
    if (us > 0) bytes_per_us_ = bytes / us;
  }

  void add_latency(double us) noexcept {
    // Whatever delays a look makes it seem longer, nothing makes it seem shorter: it follows downwards at once.
    latency_us_ = !latency_known_ || us < latency_us_ ? us : 0.95 * latency_us_ + 0.05 * us;
    latency_known_ = true;
  }

  static constexpr double hardly = 0.1;  // of a chunk's time, beside the other direction
  static constexpr std::size_t window = 8;
  static constexpr std::size_t patience = 2 * window;
  static constexpr double shortest_us = 1e-3;  // of a link that takes no time
  std::array<sample, window> samples_{};
  std::size_t next_ = 0;
  std::size_t size_ = 0;
  double bytes_per_us_ = 0;
  double latency_us_ = 0;
  bool latency_known_ = false;
  pace alone_;
  pace together_;
  double share_ = 1;
  std::size_t unexplained_ = 0;  // chunks on end that went beside the other direction's
};

}  // namespace ferry::decide
