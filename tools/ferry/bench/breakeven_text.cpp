// Break-even figures as text, picture and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/breakeven.hpp"
#include "common/printable.hpp"
#include "common/svg.hpp"
#include "common/table.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

namespace {

std::string_view word_of(placement where) {
  switch (where) {
    case placement::keep:
      return "keep";
    case placement::offload:
      return "ferry";
    case placement::recompute:
      break;
  }
  return "recompute";
}

std::string words_of_advice(item_cost const& one) {
  bool const split = one.ferried_share > 0.01 && one.ferried_share < 0.99;
  if (!split) return std::string(word_of(one.advice));
  return fmt::format("ferry {:.0f}%, recompute the rest", 100 * one.ferried_share);
}

std::string table_text(break_even const& all) {
  table made({{.width = 10, .at = table::side::left},
              {.width = 6},
              {.width = 10},
              {.width = 10},
              {.width = 10},
              {.width = 12},
              {.width = 10},
              {.width = 12, .at = table::side::left, .gap = 2}});
  made.row({"item", "count", "bytes", "rebuild", "fetch", "break-even", "a MiB", "first choice"});
  for (auto const& one : all.table.items) {
    auto const even = one.even_gbps();
    made.row({printable(one.name), fmt::format("{}", one.count), format_bytes(one.bytes),
              one.rebuild_us ? words_of_time(*one.rebuild_us) : "-",
              std::isfinite(one.in_us) ? words_of_time(one.in_us) : "-", even ? fmt::format("{:.3g} GB/s", *even) : "-",
              std::isfinite(one.us_per_mib()) ? words_of_time(one.us_per_mib()) : "-", words_of_advice(one)});
  }
  auto text = made.text();
  text += fmt::format(
      "Keep from the top as far as memory goes: a MiB kept saves the time in its column. What is not kept is ferried\n"
      "from the top as far as the link is hidden ({} a step behind {} of forward and {} of backward); the rest is\n"
      "recomputed. Above its break-even a link brings an item back sooner than its recipe, even if it is waited for.\n",
      format_bytes(static_cast<std::size_t>(std::max(0.0, all.table.hidden_bytes))),
      words_of_time(all.table.forward_us), words_of_time(all.table.backward_us));
  return text;
}

/// Whether the dimension makes no difference, to what is shown of it.
bool is_the_same(std::vector<double> const& gbps) {
  auto const [least, most] = std::ranges::minmax(gbps);
  return gbps.size() > 1 && most - least <= 0.005 * most;
}

std::string sweep_text(break_even_sweep const& one) {
  if (std::ranges::all_of(one.gbps, is_the_same)) {
    return fmt::format("break-even in GB/s by {}: as above for {} to {}; bytes and times grow alike\n", one.axis,
                       one.values.front(), one.values.back());
  }
  std::vector<table::column> columns(1 + one.values.size(), {.width = 9, .gap = 0});
  columns.front() = {.width = 10, .at = table::side::left};
  table made(std::move(columns));
  std::vector<std::string> values{"item"};
  for (int const value : one.values) values.push_back(fmt::format("{}", value));
  made.row(std::move(values));
  std::vector<std::string> same;
  for (std::size_t i = 0; i < one.items.size(); ++i) {
    if (is_the_same(one.gbps[i])) {
      same.push_back(printable(one.items[i]));
      continue;
    }
    std::vector<std::string> cells{printable(one.items[i])};
    for (double const gbps : one.gbps[i]) cells.push_back(gbps > 0 ? fmt::format("{:.3g}", gbps) : "-");
    made.row(std::move(cells));
  }
  std::string const tail =
      same.empty() ? "" : fmt::format("as above for every {}: {}\n", one.axis, fmt::join(same, ", "));
  return fmt::format("break-even in GB/s by {}\n{}{}", one.axis, made.text(), tail);
}

std::string links_text(break_even const& all) {
  if (all.links.empty()) return {};
  if (std::ranges::none_of(all.links, &link_choice::fits)) {
    return fmt::format("no mix fits {}, whatever the link\n", format_bytes(all.budget_bytes));
  }
  std::string text = fmt::format("the best mix under {} by link\n{:>10} {:>10} {:>10} {:>12}\n",
                                 format_bytes(all.budget_bytes), "GB/s", "overhead", "ferried", "recomputed");
  for (auto const& one : all.links) {
    if (!one.fits) {
      text += fmt::format("{:>10.3g} {:>10}\n", one.out_gbps, "no plan");
      continue;
    }
    text += fmt::format("{:>10.3g} {:>9.2f}% {:>10} {:>12}{}\n", one.out_gbps, 100 * one.overhead,
                        format_bytes(one.ferried_bytes), words_of_time(one.rebuilt_us),
                        one.out_gbps == all.out_gbps ? "   this link" : "");
  }
  return text;
}

/// Curves that lie on each other, as one with all their names.
std::vector<std::pair<std::string, std::vector<double>>> distinct_curves(break_even_sweep const& sweep) {
  std::vector<std::pair<std::string, std::vector<double>>> curves;
  auto const same = [](std::vector<double> const& a, std::vector<double> const& b) {
    return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) <= 0.02 * std::max(x, y); });
  };
  for (std::size_t i = 0; i < sweep.items.size(); ++i) {
    auto const found = std::ranges::find_if(curves, [&](auto const& one) { return same(one.second, sweep.gbps[i]); });
    if (found == curves.end()) {
      curves.emplace_back(sweep.items[i], sweep.gbps[i]);
    } else {
      found->first += ", " + sweep.items[i];
    }
  }
  return curves;
}

/// Of the first of these names among all, so that an item has the same colour in each picture of a model.
std::size_t place_by_name(break_even_sweep const& sweep, std::string_view names) {
  auto const first = names.substr(0, names.find(", "));
  return static_cast<std::size_t>(std::ranges::count_if(sweep.items, [&](auto const& one) { return one < first; }));
}

}  // namespace

std::string text_of(break_even const& all) {
  std::string text =
      fmt::format("{}\nlink of {}: {:.3g} GB/s out, {:.3g} in; {}\n\n", printable(all.step),
                  printable(all.hardware_name), all.out_gbps, all.in_gbps,
                  all.measured ? "times measured on this machine" : "times by formula or from a file: predictions");
  if (!all.link_words.empty()) text.insert(text.size() - 1, all.link_words + "\n");
  text += table_text(all);
  for (auto const& one : all.sweeps) text.append(1, '\n').append(sweep_text(one));
  if (!all.not_measured.empty())
    text += fmt::format("\nbreak-even by {}: not measured\n", fmt::join(all.not_measured, ", by "));
  if (auto const links = links_text(all); !links.empty()) text.append(1, '\n').append(links);
  return text;
}

std::string svg_of(break_even const& all) {
  constexpr double width = 760;
  constexpr double height = 446;
  constexpr double left = 60;
  constexpr double right = 190;
  constexpr double top = 76;
  constexpr double bottom = 50;
  svg on(width, height, "break-even between moving and rebuilding");
  on.text({left, 22}, "Moving against rebuilding", svg::anchor::start, "strong");
  on.text({left, 40}, all.step, svg::anchor::start, "faint");
  if (all.sweeps.empty()) return std::move(on).finish();
  auto const& sweep = all.sweeps.front();
  double low = all.in_gbps;
  double high = all.in_gbps;
  for (auto const& row : sweep.gbps) {
    for (double const gbps : row) {
      if (gbps <= 0) continue;
      low = low > 0 ? std::min(low, gbps) : gbps;
      high = std::max(high, gbps);
    }
  }
  if (!(low > 0)) return std::move(on).finish();
  low = std::pow(10, std::floor(std::log10(low)));
  high = std::max(std::pow(10, std::ceil(std::log10(high))), low * 10);
  auto const y = [&](double gbps) {
    double const up = std::log(std::max(gbps, low) / low) / std::log(high / low);
    return height - bottom - up * (height - top - bottom);
  };
  std::size_t const steps = std::max<std::size_t>(sweep.values.size() - 1, 1);
  auto const x = [&](std::size_t i) {
    return left + (width - left - right) * static_cast<double>(i) / static_cast<double>(steps);
  };
  on.text({left, top - 12}, "link speed, GB/s, above which moving is quicker", svg::anchor::start, "faint");
  for (double at = low; at <= high * 1.001; at *= 10) {
    on.line({left, y(at)}, {width - right, y(at)}, "grid");
    on.text({left - 8, y(at) + 4}, fmt::format("{:g}", at), svg::anchor::end, "faint");
  }
  for (std::size_t i = 0; i < sweep.values.size(); ++i) {
    on.text({x(i), height - bottom + 18}, std::to_string(sweep.values[i]), svg::anchor::middle, "faint");
  }
  on.text({(left + width - right) / 2, height - 10}, sweep.axis, svg::anchor::middle, "faint");
  std::vector<svg::curve_end> ends;
  if (all.in_gbps > 0) {
    on.line({left, y(all.in_gbps)}, {width - right, y(all.in_gbps)}, "axis dashed");
    ends.push_back({y(all.in_gbps), fmt::format("this link: {:.3g}", all.in_gbps), "axis"});
  }
  for (auto const& [names, gbps] : distinct_curves(sweep)) {
    std::vector<svg::point> run;
    for (std::size_t k = 0; k < gbps.size(); ++k) {
      if (gbps[k] > 0) run.push_back({x(k), y(gbps[k])});
    }
    if (run.empty()) continue;
    auto const look = series_class(place_by_name(sweep, names));
    if (run.size() > 1) on.curve(run, look);
    ends.push_back({run.back().y, names, look});
  }
  on.name_ends(width - right, top, std::move(ends));
  return std::move(on).finish();
}

nlohmann::ordered_json json_of(break_even const& all) {
  auto items = nlohmann::ordered_json::array();
  for (auto const& one : all.table.items) {
    nlohmann::ordered_json row{{"name", one.name}, {"count", one.count}, {"bytes", one.bytes}};
    row["rebuild_us"] = one.rebuild_us ? nlohmann::ordered_json(*one.rebuild_us) : nullptr;
    row["out_us"] = std::isfinite(one.out_us) ? nlohmann::ordered_json(one.out_us) : nullptr;
    row["in_us"] = std::isfinite(one.in_us) ? nlohmann::ordered_json(one.in_us) : nullptr;
    auto const even = one.even_gbps();
    row["break_even_gbps"] = even ? nlohmann::ordered_json(*even) : nullptr;
    row["ferried_share"] = one.ferried_share;
    row["advice"] = word_of(one.advice);
    items.push_back(std::move(row));
  }
  auto sweeps = nlohmann::ordered_json::array();
  for (auto const& one : all.sweeps) {
    sweeps.push_back({{"axis", one.axis}, {"values", one.values}, {"items", one.items}, {"gbps", one.gbps}});
  }
  auto links = nlohmann::ordered_json::array();
  for (auto const& one : all.links) {
    links.push_back({{"out_gbps", one.out_gbps},
                     {"in_gbps", one.in_gbps},
                     {"fits", one.fits},
                     {"overhead", one.overhead},
                     {"ferried_bytes", one.ferried_bytes},
                     {"rebuilt_us", one.rebuilt_us}});
  }
  return {{"ferry_bench", 1},
          {"what", "breakeven"},
          {"not_measured", all.not_measured},
          {"profile", all.step},
          {"hardware", all.hardware_name},
          {"measured", all.measured},
          {"out_gbps", all.out_gbps},
          {"in_gbps", all.in_gbps},
          {"forward_us", all.table.forward_us},
          {"backward_us", all.table.backward_us},
          {"hidden_bytes", all.table.hidden_bytes},
          {"items", std::move(items)},
          {"sweeps", std::move(sweeps)},
          {"budget_bytes", all.budget_bytes},
          {"links", std::move(links)}};
}

}  // namespace ferry::command
