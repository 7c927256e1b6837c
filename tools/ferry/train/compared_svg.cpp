// The comparison as a picture: a bar for each policy, a panel for each budget.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "common/svg.hpp"
#include "ferry/config.hpp"
#include "train/compared.hpp"

namespace ferry::command {

namespace {

constexpr double left = 92;
constexpr double bars_width = 430;
constexpr double width = 760;
constexpr double row_height = 22;
constexpr double head_height = 64;
constexpr double panel_head = 30;
constexpr double foot = 22;

/// Round numbers above everything there is.
double most_of(std::span<compared_budget const> all) {
  double most = 1;
  for (auto const& budget : all) {
    for (auto const& one : budget.rows) {
      if (!one.fits()) continue;
      auto const time = budget.time_of(one);
      most = std::max(most, time.middle + time.error.value_or(0));
    }
  }
  return std::ceil(most * 4) / 4;
}

std::string class_of(std::string_view policy) {
  return policy == "unlimited" ? std::string(policy) : series_class(series_of(policy));
}

void draw_bar(svg& on, compared_budget const& all, compared_row const& one, double y, double scale) {
  on.text({left - 8, y + 15}, one.policy, svg::anchor::end);
  if (!one.fits()) return on.text({left + 6, y + 15}, "does not fit", svg::anchor::start, "faint");
  auto const time = all.time_of(one);
  auto const words = fmt::format("{:.2f}x, {} on the device", time.middle, format_bytes(one.figures.peak_device_bytes));
  double const error = time.error.value_or(0) * scale;
  double const end = left + time.middle * scale;
  double const middle = y + row_height / 2;
  on.line({left, middle}, {end, middle}, class_of(one.policy) + " bar");
  if (&one != &all.reference() && error > 0.5) {
    on.line({end - error, middle}, {end + error, middle}, "error");
    for (double const x : {end - error, end + error}) on.line({x, middle - 3}, {x, middle + 3}, "error");
  }
  on.text({end + error + 8, y + 15}, words, svg::anchor::start, "faint");
}

}  // namespace

std::string svg_of(std::span<compared_budget const> all, std::string const& what) {
  double height = head_height + foot;
  for (auto const& one : all) height += panel_head + row_height * static_cast<double>(one.rows.size());
  svg on(width, height, "time of a step under each policy: " + what);
  on.text({16, 24}, "Time of a step, by policy and budget", svg::anchor::start, "strong");
  on.text({16, 42}, what, svg::anchor::start, "faint");
  double const most = most_of(all);
  double const scale = bars_width / most;
  double const step = most > 3 ? 1 : most > 1.5 ? 0.5 : 0.25;
  for (double at = 0; at <= most + 1e-9; at += step) {
    double const x = left + at * scale;
    on.line({x, head_height}, {x, height - foot}, "grid");
    on.text({x, height - 6}, fmt::format("{}x", at), svg::anchor::middle, "faint");
  }
  double y = head_height;
  for (auto const& budget : all) {
    on.text({16, y + 18},
            fmt::format("budget {} ({:.0f}% of keeping all)", format_bytes(budget.budget_bytes), 100 * budget.share()));
    y += panel_head;
    for (auto const& one : budget.rows) {
      draw_bar(on, budget, one, y, scale);
      y += row_height;
    }
  }
  return std::move(on).finish();
}

}  // namespace ferry::command
