// A plan, and beside it those for a slower and a faster link.
//
// The speed of the link shows in a step's first chunks. If it is not the planned one, another plan of the set is gone
// on with in that very step: what is saved from then on is placed as that plan would have it. Threads: the session's
// only.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "follow/followed_plan.hpp"

namespace ferry::follow {

class plan_set {
 public:
  /// Of the link's speed that the set is made for: what a step is planned for beside it.
  static constexpr std::array link_factors{1.0, 0.71, 0.5, 0.35, 0.25, 1.41, 2.0};

  /// For one of the factors.
  struct choice {
    double factor = 1;
    followed_plan conducts;
  };

  plan_set() = default;
  explicit plan_set(plan only) { choices_.push_back({1, followed_plan(std::move(only))}); }
  /// The first one is for the link as it is.
  explicit plan_set(std::vector<choice> choices) : choices_(std::move(choices)) {}

  [[nodiscard]] bool empty() const noexcept { return choices_.empty(); }
  [[nodiscard]] followed_plan* at_hand() noexcept { return choices_.empty() ? nullptr : &choices_[chosen_].conducts; }
  [[nodiscard]] followed_plan const* at_hand() const noexcept {
    return choices_.empty() ? nullptr : &choices_[chosen_].conducts;
  }
  [[nodiscard]] double factor() const noexcept { return choices_[chosen_].factor; }

  /// Chooses the plan for a link that has `factor` times the speed; stays with the one at hand unless another is
  /// clearly better. True if it is another one now. Plans count on `derating` of their speed.
  bool choose(double factor, double derating) noexcept;

 private:
  std::vector<choice> choices_;
  std::size_t chosen_ = 0;
};

}  // namespace ferry::follow
