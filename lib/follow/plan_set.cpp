#include "follow/plan_set.hpp"

namespace ferry::follow {

namespace {

/// So much slower than what is planned with, or faster than what the next plan needs, before it is changed.
constexpr double hysteresis = 1.05;
/// A faster plan takes at most that, of what the plan at hand takes.
constexpr double worth_leaving = 0.97;

}  // namespace

bool plan_set::choose(double factor, double derating) noexcept {
  if (choices_.size() < 2) return false;
  auto const needs = [&](std::size_t i) { return choices_[i].factor * derating; };
  auto const bears = [&](std::size_t i) { return factor >= (i == chosen_ ? needs(i) / hysteresis : needs(i)); };
  std::size_t best = chosen_;
  bool found = bears(chosen_);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    // The fastest that the link bears; if it bears none, the slowest.
    bool const better = bears(i) ? !found || needs(i) > needs(best) : !found && needs(i) < needs(best);
    if (!better) continue;
    best = i;
    found = bears(i);
  }
  // What is planned for a slower link than there is does no harm: it must be worth leaving.
  auto const step_us = [&](std::size_t i) { return choices_[i].conducts.followed().step_us; };
  if (best != chosen_ && bears(chosen_) && step_us(best) > worth_leaving * step_us(chosen_)) return false;
  return std::exchange(chosen_, best) != best;
}

}  // namespace ferry::follow
