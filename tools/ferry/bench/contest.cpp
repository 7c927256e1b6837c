#include "bench/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ferry::command {

contest_curve const* contest::find(std::string_view name) const {
  auto const found = std::ranges::find(curves, name, &contest_curve::name);
  return found == curves.end() ? nullptr : &*found;
}

std::vector<lost_point> contest::lost() const {
  constexpr double rounding = 1e-4;  // of nanoseconds, and of plans whose times are predicted
  std::vector<lost_point> found;
  auto const* const own = find("auto");
  if (own == nullptr) return found;
  for (auto const& other : curves) {
    if (&other == own) continue;
    for (std::size_t i = 0; i < std::min(own->points.size(), other.points.size()); ++i) {
      auto const& a = own->points[i];
      auto const& b = other.points[i];
      if (!a.measured || !b.fits || b.is_vague()) continue;
      double const ratio = a.fits ? a.step_us / b.step_us : std::numeric_limits<double>::infinity();
      bool const beyond_chance = !a.fits || is_slower(*this, a, b);
      if (beyond_chance && ratio > 1 + rounding) found.push_back({b.budget_bytes, other.name, ratio});
    }
  }
  return found;
}

std::vector<entrant_policy> ferry_policies(std::size_t segments) {
  entrant_policy every{"every=N", "every Nth segment's input stays, the rest is rebuilt; the best N", {}};
  for (std::size_t n = 2; n < segments && n <= 16; n *= 2) every.settings.push_back(fmt::format("every={}", n));
  std::vector<entrant_policy> all{
      {"keep", "everything stays", {"keep"}},
      {"recompute", "segments' inputs stay, the rest is rebuilt: checkpointing", {"recompute"}},
      {"sqrt", "every sqrt(L)th input stays", {"sqrt"}},
      {"selective", "what is dearest to rebuild per byte stays", {"selective"}},
      {"offload", "everything goes out and comes back in the order of need", {"offload"}}};
  if (!every.settings.empty()) all.insert(all.begin() + 2, std::move(every));
  return all;
}

bool is_slower(contest const& all, contest_point const& one, contest_point const& than) {
  constexpr double errors = 2;
  return one.step_us > than.step_us * (1 + std::max(all.noise, errors * std::hypot(one.error, than.error)));
}

contest_point better(contest_point a, contest_point b) {
  if (!b.fits) return a.measured || !b.measured ? a : b;
  if (!a.fits) return b;
  return b.step_us < a.step_us ? b : a;
}

std::vector<std::size_t> spread_budgets(std::size_t smallest, std::size_t largest, std::size_t count) {
  std::vector<std::size_t> budgets;
  largest = std::max(largest, smallest);
  auto const low = static_cast<double>(std::max<std::size_t>(smallest, 1));
  auto const high = static_cast<double>(std::max<std::size_t>(largest, 1));
  for (std::size_t i = 0; i < count; ++i) {
    double const share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 1;
    auto bytes = static_cast<std::size_t>(std::ceil(low * std::pow(high / low, share)));
    bytes = std::clamp(bytes, smallest, largest);
    if (budgets.empty() || bytes > budgets.back()) budgets.push_back(bytes);
  }
  return budgets;
}

}  // namespace ferry::command
