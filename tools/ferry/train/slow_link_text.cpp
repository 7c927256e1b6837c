// What a slower link did, as a table, in a sentence and as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/paired_ratio.hpp"
#include "common/svg.hpp"
#include "common/table.hpp"
#include "slow_link.hpp"

namespace ferry::command {

namespace {

using amounts = std::vector<double>;

/// Steps with the fast link that count: not those in which a session learns and plans.
std::span<double const> before(link_drop const& all, amounts const& of) {
  return std::span(of).subspan(all.step / 2, all.step - all.step / 2);
}
/// Behind the first slow step, which shows how soon somebody finds out.
std::span<double const> after(link_drop const& all, amounts const& of) { return std::span(of).subspan(all.step + 1); }

double middle(std::span<double const> of) { return median({of.begin(), of.end()}); }
double mean(std::span<double const> of) {
  double sum = 0;
  for (double const one : of) sum += one;
  return sum / static_cast<double>(of.size());
}

drop_row const* find(link_drop const& all, std::string_view name) {
  auto const found = std::ranges::find(all.rows, name, &drop_row::name);
  return found == all.rows.end() ? nullptr : &*found;
}

/// "19.0% of the FLOPs instead of 5.1%".
std::string change_of(double to, double from) {
  return fmt::format("{:.1f}% instead of {:.1f}%", 100 * to, 100 * from);
}

}  // namespace

std::vector<double> times_over_reference(link_drop const& all, drop_row const& one) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < one.seconds.size(); ++i) ratios.push_back(one.seconds[i] / all.rows.front().seconds[i]);
  return ratios;
}

std::string table_of(link_drop const& all) {
  auto text =
      fmt::format("link {:.3g} GB/s each way, from step {} on {:.3g} GB/s; times are those of unlimited memory\n\n",
                  all.gbps, all.step + 1, all.slow_gbps);
  table made({{.width = 10, .at = table::side::left},
              {.width = 8},
              {.width = 11},
              {.width = 11},
              {.width = 6},
              {.width = 16},
              {.width = 18},
              {.width = 6}});
  made.row({"", "before", "first slow", "slow steps", "±", "recompute FLOPs", "waiting a step", "plans"});
  made.row({"", "", "step", "", "", "before -> after", "before -> after", "after"});
  for (auto const& one : std::span(all.rows).subspan(1)) {
    auto const times = times_over_reference(all, one);
    auto const slow = ratio_of(after(all, one.seconds), after(all, all.rows.front().seconds));
    made.row({one.name, fmt::format("{:.2f}x", middle(before(all, times))), fmt::format("{:.2f}x", times[all.step]),
              fmt::format("{:.2f}x", slow.middle),
              slow.error ? fmt::format("{:.1f}%", 100 * *slow.error / slow.middle) : "-",
              fmt::format("{:.1f}% -> {:.1f}%", 100 * mean(before(all, one.recompute_share)),
                          100 * mean(after(all, one.recompute_share))),
              fmt::format("{:.0f} -> {:.0f} ms", mean(before(all, one.waiting_us)) / 1000,
                          mean(after(all, one.waiting_us)) / 1000),
              fmt::format("{}", one.plans_after)});
  }
  return text + made.text();
}

std::string words_of(link_drop const& all) {
  auto const* const fixed = find(all, "static");
  auto const* const automatic = find(all, "auto");
  if (fixed == nullptr || automatic == nullptr) return {};
  auto const slow_time = [&](drop_row const& one) { return middle(after(all, times_over_reference(all, one))); };
  auto const gain = ratio_of(after(all, fixed->seconds), after(all, automatic->seconds));
  auto text = fmt::format(
      "With a third of the link the plan that stays takes {:.2f}x the time of unlimited memory and auto {:.2f}x: auto "
      "rebuilds {} of the FLOPs, after {} change{} of plan\n",
      slow_time(*fixed), slow_time(*automatic),
      change_of(mean(after(all, automatic->recompute_share)), mean(before(all, automatic->recompute_share))),
      automatic->plans_after, automatic->plans_after == 1 ? "" : "s");
  if (!gain.error) return text + "Too few steps to tell them apart: give --steps 16 or more\n";
  if (gain.scatters()) text += busy_machine;
  if (gain.clearly_above(1)) return text;
  return text + fmt::format("These steps prove no gain: the plan that stays took {:.1f}% of auto's time (±{:.1f}%)\n",
                            100 * gain.middle, 100 * *gain.error);
}

namespace {

constexpr double width = 760;
constexpr double height = 316;
constexpr double left = 52;
constexpr double right = width - 110;
constexpr double top = 76;
constexpr double bottom = height - 40;

std::string class_of(std::string_view name) { return series_class(series_of(name)) + (name == "auto" ? " thick" : ""); }

/// The first steps, in which plans are made, and single ones that something has interrupted, may go beyond.
double highest_shown(link_drop const& all) {
  constexpr double share_shown = 0.95;
  constexpr double room = 1.1;
  amounts shown;
  for (auto const& one : all.rows) {
    auto const times = times_over_reference(all, one);
    shown.insert(shown.end(), times.begin() + static_cast<std::ptrdiff_t>(all.step / 2), times.end());
  }
  std::ranges::sort(shown);
  return room * shown[static_cast<std::size_t>(share_shown * static_cast<double>(shown.size() - 1))];
}

}  // namespace

std::string svg_of(link_drop const& all, std::string const& what) {
  svg on(width, height, "times of steps while the link drops to a third: " + what);
  on.text({16, 24}, "Halfway the link drops to a third", svg::anchor::start, "strong");
  on.text({16, 42}, what + "; time of a step over that with unlimited memory", svg::anchor::start, "faint");
  double most = highest_shown(all);
  most = std::ceil(2 * most) / 2;
  auto const steps = static_cast<double>(std::max<std::size_t>(all.rows.front().seconds.size(), 2));
  auto const x_of = [&](double step) { return left + (right - left) * step / (steps - 1); };
  auto const y_of = [&](double ratio) { return bottom - (bottom - top) * ratio / most; };
  double const drop = x_of(static_cast<double>(all.step) - 0.5);
  on.rect(drop, top, right - drop, bottom - top, "lane");
  on.text({drop + 6, top - 8}, fmt::format("{:.2g} GB/s", all.slow_gbps), svg::anchor::start, "faint");
  on.text({drop - 6, top - 8}, fmt::format("{:.2g} GB/s", all.gbps), svg::anchor::end, "faint");
  for (double at = 0; at <= most + 1e-9; at += most > 4 ? 1 : 0.5) {
    on.line({left, y_of(at)}, {right, y_of(at)}, at == 0 ? "axis" : "grid");
    on.text({left - 6, y_of(at) + 4}, fmt::format("{}x", at), svg::anchor::end, "faint");
  }
  for (std::size_t i = 0; i<all.rows.front().seconds.size(); i += steps> 20 ? 4 : 1)
    on.text({x_of(static_cast<double>(i)), bottom + 16}, fmt::format("{}", i + 1), svg::anchor::middle, "faint");
  on.text({(left + right) / 2, height - 6}, "step", svg::anchor::middle, "faint");
  std::vector<svg::curve_end> ends;
  for (auto const& one : std::span(all.rows).subspan(1)) {
    auto const times = times_over_reference(all, one);
    std::vector<svg::point> through;
    for (std::size_t i = 0; i < times.size(); ++i)
      through.push_back({x_of(static_cast<double>(i)), y_of(std::min(times[i], most))});
    on.curve(through, class_of(one.name));
    ends.push_back({through.back().y, one.name, class_of(one.name)});
  }
  on.name_ends(right, top, std::move(ends));
  return std::move(on).finish();
}

}  // namespace ferry::command
