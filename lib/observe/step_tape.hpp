// The tape: what the trainer has asked of the session in the step at hand, and in the last one that went to its end, as
// far as it takes memory. With it the step can be rehearsed under another budget.
//
// A call is noted before anything is done about it, and marked once it is answered: so the last one of a step that
// broke off is there too. Warm, it allocates nothing. Threads: the session's only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "ferry/item.hpp"
#include "store/entry.hpp"

namespace ferry::observe {

/// One call of the trainer's, and what they did with its item right after it. There are several for each item of each
/// step, so it is small.
struct asked {
  enum class what : std::uint8_t {
    allocate,     // bytes, as slot
    allocate_at,  // the same in memory of the trainer's
    free,         // slot
    save,         // item, of slot
    adopt,        // item, in memory of the trainer's; its bytes as slot, in units
    end_lease,    // item
    restore,      // item
    release,      // item
    enter,        // pass `way` of segment and micro-batch
    leave,
  };
  struct place {
    std::uint32_t segment;
    std::uint32_t micro_batch;
  };

  static constexpr std::size_t unit_bytes = 256;

  what call = what::leave;
  bool answered = false;
  bool has_recipe : 1 = false;            // of `save` and `adopt`
  placement where : 2 = placement::keep;  // the same: as decided
  pass way : 1 = pass::forward;
  bool ended : 1 = false;     // then the item's lease has ended
  bool released : 1 = false;  // and then the item was released
  std::uint8_t stream = 0;    // place among the tape's streams
  std::uint32_t slot = 0;     // of a block; of `adopt`: units of memory
  union {
    std::size_t bytes = 0;
    store::entry* item;  // stays known for some steps
    place at;            // of `enter`
  };

  [[nodiscard]] static asked of_bytes(what call, std::size_t bytes) noexcept {
    asked made;
    made.call = call;
    made.bytes = bytes;
    return made;
  }
  [[nodiscard]] static asked of_slot(what call, std::uint32_t slot) noexcept {
    asked made;
    made.call = call;
    made.slot = slot;
    return made;
  }
  [[nodiscard]] static asked of_item(what call, store::entry& item, std::uint32_t slot = 0) noexcept {
    asked made = of_slot(call, slot);
    made.item = &item;
    return made;
  }
  [[nodiscard]] static asked adopting(store::entry& item, std::size_t bytes) noexcept {
    auto const units =
        std::min<std::size_t>((bytes + unit_bytes - 1) / unit_bytes, std::numeric_limits<std::uint32_t>::max());
    return of_item(what::adopt, item, static_cast<std::uint32_t>(units));
  }
  [[nodiscard]] std::size_t adopted_bytes() const noexcept { return slot * unit_bytes; }
  [[nodiscard]] static asked entering(pass way, place at) noexcept {
    asked made;
    made.call = what::enter;
    made.way = way;
    made.at = at;
    return made;
  }
};
static_assert(sizeof(asked) <= 16);

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

  void ended_lease(store::entry& item, stream_ref stream) noexcept {
    auto* const before = just_lent(item);
    if (before != nullptr && !before->ended && streams_[before->stream] == stream) {
      before->ended = true;
    } else {
      did(asked::of_item(asked::what::end_lease, item), stream);
    }
  }
  void released(store::entry& item) noexcept {
    auto* const before = just_lent(item);
    if (before != nullptr && before->ended && !before->released) {
      before->released = true;
    } else {
      did(asked::of_item(asked::what::release, item));
    }
  }

  /// Once a step: somebody is about to tell which budget is enough.
  [[nodiscard]] bool may_tell() noexcept { return running_ && !std::exchange(told_, true); }
  [[nodiscard]] taped_step const& now() const noexcept { return now_; }
  /// Without calls if no step has gone to its end.
  [[nodiscard]] taped_step const& last() const noexcept { return last_; }

 private:
  static constexpr std::size_t most_calls = std::size_t{1} << 20;

  /// The last call, if it gave a lease of the item.
  [[nodiscard]] asked* just_lent(store::entry const& item) noexcept {
    if (!running_ || now_.calls.empty()) return nullptr;
    auto& last = now_.calls.back();
    bool const lends =
        last.call == asked::what::save || last.call == asked::what::adopt || last.call == asked::what::restore;
    return lends && last.answered && last.item == &item ? &last : nullptr;
  }

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
