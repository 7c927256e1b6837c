// The contest as a table, a picture and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "bench/contest.hpp"
#include "common/printable.hpp"
#include "common/svg.hpp"
#include "common/table.hpp"
#include "common/terminal.hpp"

namespace ferry::command {

namespace {

double overhead(contest const& all, contest_point const& point) { return point.step_us / all.unlimited_us - 1; }

double share(contest const& all, std::size_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(all.keep_all_bytes, 1));
}

constexpr char const* not_measured = "not measured";

/// Below zero too: with less memory nothing is quicker, so it tells how far to trust the others.
std::string cell(contest const& all, contest_point const& point) {
  if (!point.measured) return not_measured;
  if (!point.fits) return point.failure.starts_with("takes") ? "slow" : "-";
  double const exact = 100 * overhead(all, point);
  constexpr double rounding = 0.005;
  double const percent = std::abs(exact) < rounding ? 0 : exact;
  double const size = std::abs(percent);
  return fmt::format("{:.{}f}%{}", percent, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, point.is_vague() ? "?" : "");
}

/// Budgets of which something was measured.
std::vector<std::size_t> measured_budgets(contest const& all) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < all.budgets.size(); ++i) {
    auto const measured = [i](contest_curve const& one) { return one.points[i].measured; };
    if (std::ranges::any_of(all.curves, measured)) places.push_back(i);
  }
  return places;
}

bool all_measured(contest const& all, std::vector<std::size_t> const& budgets) {
  return std::ranges::all_of(all.curves, [&](contest_curve const& one) {
    return std::ranges::all_of(budgets, [&](std::size_t i) { return one.points[i].measured; });
  });
}

table header_of(contest const& all, std::vector<std::size_t> const& budgets) {
  std::size_t const cell_width = all_measured(all, budgets) ? 10 : 14;
  std::vector<table::column> columns(1 + budgets.size(), {.width = cell_width, .gap = 0});
  columns.front() = {.width = 14, .at = table::side::left};
  std::vector<std::string> bytes{"budget"};
  std::vector<std::string> shares{"of all items"};
  for (std::size_t const i : budgets) {
    bytes.push_back(format_bytes(all.budgets[i]));
    shares.push_back(fmt::format("{:.1f}%", 100 * share(all, all.budgets[i])));
  }
  table made(std::move(columns));
  made.row(std::move(bytes));
  made.row(std::move(shares));
  return made;
}

/// The budgets that are not in the table.
std::string words_of_unmeasured(contest const& all, std::vector<std::size_t> const& measured) {
  std::string text;
  for (std::size_t i = 0; i < all.budgets.size(); ++i) {
    if (std::ranges::find(measured, i) != measured.end()) continue;
    text += (text.empty() ? "" : ", ") + format_bytes(all.budgets[i]);
  }
  return text.empty() ? text : fmt::format("budgets {}: {}\n", not_measured, text);
}

/// Marks that the table has.
std::string legend_of(contest const& all, std::vector<std::size_t> const& budgets) {
  std::string text = "step time above that with unlimited memory; - does not fit; slow: more than four times as long";
  auto const vague = [&](contest_curve const& one) {
    return std::ranges::any_of(budgets, [&](std::size_t i) { return one.points[i].fits && one.points[i].is_vague(); });
  };
  if (std::ranges::any_of(all.curves, vague))
    text += "\n? varies too much to say anything of it, or took too few rounds";
  return text + "\n";
}

constexpr double width = 860;
constexpr double left = 70;
constexpr double right = 230;
constexpr double top = 76;
constexpr double bottom = 60;
constexpr double height = 500;
constexpr double most_shown = 1.5;  // overhead, above which curves leave the picture

/// Budgets on a logarithmic scale, overhead on one that spreads the low end.
class plane {
 public:
  explicit plane(contest const& all)
      : all_(all),
        low_(std::log(static_cast<double>(all.budgets.front()))),
        high_(std::log(static_cast<double>(all.budgets.back()))) {
    for (auto const& curve : all.curves) {
      for (auto const& point : curve.points) {
        if (point.fits) most_ = std::max(most_, std::min(overhead(all, point), most_shown));
      }
    }
  }

  [[nodiscard]] double x(std::size_t bytes) const {
    double const span = std::max(high_ - low_, 1e-9);
    return left + (width - left - right) * (std::log(static_cast<double>(bytes)) - low_) / span;
  }
  [[nodiscard]] double y(double value) const {
    double const up = std::sqrt(std::clamp(value, 0.0, most_) / most_);
    return height - bottom - up * (height - top - bottom);
  }
  [[nodiscard]] double most() const noexcept { return most_; }

  void draw_axes(svg& on) const {
    using anchor = svg::anchor;
    for (double const at : {0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5}) {
      if (at > most_) break;
      on.line({left, y(at)}, {width - right, y(at)}, "grid");
      on.text({left - 8, y(at) + 4}, fmt::format("{:g}%", 100 * at), anchor::end, "faint");
    }
    std::size_t const every = std::max<std::size_t>(1, (all_.budgets.size() + 5) / 6);
    for (std::size_t i = 0; i < all_.budgets.size(); i += every) {
      double const at = x(all_.budgets[i]);
      on.line({at, top}, {at, height - bottom}, "grid");
      on.text({at, height - bottom + 18}, format_bytes(all_.budgets[i]), anchor::middle, "faint");
      on.text({at, height - bottom + 33}, fmt::format("{:.0f}%", 100 * share(all_, all_.budgets[i])), anchor::middle,
              "faint");
    }
    on.line({left, height - bottom}, {width - right, height - bottom}, "axis");
    on.text({(left + width - right) / 2, height - 8}, "device bytes for activations, and their share of all items",
            anchor::middle, "faint");
    on.text({left, top - 10}, "step time above that with unlimited memory", anchor::start, "faint");
  }

 private:
  contest const& all_;
  double low_;
  double high_;
  double most_ = 0.05;
};

void draw_curve(svg& on, plane const& in, contest const& all, std::size_t index) {
  auto const& curve = all.curves[index];
  auto const look = series_class(series_of(curve.name));
  std::string const style = look + (curve.name == "auto" ? " thick" : curve.is_peer ? " dashed" : "");
  std::vector<svg::point> run;
  auto const end_run = [&] {
    if (run.size() > 1) on.curve(run, style);
    run.clear();
  };
  for (auto const& point : curve.points) {
    if (!point.fits || overhead(all, point) > most_shown) {
      end_run();
      continue;
    }
    run.push_back({in.x(point.budget_bytes), in.y(overhead(all, point))});
  }
  end_run();
  for (auto const& point : curve.points) {
    if (!point.fits || overhead(all, point) > most_shown) continue;
    on.dot({in.x(point.budget_bytes), in.y(overhead(all, point))}, curve.name == "auto" ? 4 : 2.5, look,
           fmt::format("{}{}{}: {} at {}, peak {}", curve.name, point.knob.empty() ? "" : ", ", point.knob,
                       cell(all, point), format_bytes(point.budget_bytes), format_bytes(point.peak_bytes)));
  }
  double const legend = top + 14 + 24 * static_cast<double>(index);
  double const at = width - right + 24;
  std::vector<svg::point> const sample{{at, legend}, {at + 26, legend}};
  on.curve(sample, style);
  on.text({at + 34, legend + 4}, curve.name);
}

}  // namespace

std::string table_of(contest const& all) {
  auto const budgets = measured_budgets(all);
  std::string text;
  if (!budgets.empty()) {
    auto made = header_of(all, budgets);
    bool peers_begun = false;
    for (auto const& curve : all.curves) {
      if (curve.is_peer && !std::exchange(peers_begun, true)) made.heading("what others do");
      std::vector<std::string> cells{curve.name};
      for (std::size_t const i : budgets) cells.push_back(cell(all, curve.points[i]));
      made.row(std::move(cells), curve.name == "auto" ? std::optional(colour::strong) : std::nullopt);
    }
    text = made.text() + "\n";
  }
  text += words_of_unmeasured(all, budgets);
  if (budgets.empty()) return text;
  text += legend_of(all, budgets);
  for (auto const& curve : all.curves) text += fmt::format("{:<14}{}\n", curve.name, curve.words);
  return text;
}

std::string svg_of(contest const& all) {
  svg on(width, height, fmt::format("step time over device bytes: {}", all.step));
  if (all.budgets.empty() || all.curves.empty()) return std::move(on).finish();
  on.text({left, 22}, "Step time over device bytes", svg::anchor::start, "strong");
  on.text({left, 40}, all.step, svg::anchor::start, "faint");
  plane const in(all);
  in.draw_axes(on);
  for (std::size_t i = all.curves.size(); i-- > 0;) draw_curve(on, in, all, i);  // `auto` is on top
  return std::move(on).finish();
}

nlohmann::ordered_json json_of(contest const& all) {
  auto curves = nlohmann::ordered_json::array();
  for (auto const& curve : all.curves) {
    auto points = nlohmann::ordered_json::array();
    for (auto const& point : curve.points) {
      nlohmann::ordered_json row{{"budget_bytes", point.budget_bytes}, {"fits", point.fits}};
      if (!point.fits) {
        row["failure"] = point.measured ? point.failure : not_measured;
        points.push_back(std::move(row));
        continue;
      }
      row["peak_bytes"] = point.peak_bytes;
      row["host_peak_bytes"] = point.host_peak_bytes;
      row["step_us"] = point.step_us;
      row["overhead"] = overhead(all, point);
      if (point.error > 0 && std::isfinite(point.error)) row["error"] = point.error;
      row["recompute_us"] = point.recompute_us;
      row["waiting_us"] = point.waiting_us;
      row["offloaded_bytes"] = point.offloaded_bytes;
      row["fetched_bytes"] = point.fetched_bytes;
      if (!point.knob.empty()) row["knob"] = point.knob;
      points.push_back(std::move(row));
    }
    curves.push_back({{"name", curve.name},
                      {"kind", curve.is_peer ? "peer" : "ferry"},
                      {"words", curve.words},
                      {"points", std::move(points)}});
  }
  auto lost = nlohmann::ordered_json::array();
  for (auto const& one : all.lost()) {
    lost.push_back({{"budget_bytes", one.budget_bytes}, {"by", one.by}, {"ratio", one.ratio}});
  }
  return {{"ferry_bench", 1},
          {"what", "policies"},
          {"device", all.device},
          {"profile", all.step},
          {"hardware", all.hardware},
          {"keep_all_bytes", all.keep_all_bytes},
          {"unlimited_us", all.unlimited_us},
          {"noise", all.noise},
          {"budgets_bytes", all.budgets},
          {"curves", std::move(curves)},
          {"dominated", std::move(lost)},
          {"interrupted", all.interrupted}};
}

}  // namespace ferry::command
