// The plan in force, and the fetches that are due by it. Says what to do next; moves nothing.
//
// While a function of the trainer's decides, the plan waits. Within a step another plan of the set may be gone on with:
// then some items were placed by a plan that is no longer followed. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "follow/plan_set.hpp"
#include "store/entry.hpp"

namespace ferry::follow {

/// A fetch whose position the trainer has reached.
struct due_fetch {
  store::entry* item;
  store::event_handle position;
};

class plan_follower {
 public:
  /// These plans, from now on.
  void follow(plan_set plans);
  /// The same in the midst of a step, in that segment.
  void go_on_with(plan_set plans, pass which, std::uint32_t segment);
  /// The plans go, to come back perhaps.
  [[nodiscard]] plan_set give_up() noexcept;
  /// The plan waits, whichever that is, until `resume`; then it is followed as soon as it is taken up.
  void suspend() noexcept;
  void resume() noexcept { suspended_ = false; }
  void take_up() noexcept { current_ = suspended_ ? nullptr : plans_.at_hand(); }

  [[nodiscard]] bool is_active() const noexcept { return current_ != nullptr; }
  /// Also one that waits.
  [[nodiscard]] bool has_plan() const noexcept { return !plans_.empty(); }
  /// The plan that is followed, or waits; null if there is none.
  [[nodiscard]] plan const* at_hand() const noexcept {
    return plans_.empty() ? nullptr : &plans_.at_hand()->followed();
  }
  /// The plan that is followed; or null.
  [[nodiscard]] plan const* followed() const noexcept { return current_ != nullptr ? &current_->followed() : nullptr; }
  /// Null for an item that the plan does not know. Requires: there is one, which may wait.
  [[nodiscard]] followed_plan::planned_item const* find(item_key const& key) const {
    return plans_.at_hand()->find(key);
  }

  void begin_step() noexcept;
  /// The trainer enters a segment: what to do before it. Requires: active.
  [[nodiscard]] std::span<followed_plan::directive const> enter(pass which, item_key const& key) {
    return current_->enter(which, key);
  }

  /// The plan for a link of so many times the speed that the set was made for, before a step.
  void choose(double link_factor, double derating) noexcept;
  /// The same in the midst of a step. True if it goes on with another plan.
  [[nodiscard]] bool change_in_step(double link_factor, double derating) noexcept;
  /// The step was begun with another plan.
  [[nodiscard]] bool has_changed_in_step() const noexcept { return changed_in_step_; }

  /// How long the computation takes now, of what was planned for.
  void set_pace(double against_plan) noexcept { pace_ = against_plan; }
  /// From the segment at hand until backward of that one, by the plan's timeline and the pace of the last steps;
  /// nothing if that is over or unknown. Requires: active.
  [[nodiscard]] std::optional<double> until_backward_us(std::uint32_t segment) const;

  /// Fetches that are due and have not begun, in the plan's order.
  [[nodiscard]] std::vector<due_fetch>& due() noexcept { return due_; }
  [[nodiscard]] std::size_t due_bytes() const noexcept;

 private:
  plan_set plans_;
  followed_plan* current_ = nullptr;  // of the set; null without any, and while it waits
  bool suspended_ = false;
  bool changed_in_step_ = false;
  double pace_ = 1;
  std::vector<due_fetch> due_;
};

}  // namespace ferry::follow
