#include "follow/rivals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/parse.hpp"

namespace ferry::follow {

namespace {

/// The first step of another way to go on still has to do with what the last one left.
constexpr std::uint64_t steps_to_settle = 1;
constexpr std::size_t steps_measured = 2;
/// A plan has so many steps to show what it takes, and that nothing changes, before something else is tried.
constexpr std::size_t steps_of_a_plan = 9;
/// A gain that is worth a trial, of a step: for less the plan stays, which can change with the link.
constexpr double least_gain = 0.02;
/// How many times what steps differ by a gain must be.
constexpr double clear_of_noise = 2;
/// Steps on trial: so many among the first ones, and later that share of all.
constexpr std::uint64_t first_steps = 20;
constexpr double first_trials = 9;
constexpr double share_for_trials = 0.03;
constexpr std::size_t verdicts_kept = 16;

double ms(double us) { return 1e-3 * us; }

}  // namespace

double step_times::middle() const {
  auto sorted = last_;
  auto const size = std::min(count_, last_.size());
  auto const end = sorted.begin() + static_cast<std::ptrdiff_t>(size);
  std::sort(sorted.begin(), end);
  return size % 2 == 1 ? sorted[size / 2] : 0.5 * (sorted[size / 2 - 1] + sorted[size / 2]);
}

double step_times::noise() const {
  double const at = middle();
  step_times distances;
  for (std::size_t i = 0; i < std::min(count_, last_.size()); ++i) distances.add(std::abs(last_[i] - at));
  return at > 0 ? distances.middle() / at : 0;
}

void rivals::plans_are_new(std::vector<planning::policy_time> expected, double planned_us) {
  auto const before = std::exchange(all_, {});
  for (auto& one : expected) {
    auto const tried = std::ranges::find(before, one.how, &rival::how);
    double const off = tried != before.end() ? tried->off : 1;
    all_.push_back({std::move(one.how), one.step_us * off, off});
  }
  planned_us_ = planned_us;
  plan_.clear();
  other_.clear();
  acting_.reset();
  has_won_ = false;
  since_ = 0;
}

void rivals::give_up() noexcept {
  all_.clear();
  acting_.reset();
  has_won_ = false;
}

void rivals::note(std::uint64_t step, std::string words) {
  if (verdicts_.size() == verdicts_kept) verdicts_.erase(verdicts_.begin());
  verdicts_.push_back({step, std::move(words)});
}

void rivals::change_to(std::optional<policy_choice> other, std::uint64_t next) {
  acting_ = std::move(other);
  since_ = next;
  other_.clear();
}

bool rivals::step_took(std::uint64_t step, double us, std::uint64_t next, bool may_try) {
  ++steps_;
  if (on_trial()) ++trial_steps_;
  if (since_ == 0) since_ = step;
  if (step < since_ + steps_to_settle) return false;
  (acting_ ? other_ : plan_).add(us);
  return on_trial() ? judge(next) : may_try && consider(next);
}

/// The one that is expected to take the least, if that may be less than so much.
rivals::rival* rivals::worth_a_trial(double than_us) noexcept {
  rival* best = nullptr;
  for (auto& one : all_) {
    if (!one.tried && one.expected_us < than_us && (best == nullptr || one.expected_us < best->expected_us))
      best = &one;
  }
  return best;
}

bool rivals::consider(std::uint64_t next) {
  auto const& now = acting_ ? other_ : plan_;
  if (now.count() < (acting_ ? steps_measured : steps_of_a_plan)) return false;
  double const allowed = steps_ <= first_steps ? first_trials : share_for_trials * static_cast<double>(steps_);
  bool const may_try = static_cast<double>(trial_steps_ + steps_to_settle + steps_measured) <= allowed;
  if (!may_try) return false;
  double const gain = std::max(least_gain, clear_of_noise * now.noise());
  // As far as the model is off about the plan, it may be off about them.
  double const off = acting_ || planned_us_ <= 0 ? 0 : std::max(0.0, now.middle() / planned_us_ - 1);
  auto* const best = worth_a_trial((1 - gain) * (1 + off) * now.middle());
  if (best == nullptr) return false;
  best->tried = true;
  ++trials_;
  note(next, fmt::format("{} is tried: it is expected to take {:.3f} ms, {} takes {:.3f} ({:.3f} planned)",
                         support::write_policy(best->how), ms(best->expected_us),
                         acting_ ? support::write_policy(*acting_) : "the plan", ms(now.middle()), ms(planned_us_)));
  has_won_ = false;
  change_to(best->how, next);
  return true;
}

bool rivals::judge(std::uint64_t next) {
  if (other_.count() < steps_measured) return false;
  auto const tried = std::ranges::find(all_, *acting_, &rival::how);
  double const took_us = other_.middle();
  tried->off *= took_us / tried->expected_us;
  tried->expected_us = took_us;
  double const gain = std::max(least_gain, clear_of_noise * std::max(plan_.noise(), other_.noise()));
  // The best so far: the plan, or another one that was tried before.
  rival const* before = nullptr;
  for (auto const& one : all_) {
    if (one.tried && one.how != *acting_ && one.expected_us < plan_.middle() &&
        (before == nullptr || one.expected_us < before->expected_us)) {
      before = &one;
    }
  }
  double const best_us = before != nullptr ? before->expected_us : plan_.middle();
  auto const name = support::write_policy(*acting_);
  if (took_us < (1 - gain) * best_us) {
    note(next, fmt::format("{} stays: it took {:.3f} ms, {} {:.3f}", name, ms(took_us),
                           before != nullptr ? support::write_policy(before->how) : "the plan", ms(best_us)));
    has_won_ = true;
    return false;
  }
  note(next, fmt::format("{} goes: it took {:.3f} ms, {} {:.3f}", name, ms(took_us),
                         before != nullptr ? support::write_policy(before->how) : "the plan", ms(best_us)));
  has_won_ = before != nullptr;
  change_to(before != nullptr ? std::optional(before->how) : std::nullopt, next);
  return true;
}

}  // namespace ferry::follow
