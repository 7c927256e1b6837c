// The tape: what the trainer has asked of the session in the step at hand, and in the last one that went to its end, as
// far as it takes memory. With it the step can be rehearsed under another budget.
//
// A call is noted before anything is done about it, and marked once it is answered: so the last one of a step that
// broke off is there too. Warm, it allocates nothing. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "ferry/item.hpp"
#include "store/entry.hpp"

namespace ferry::observe {

/// One call of the trainer's. There are several for each item of each step, so it is small.
struct asked {
  enum class what : std::uint8_t {
    allocate,     // bytes, as slot
    allocate_at,  // the same in memory of the trainer's
    free,         // slot
    save,         // item, of slot
    adopt,        // item, in memory of the trainer's: bytes
    end_lease,    // item
    restore,      // item
    release,      // item
    enter,        // pass `way` of segment and micro-batch
    leave,
  };

  what call = what::leave;
  bool answered = false;
  bool has_recipe = false;            // of `save` and `adopt`
  placement where = placement::keep;  // the same: as decided
  pass way = pass::forward;
  std::uint8_t stream = 0;       // place among the tape's streams
  std::uint32_t slot = 0;        // of a block; of `enter`: the micro-batch
  std::uint32_t segment = 0;     // of `enter`
  store::entry* item = nullptr;  // stays known for some steps
  std::size_t bytes = 0;
};
static_assert(sizeof(asked) <= 32);

/// The calls of a step.
struct taped_step {
  std::uint64_t number = 0;
  step_kind kind = step_kind::train;
  std::size_t held_before_bytes = 0;  // by blocks and leases, when it began
  std::vector<asked> calls;
};

class step_tape {
 public:
  static constexpr std::size_t most_streams = 8;  // further ones count as the last

  explicit step_tape(bool on) noexcept : on_(on) {}

  void begin_step(std::uint64_t number, step_kind kind, std::size_t held_bytes) noexcept {
    now_.number = number;
    now_.kind = kind;
    now_.held_before_bytes = held_bytes;
    now_.calls.clear();
    running_ = on_;
    told_ = false;
  }
  /// `whole`: it went to its end, and is what steps are like.
  void end_step(bool whole) noexcept {
    if (running_ && whole) std::swap(now_, last_);
    running_ = false;
  }

  /// Items not saved since that step are forgotten.
  void forget_before(std::uint64_t step) noexcept {
    if (last_.number < step) last_.calls.clear();
  }

  /// Gives the call's place on the tape.
  std::size_t note(asked call, stream_ref stream = {}) noexcept {
    if (!running_) return 0;
    try {
      if (stream) call.stream = place_of(stream);
      if (now_.calls.size() < most_calls)
        now_.calls.push_back(call);
      else
        running_ = false;  // no step that anybody would rehearse
    } catch (std::bad_alloc const&) {
      running_ = false;
    }
    return now_.calls.size() - 1;
  }
  void answered(std::size_t call) noexcept {
    if (running_) now_.calls[call].answered = true;
  }
  void answered_with(std::size_t call, std::uint32_t slot) noexcept {
    if (!running_) return;
    now_.calls[call].slot = slot;
    now_.calls[call].answered = true;
  }
  void saved(std::size_t call, placement where, bool has_recipe) noexcept {
    if (!running_) return;
    auto& one = now_.calls[call];
    one.where = where;
    one.has_recipe = has_recipe;
    one.answered = true;
  }
  /// A call that is over already.
  void did(asked call, stream_ref stream = {}) noexcept {
    call.answered = true;
    note(call, stream);
  }

  /// Once a step: somebody is about to tell which budget is enough.
  [[nodiscard]] bool may_tell() noexcept { return running_ && !std::exchange(told_, true); }
  [[nodiscard]] taped_step const& now() const noexcept { return now_; }
  /// Without calls if no step has gone to its end.
  [[nodiscard]] taped_step const& last() const noexcept { return last_; }

 private:
  static constexpr std::size_t most_calls = std::size_t{1} << 20;

  [[nodiscard]] std::uint8_t place_of(stream_ref stream) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i] == stream) return static_cast<std::uint8_t>(i);
    }
    if (streams_.size() < most_streams) streams_.push_back(stream);
    return static_cast<std::uint8_t>(streams_.size() - 1);
  }

  bool on_;
  bool running_ = false;
  bool told_ = false;
  taped_step now_;
  taped_step last_;
  std::vector<stream_ref> streams_;
};

}  // namespace ferry::observe
