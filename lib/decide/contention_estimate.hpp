// What bytes on their way cost the computation beside them: estimated from segments that had traffic beside them at one
// time and less of it at another.
//
// A stretch of computation that takes so long alone takes longer beside traffic, in proportion to how long that lasted.
// Each segment's quiet time is remembered; whenever it has had much more of one kind of traffic since, the two times
// show what that kind costs. What segments lose or gain whose traffic has stayed as it was is the machine's doing, and
// taken off first. Believed is the middle of many such comparisons, and nothing until there are enough that agree.
// Threads: the session's only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decide/traffic.hpp"
#include "ferry/item.hpp"
#include "ferry/link.hpp"

namespace ferry::decide {

class contention_estimate {
 public:
  /// A stretch of a step: how long it computed, and beside what.
  struct sample {
    pass which{};
    std::uint32_t segment = 0;
    double us = 0;
    link_use beside{};
    double certainty = 1;  ///< the share of the stretch that this was, so that what went on beside it is known
  };
  void add(sample const& seen) { step_.push_back(seen); }
  /// All of a step's stretches have been added.
  void end_step();

  /// Of the computation; the link's own shares are not known here.
  [[nodiscard]] contention const& beside() const noexcept { return beside_; }
  /// How much of its time a stretch of computation lost by that.
  [[nodiscard]] double lost_us(link_use const& use) const noexcept {
    return (1 - beside_.compute_beside_out) * use.out_us + (1 - beside_.compute_beside_back) * use.back_us +
           (1 - beside_.compute_beside_both) * use.both_us;
  }
  /// What it would have taken without traffic.
  [[nodiscard]] double alone_us(sample const& of) const noexcept { return std::max(0.0, of.us - lost_us(of.beside)); }

 private:
  /// The last comparisons for one kind of traffic: what a microsecond of it costs.
  class comparisons {
   public:
    void add(double cost) noexcept {
      last_[next_] = cost;
      next_ = (next_ + 1) % last_.size();
      size_ = size_ < last_.size() ? size_ + 1 : size_;
    }
    /// The share of its speed that is left to the computation; 1 unless they agree on less.
    [[nodiscard]] double share();
    [[nodiscard]] bool enough() const noexcept { return size_ >= least; }

   private:
    static constexpr std::size_t least = 6;
    std::array<double, 48> last_{};
    std::size_t next_ = 0;
    std::size_t size_ = 0;
    bool believed_ = false;
  };
  struct quiet_time {
    double us = 0;  // 0: none yet
    link_use beside;
    void scale(double by) noexcept {
      us *= by;
      beside = beside.times(by);
    }
    void take_in(sample const& seen, double weight) noexcept {
      scale(1 - weight);
      us += weight * seen.us;
      beside.out_us += weight * seen.beside.out_us;
      beside.back_us += weight * seen.beside.back_us;
      beside.both_us += weight * seen.beside.both_us;
    }
  };
  [[nodiscard]] double drift();
  [[nodiscard]] quiet_time& quiet(sample const& seen);
  [[nodiscard]] quiet_time const* known(sample const& seen) const noexcept;
  void compare(sample const& seen);

  std::vector<sample> step_;
  std::vector<double> ratios_;  // of those with the same traffic as before; here, so that a warm step allocates nothing
  std::array<std::vector<quiet_time>, 2> quiet_;  // by pass, then by segment
  std::uint64_t steps_ = 0;
  comparisons out_;
  comparisons back_;
  comparisons both_;
  contention beside_;
};

}  // namespace ferry::decide
