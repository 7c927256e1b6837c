#include "bench/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/terminal.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// As a setting takes it, rounded up.
std::string whole_mib(std::size_t bytes) { return fmt::format("{}MiB", (bytes + mib - 1) / mib); }

/// One policy under one budget that got through its steps.
struct choice {
  contest_curve const* curve = nullptr;
  contest_point const* point = nullptr;

  explicit operator bool() const { return point != nullptr; }
  /// As FERRY_POLICY takes it.
  [[nodiscard]] std::string const& name() const { return point->knob.empty() ? curve->name : point->knob; }
};

bool counts(contest_point const& one) { return one.fits && !one.is_vague(); }

/// The fastest of Ferry's own curves but that one.
choice fastest(contest const& all, std::size_t index, contest_curve const* but = nullptr) {
  choice best;
  for (auto const& curve : all.curves) {
    if (&curve == but || curve.is_peer || !counts(curve.points[index])) continue;
    if (!best || curve.points[index].step_us < best.point->step_us) best = {&curve, &curve.points[index]};
  }
  return best;
}

/// `auto`, which adapts, unless another one is faster or it did not get through.
choice best_under(contest const& all, std::size_t index) {
  auto const best = fastest(all, index);
  auto const* const automatic = all.find("auto");
  if (!best || automatic == nullptr || !counts(automatic->points[index])) return best;
  return is_slower(all, automatic->points[index], *best.point) ? best : choice{automatic, &automatic->points[index]};
}

/// Under the smallest budget at which it costs little; else what costs least.
choice sweet_spot(contest const& all) {
  choice least;
  for (std::size_t i = 0; i < all.budgets.size(); ++i) {
    auto const here = best_under(all, i);
    if (!here) continue;
    if (here.point->step_us <= (1 + tolerable_overhead) * all.unlimited_us) return here;
    if (!least || here.point->step_us < least.point->step_us) least = here;
  }
  return least;
}

recommendation policy_of(contest const& all, choice const& chosen) {
  recommendation one{"FERRY_POLICY", chosen.name(), "no other policy fits that budget", std::nullopt};
  auto const index = static_cast<std::size_t>(chosen.point - chosen.curve->points.data());
  auto const next = fastest(all, index, chosen.curve);
  if (!next) return one;
  auto const* const automatic = all.find("auto");
  bool const beats_auto =
      chosen.curve != automatic && automatic != nullptr && counts(automatic->points[index]);  // which has been asked
  auto const& other = beats_auto ? automatic->points[index] : *next.point;
  auto const& name = beats_auto ? automatic->name : next.name();
  if (!is_slower(all, other, *chosen.point)) {
    one.why = fmt::format("no slower than {}, the fastest by hand, within what was measured", name);
    return one;
  }
  one.gain = 1 - chosen.point->step_us / other.step_us;
  one.why = fmt::format("a step is {:.1f}% shorter than with {}", 100 * *one.gain, name);
  return one;
}

void recommend_policy(contest const& all, std::vector<recommendation>& into) {
  if (all.interrupted || all.means_little()) return;
  auto const chosen = sweet_spot(all);
  if (!chosen || all.unlimited_us <= 0) return;
  auto const* const point = chosen.point;
  double const overhead = point->step_us / all.unlimited_us - 1;
  std::size_t const most = all.budgets.back();
  std::size_t const saved = most - std::min(most, point->budget_bytes);
  auto const time = fmt::format("{:.1f}% more time a step", 100 * std::max(0.0, overhead));
  into.push_back(
      {"FERRY_BUDGET", whole_mib(point->budget_bytes),
       saved > 0 ? fmt::format("{} less device memory than {}, for {}", format_bytes(saved), format_bytes(most), time)
                 : fmt::format("the largest that was tried, for {}: less costs more", time),
       std::nullopt});
  into.push_back(policy_of(all, chosen));
  if (point->host_peak_bytes > 0) {
    constexpr double spare = 1.1;
    auto const pinned = static_cast<std::size_t>(spare * static_cast<double>(point->host_peak_bytes));
    into.push_back(
        {"FERRY_HOST_BUDGET", whole_mib(pinned),
         fmt::format("pinned memory for the {} that leave at most, and a tenth", format_bytes(point->host_peak_bytes)),
         std::nullopt});
  }
}

void recommend_chunk(link_result const& link, config const& now, std::vector<recommendation>& into) {
  auto const good = link.good_chunk();
  if (!good) return;
  double const gain = link.gain_over(now.chunk_bytes);
  constexpr double worth_saying = 1.02;
  if (*good == now.chunk_bytes || gain < worth_saying) return;
  into.push_back({"FERRY_CHUNK_BYTES", fmt::format("{}KiB", *good >> 10),
                  fmt::format("the link carries {:.0f}% more than in chunks of {}", 100 * (gain - 1),
                              format_bytes(now.chunk_bytes)),
                  std::nullopt});
}

}  // namespace

std::vector<recommendation> recommend(contest const* policies, link_result const* link, config const& now) {
  std::vector<recommendation> all;
  if (policies != nullptr) recommend_policy(*policies, all);
  if (link != nullptr) recommend_chunk(*link, now, all);
  return all;
}

std::string words_of_advice(contest const& measured, std::vector<recommendation> const& all,
                            std::string const& for_what) {
  if (measured.interrupted) return {};
  auto const exports = all.empty() ? std::string() : exports_of(all, for_what);
  if (measured.means_little())
    return "No policy is recommended from figures that mean little: run it again when the machine is quiet\n" + exports;
  if (std::ranges::find(all, "FERRY_POLICY", &recommendation::variable) == all.end())
    return "No policy is recommended from figures that vary so much: give more --rounds\n" + exports;
  return exports;
}

std::string exports_of(std::vector<recommendation> const& all, std::string const& for_what) {
  if (all.empty()) return fmt::format("the settings as they are suit {}\n", for_what);
  std::string text = in(colour::faint, fmt::format("# for {}", for_what)) + "\n";
  std::size_t widest = 0;
  for (auto const& one : all) widest = std::max(widest, one.variable.size() + one.value.size() + 1);
  for (auto const& one : all) {
    text += in(colour::good, fmt::format("export {:<{}}", one.variable + "=" + one.value, widest)) +
            in(colour::faint, fmt::format("  # {}", one.why)) + "\n";
  }
  return text;
}

nlohmann::ordered_json json_of(std::vector<recommendation> const& all) {
  auto rows = nlohmann::ordered_json::array();
  for (auto const& one : all) {
    rows.push_back({{"variable", one.variable}, {"value", one.value}, {"why", one.why}});
    if (one.gain) rows.back()["gain"] = *one.gain;
  }
  return rows;
}

}  // namespace ferry::command
