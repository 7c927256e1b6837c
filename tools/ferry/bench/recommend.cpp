#include "bench/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/terminal.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// As a setting takes it, rounded up.
std::string whole_mib(std::size_t bytes) { return fmt::format("{}MiB", (bytes + mib - 1) / mib); }

/// The smallest budget at which it costs little; else the one that costs least.
contest_point const* sweet_spot(contest const& all, contest_curve const& curve) {
  contest_point const* best = nullptr;
  for (auto const& point : curve.points) {
    if (!point.fits) continue;
    if (point.step_us <= (1 + tolerable_overhead) * all.unlimited_us) return &point;
    if (best == nullptr || point.step_us < best->step_us) best = &point;
  }
  return best;
}

/// The best of Ferry's own curves but this one, under the same budget.
contest_point const* runner_up(contest const& all, contest_curve const& than, std::size_t index, std::string& name) {
  contest_point const* best = nullptr;
  for (auto const& curve : all.curves) {
    if (&curve == &than || curve.is_peer || !curve.points[index].fits) continue;
    if (best == nullptr || curve.points[index].step_us < best->step_us) {
      best = &curve.points[index];
      name = curve.points[index].knob.empty() ? curve.name : curve.points[index].knob;
    }
  }
  return best;
}

void recommend_policy(contest const& all, std::vector<recommendation>& into) {
  auto const* const curve = all.find("auto");
  auto const* const point = curve == nullptr ? nullptr : sweet_spot(all, *curve);
  if (point == nullptr || all.unlimited_us <= 0) return;
  auto const index = static_cast<std::size_t>(point - curve->points.data());
  double const overhead = point->step_us / all.unlimited_us - 1;
  std::size_t const kept = std::max(all.budgets.back(), point->budget_bytes);
  into.push_back(
      {"FERRY_BUDGET", whole_mib(point->budget_bytes),
       fmt::format("{} less device memory than {}, for {:.1f}% more time a step",
                   format_bytes(kept - point->budget_bytes), format_bytes(kept), 100 * std::max(0.0, overhead)),
       std::nullopt});
  std::string other;
  auto const* const next = runner_up(all, *curve, index, other);
  if (next == nullptr) {
    into.push_back({"FERRY_POLICY", "auto", "no other policy fits that budget", std::nullopt});
  } else {
    bool const behind = point->step_us > next->step_us * (1 + all.noise);
    double const gain = std::max(point->step_us, next->step_us) / std::min(point->step_us, next->step_us) - 1;
    into.push_back(
        {"FERRY_POLICY", behind ? other : "auto",
         fmt::format("a step is {:.1f}% shorter than with {}", 100 * gain / (1 + gain), behind ? "auto" : other),
         gain / (1 + gain)});
  }
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
