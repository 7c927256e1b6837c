#include "train/compared.hpp"

#include <algorithm>

namespace ferry::command {

std::size_t first_judged(std::size_t steps) noexcept {
  constexpr std::size_t learning_steps = 3;
  return steps <= learning_steps ? 0 : std::max(learning_steps, steps / 2);
}

std::span<double const> judged(std::vector<double> const& of_every_step) noexcept {
  return std::span(of_every_step).subspan(first_judged(of_every_step.size()));
}

namespace {

paired_ratio measured_ratio(compared_row const& one, compared_row const& other) {
  return ratio_of(judged(one.seconds), judged(other.seconds));
}

}  // namespace

double compared_budget::noise() const {
  double most = 0;
  for (auto const& one : rows) {
    if (one.fits()) most = std::max(most, 1 - measured_ratio(one, reference()).middle);
  }
  return most;
}

paired_ratio compared_budget::time_over(compared_row const& one, compared_row const& other) const {
  auto found = measured_ratio(one, other);
  if (found.error) found.error = std::max(*found.error, noise() * found.middle);
  return found;
}

double compared_budget::tokens_per_second(compared_row const& one) const {
  auto const seconds = judged(reference().seconds);
  return tokens_per_step / (median({seconds.begin(), seconds.end()}) * time_of(one).middle);
}

compared_row const* compared_budget::find(std::string_view policy) const {
  auto const found = std::ranges::find(rows, policy, &compared_row::policy);
  return found == rows.end() || !found->fits() ? nullptr : &*found;
}

compared_row const* compared_budget::fastest() const {
  compared_row const* best = nullptr;
  for (auto const& one : std::span(rows).subspan(1)) {
    if (!one.fits()) continue;
    if (best == nullptr || time_of(one).middle < time_of(*best).middle) best = &one;
  }
  return best;
}

compared_row const* compared_budget::recommended() const {
  auto const* const best = fastest();
  auto const* const automatic = find("auto");
  if (best == nullptr || automatic == nullptr) return best;
  return time_over(*automatic, *best).clearly_above(1) ? best : automatic;
}

}  // namespace ferry::command
