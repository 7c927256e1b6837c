#include "decide/contention_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace ferry::decide {

namespace {

/// Of a stretch's time: traffic that has changed by less is taken to be the same, and by more is worth a comparison.
constexpr double same_traffic = 0.05;
constexpr double more_traffic = 0.2;
/// Of the traffic that is compared: what of the other kinds may have changed beside it.
constexpr double pure = 0.1;
/// A stretch that mostly waited or rebuilt says little.
constexpr double least_certainty = 0.8;
/// Less than that is noise.
constexpr double least_cost = 0.02;
/// Segments whose traffic has stayed tell how the machine has changed, if there are so many.
constexpr std::size_t telling_segments = 4;
/// The first step is cold.
constexpr std::uint64_t cold_steps = 1;

double change(double now, double before) { return std::abs(now - before); }

double middle(std::vector<double>& values) {
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double contention_estimate::comparisons::share() {
  if (!enough()) return 1;
  auto sorted = last_;
  auto const end = sorted.begin() + static_cast<std::ptrdiff_t>(size_);
  std::sort(sorted.begin(), end);
  double const lower_quarter = sorted[size_ / 4];
  double const cost = sorted[size_ / 2];
  believed_ = cost >= least_cost && (believed_ || lower_quarter > 0);
  if (!believed_) return 1;
  return std::clamp(1 - cost, contention::least, 1.0);
}

contention_estimate::quiet_time& contention_estimate::quiet(sample const& seen) {
  auto& of_pass = quiet_[static_cast<std::size_t>(seen.which)];
  if (seen.segment >= of_pass.size()) of_pass.resize(seen.segment + 1);
  return of_pass[seen.segment];
}

contention_estimate::quiet_time const* contention_estimate::known(sample const& seen) const noexcept {
  auto const& of_pass = quiet_[static_cast<std::size_t>(seen.which)];
  return seen.segment < of_pass.size() && of_pass[seen.segment].us > 0 ? &of_pass[seen.segment] : nullptr;
}

/// How many times as long as before the computation takes where nothing else has changed.
double contention_estimate::drift() {
  ratios_.clear();
  for (auto const& seen : step_) {
    auto const* const before = known(seen);
    if (before == nullptr) continue;
    bool const same = change(seen.beside.out_us, before->beside.out_us) <= same_traffic * seen.us &&
                      change(seen.beside.back_us, before->beside.back_us) <= same_traffic * seen.us &&
                      change(seen.beside.both_us, before->beside.both_us) <= same_traffic * seen.us;
    if (same) ratios_.push_back(seen.us / before->us);
  }
  return ratios_.size() >= telling_segments ? middle(ratios_) : 1;
}

void contention_estimate::compare(sample const& seen) {
  auto const* const before = known(seen);
  if (before == nullptr || seen.certainty < least_certainty) return;
  double const out = seen.beside.out_us - before->beside.out_us;
  double const back = seen.beside.back_us - before->beside.back_us;
  double const both = seen.beside.both_us - before->beside.both_us;
  double const more_us = seen.us - before->us;
  auto const is_pure = [&](double kind, double other, double third) {
    return kind >= more_traffic * seen.us && std::abs(other) + std::abs(third) <= pure * kind;
  };
  if (is_pure(out, back, both)) out_.add(more_us / out);
  if (is_pure(back, out, both)) back_.add(more_us / back);
  // Both ways at once are seldom seen alone: what each way costs is taken off, where it is known.
  double const one_way = (1 - beside_.compute_beside_out) * out + (1 - beside_.compute_beside_back) * back;
  bool const known_beside = both >= more_traffic * seen.us && out_.enough() && back_.enough();
  if (is_pure(both, out, back)) {
    both_.add(more_us / both);
  } else if (known_beside) {
    both_.add((more_us - one_way) / both);
  }
}

void contention_estimate::end_step() {
  if (steps_++ >= cold_steps) {
    double const drifted = drift();
    for (auto& of_pass : quiet_) {
      for (auto& one : of_pass) one.scale(drifted);
    }
    for (auto const& seen : step_) compare(seen);
    for (auto const& seen : step_) {
      auto& least = quiet(seen);
      bool const quieter = seen.beside.sum_us() <= least.beside.sum_us() + same_traffic * seen.us;
      if (seen.us <= 0 || (least.us > 0 && !quieter)) continue;
      bool const as_quiet = least.us > 0 && least.beside.sum_us() <= seen.beside.sum_us() + same_traffic * seen.us;
      least.take_in(seen, as_quiet ? 1.0 / 3 : 1);
    }
    beside_.compute_beside_out = out_.share();
    beside_.compute_beside_back = back_.share();
    // Where it was never seen, the better is hoped: then plans let it be seen.
    double const hoped = std::min(beside_.compute_beside_out, beside_.compute_beside_back);
    beside_.compute_beside_both = both_.enough() ? both_.share() : hoped;
  }
  step_.clear();
}

}  // namespace ferry::decide
