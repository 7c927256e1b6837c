// The step clock: how far the device is in the step, and how long what lies before it will take.
//
// Whenever the trainer enters a segment its stream is marked. The time between two marks, less what recipes took, what
// the stream stood still and what traffic beside it cost, is the segment's own; the last few steps' times are
// remembered for each segment. So at any moment one can tell about when the work enqueued so far will be done: whatever
// arrives before then costs nothing.
// Threads: the session's only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decide/contention_estimate.hpp"
#include "decide/traffic.hpp"
#include "ferry/item.hpp"
#include "store/event_pool.hpp"
#include "support/recent.hpp"

namespace ferry::decide {

class step_clock {
 public:
  /// From one mark to the next.
  struct stretch {
    pass which{};
    std::uint32_t micro_batch = 0;
    std::uint32_t segment = 0;
    store::event_handle from;
    double still_us = 0;             ///< the stream waited for a transfer
    double recipes_us = 0;           ///< taken by recipes that ran in it
    double expected_recipes_us = 0;  ///< the same before it is known
    std::uint32_t calls = 0;         ///< saves and restores
  };
  /// Names a stretch of this step or of the one before.
  using stretch_id = std::uint64_t;

  explicit step_clock(device& on) : device_(on) {}

  void begin_step();
  void end_step(store::event_pool& events);
  void entered(pass which, item_key const& key, stream_ref stream, store::event_pool& events);
  /// The trainer is where it was when a segment was last entered.
  [[nodiscard]] bool is_in(pass which, item_key const& key) const noexcept {
    if (now_.stretches.empty()) return false;
    auto const& at = now_.stretches.back();
    return at.which == which && at.segment == key.segment && at.micro_batch == key.micro_batch;
  }
  /// The trainer says where it is: in the segment entered last, until it says otherwise or the step ends.
  void declare(bool on) noexcept { declared_ = on; }
  [[nodiscard]] bool is_declared() const noexcept { return declared_; }
  /// Where the stretch so many before the one at hand began, for a host that is to be no further ahead; empty if there
  /// is none, or if its failure has been reported.
  [[nodiscard]] store::event_handle mark_before(unsigned stretches) const;
  /// A failure of this step's work so far has been reported.
  void failure_reported() noexcept { first_unreported_ = now_.stretches.size(); }
  void called() noexcept {
    if (!now_.stretches.empty()) ++now_.stretches.back().calls;
  }
  void will_take(double recipe_us) noexcept {
    if (!now_.stretches.empty()) now_.stretches.back().expected_recipes_us += recipe_us;
  }

  [[nodiscard]] bool knows_a_stretch() const noexcept { return !now_.stretches.empty(); }
  /// The stretch at hand.
  [[nodiscard]] stretch_id here() const noexcept { return now_.first + now_.stretches.size() - 1; }
  void stood_still(stretch_id in, double us) noexcept;
  void recipe_took(stretch_id in, double us) noexcept;

  /// Bytes were under way, on the device's clock.
  void moved(copy_direction direction, std::chrono::nanoseconds since, std::chrono::nanoseconds until) {
    traffic_.moved(direction, since, until);
  }
  /// What traffic has cost the computation beside it.
  [[nodiscard]] contention const& beside() const noexcept { return contention_.beside(); }

  /// There is a step before to learn from, and it is over.
  [[nodiscard]] bool can_learn() const { return !learnt_ && device_.query(before_.end.ref()) != event_status::pending; }
  /// Learns from the step before, if it can. False also if that one failed. Requires: everything timed in it has been
  /// taken in.
  bool learn();
  /// Steps are counted from 1. The one that has begun last, and the last one that was learnt from.
  [[nodiscard]] std::uint64_t this_step() const noexcept { return now_.number; }
  [[nodiscard]] std::uint64_t learnt_step() const noexcept { return learnt_step_; }
  /// Of the last step that was learnt from, from its first mark to its last, per micro-batch.
  [[nodiscard]] double step_us() const noexcept { return step_us_; }
  [[nodiscard]] std::optional<double> own_us(pass which, std::uint32_t segment) const;
  /// Of the time that recipes took when they last ran in this segment, what they would have taken without traffic.
  [[nodiscard]] double recipes_own_share(pass which, std::uint32_t segment) const;

  /// About how long the device has yet to do with what has been enqueued; 0 if nothing is known of it.
  [[nodiscard]] double busy_us();

  /// Of this step, until the next `begin_step`.
  [[nodiscard]] std::span<stretch const> stretches() const noexcept { return now_.stretches; }
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] bool over() const;
  /// Until the work of the step that has ended is over.
  void wait_until_over();
  /// Of a stretch, the segment's own. Requires: the step is over, and what was timed in it has been taken in.
  [[nodiscard]] double own_us(std::size_t index) const;
  /// Where the link is in use, notes how far the device is: the more often, the better it is known when the step began,
  /// and so what went on beside the traffic.
  void follow_traffic() {
    if (traffic_.any()) look_how_far();
  }

 private:
  struct one_step {
    std::uint64_t number = 0;
    stretch_id first = 1;
    std::vector<stretch> stretches;
    store::event_handle end;
    /// When the first mark passed, at the latest; nothing if nobody has looked.
    std::optional<std::chrono::nanoseconds> began;
  };
  struct segment_times {
    support::recent_values busy_us;  // with what traffic cost
    std::uint32_t calls = 0;
    // The same with the traffic, in any order, since there is any; and how many there ever were.
    std::uint32_t samples = 0;
    std::array<contention_estimate::sample, 3> last{};
    link_use beside_recipes;  // a microsecond, when recipes last ran in it
  };
  [[nodiscard]] double lasted_us(one_step const& in, std::size_t index) const;
  void look_how_far();
  [[nodiscard]] contention_estimate::sample computed(one_step const& in, std::size_t index, double from_us,
                                                     double lasted_us) const;
  [[nodiscard]] bool tells_of_traffic() const noexcept;
  void remember(stretch const& s, contention_estimate::sample const& seen);
  [[nodiscard]] stretch* find(stretch_id id) noexcept;
  [[nodiscard]] segment_times const* known(stretch const& s) const noexcept;
  [[nodiscard]] double expected_us(std::size_t index) const;

  device& device_;
  one_step now_;
  one_step before_;
  bool learnt_ = true;  // nothing to learn from `before_`
  stream_ref stream_;
  double step_us_ = 0;
  std::uint64_t learnt_step_ = 0;
  std::array<std::vector<segment_times>, 2> times_;  // by pass, then by segment
  std::size_t reached_ = 0;                          // the last mark that has passed, if any has
  double until_reached_us_ = 0;                      // from the first mark
  bool declared_ = false;
  std::size_t first_unreported_ = 0;  // stretch: failures before it have been reported
  traffic traffic_;
  contention_estimate contention_;
};

}  // namespace ferry::decide
