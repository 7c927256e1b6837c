#include "report/page_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/svg.hpp"
#include "report/advice.hpp"
#include "report/page_items.hpp"
#include "report/page_lanes.hpp"
#include "report/page_number.hpp"

namespace ferry::command {

namespace {

using json = nlohmann::ordered_json;

json json_of(by_tier const& values) {
  json row = json::array();
  for (double const one : values) row.push_back(short_number(one));
  return row;
}

/// The colour of a policy or another system, as the palette names it.
std::string ink_of(std::string_view system) {
  return system == "unlimited" ? "dropped" : fmt::format("s{}", series_of(system));
}

/// The mean of what is known.
double mean_of(std::vector<step_row> const& rows, std::size_t from, std::size_t to, double step_row::*column) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = from; i < to; ++i) {
    if (!is_known(rows[i].*column)) continue;
    sum += rows[i].*column;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : unknown;
}

template <typename Value>
double most_of(std::size_t from, std::size_t to, Value value) {
  double most = unknown;
  for (std::size_t i = from; i < to; ++i) {
    double const one = value(i);
    if (is_known(one) && !(most >= one)) most = one;
  }
  return most;
}

/// Columns; of many steps, several together: means, and the most of times and peaks.
json steps_json(std::vector<step_row> const& rows, std::size_t limit) {
  std::size_t const together = std::max<std::size_t>(1, (rows.size() + limit - 1) / std::max<std::size_t>(limit, 1));
  json columns = json::object();
  for (auto const& column : step_columns) {
    bool const known = std::ranges::any_of(rows, [&](step_row const& row) { return is_known(row.*column.value); });
    if (!known) continue;
    json values = json::array();
    for (std::size_t i = 0; i < rows.size(); i += together) {
      std::size_t const end = std::min(rows.size(), i + together);
      bool const number = column.value == &step_row::number;
      values.push_back(short_number(number ? rows[i].number : mean_of(rows, i, end, column.value)));
    }
    columns[std::string(column.name)] = std::move(values);
  }
  json worst = json::array();
  json peaks = json::array();
  for (std::size_t tier = 0; tier < tier_kinds; ++tier) {
    json values = json::array();
    for (std::size_t i = 0; i < rows.size(); i += together) {
      std::size_t const end = std::min(rows.size(), i + together);
      values.push_back(short_number(most_of(i, end, [&](std::size_t at) { return rows[at].peak_bytes[tier]; })));
    }
    peaks.push_back(std::move(values));
  }
  for (std::size_t i = 0; together > 1 && i < rows.size(); i += together) {
    std::size_t const end = std::min(rows.size(), i + together);
    worst.push_back(short_number(most_of(
        i, end, [&](std::size_t at) { return is_known(rows[at].step_us) ? rows[at].step_us : rows[at].wall_us; })));
  }
  json all{
      {"count", rows.size()}, {"together", together}, {"columns", std::move(columns)}, {"peaks", std::move(peaks)}};
  if (together > 1) all["worst_us"] = std::move(worst);
  return all;
}

json curve_json(byte_curve const& curve, std::size_t limit) {
  std::size_t const parts = curve.most.size();
  std::size_t const together = std::max<std::size_t>(1, (parts + limit - 1) / std::max<std::size_t>(limit, 1));
  json least = json::array();
  json most = json::array();
  double last = 0;
  for (std::size_t i = 0; i < parts; i += together) {
    std::size_t const end = std::min(parts, i + together);
    double const top = most_of(i, end, [&](std::size_t at) { return curve.most[at]; });
    double const bottom = -most_of(i, end, [&](std::size_t at) { return -curve.least[at]; });
    // Where nothing changed, the value is what it was.
    most.push_back(short_number(is_known(top) ? top : last));
    least.push_back(short_number(is_known(bottom) ? bottom : last));
    for (std::size_t at = i; at < end; ++at) {
      if (is_known(curve.least[at])) last = curve.least[at];
    }
  }
  return {{"part_us", curve.part_us * static_cast<double>(together)},
          {"least", std::move(least)},
          {"most", std::move(most)}};
}

json advice_json(run const& of) {
  constexpr std::array<char const*, 3> words{"good", "hint", "costly"};
  json rows = json::array();
  for (auto const& one : advise(of)) {
    rows.push_back({{"how", words[static_cast<std::size_t>(one.how)]},
                    {"seen", one.seen},
                    {"remedy", one.remedy},
                    {"variable", one.variable}});
  }
  return rows;
}

json settings_json(run const& of) {
  json rows = json::array();
  for (auto const& one : of.settings) {
    rows.push_back(
        {{"variable", one.variable}, {"value", one.value}, {"given", one.given}, {"no_effect", one.no_effect}});
  }
  return rows;
}

void add_trace(json& to, run const& of, label_book& labels, page_limits const& limits) {
  auto const& trace = *of.trace;
  json curves = json::array();
  for (auto const& one : trace.curves) curves.push_back(curve_json(one, limits.curve_parts / tier_kinds));
  to["curves"] = std::move(curves);
  to["end_us"] = short_number(trace.end_us);
  to["lanes"] = trace.lanes;
  to["traced_of"] = trace.all_steps;
  to["traced"] = traced_json(of, labels, limits);
}

json run_json(run const& of, page_limits const& limits) {
  auto const sums = sums_of(of);
  json value{{"label", of.label},
             {"title", of.title},
             {"policy", of.policy},
             {"ink", ink_of(of.policy)},
             {"files", of.files},
             {"notes", of.notes},
             {"limits", json_of(of.limit_bytes)},
             {"peaks", json_of(of.peak_bytes)},
             {"averages", json_of(of.average_bytes)},
             {"keep_all_bytes", short_number(of.keep_all_bytes)},
             {"unlimited_us", short_number(of.unlimited_us)},
             {"sums",
              {{"median_us", short_number(sums.median_us)},
               {"recompute_share", short_number(sums.recompute_share)},
               {"arrival_share", short_number(sums.arrival_share)},
               {"bytes_share", short_number(sums.bytes_share)}}},
             {"steps", steps_json(of.steps, limits.steps)},
             {"advice", advice_json(of)},
             {"settings", settings_json(of)}};
  json facts = json::array();
  for (auto const& [name, words] : of.facts) facts.push_back({name, words});
  value["facts"] = std::move(facts);
  json reasons = json::array();
  for (auto const& [name, count] : of.reasons) reasons.push_back({name, short_number(count)});
  value["reasons"] = std::move(reasons);
  label_book labels;
  value["items"] = items_json(of, labels, limits.items);
  if (of.trace) add_trace(value, of, labels, limits);
  value["labels"] = labels.texts();
  return value;
}

json json_of(policy_comparison const& one) {
  json rows = json::array();
  for (auto const& row : one.rows) {
    rows.push_back({{"policy", row.policy},
                    {"ink", ink_of(row.policy)},
                    {"fits", row.fits},
                    {"failure", row.failure},
                    {"peak_device_bytes", short_number(row.peak_device_bytes)},
                    {"peak_pinned_bytes", short_number(row.peak_pinned_bytes)},
                    {"relative_time", short_number(row.relative_time)},
                    {"recompute_share", short_number(row.recompute_share)},
                    {"waiting_us", short_number(row.waiting_us)},
                    {"tokens_per_second", short_number(row.tokens_per_second)},
                    {"final_loss", short_number(row.final_loss)},
                    {"identical", row.identical}});
  }
  return {{"label", one.label},
          {"budget_bytes", short_number(one.budget_bytes)},
          {"keep_all_bytes", short_number(one.keep_all_bytes)},
          {"rows", std::move(rows)}};
}

json json_of(bench_point const& point) {
  json value{{"budget_bytes", short_number(point.budget_bytes)}, {"fits", point.fits}};
  if (!point.fits) {
    value["failure"] = point.failure;
    return value;
  }
  value.update({{"peak_bytes", short_number(point.peak_bytes)},
                {"host_peak_bytes", short_number(point.host_peak_bytes)},
                {"step_us", short_number(point.step_us)},
                {"overhead", short_number(point.overhead)},
                {"recompute_us", short_number(point.recompute_us)},
                {"waiting_us", short_number(point.waiting_us)},
                {"offloaded_bytes", short_number(point.offloaded_bytes)},
                {"knob", point.knob}});
  return value;
}

json json_of(policy_bench const& one) {
  json curves = json::array();
  for (auto const& curve : one.curves) {
    json points = json::array();
    for (auto const& point : curve.points) points.push_back(json_of(point));
    curves.push_back({{"name", curve.name},
                      {"ink", ink_of(curve.name)},
                      {"kind", curve.kind},
                      {"words", curve.words},
                      {"points", std::move(points)}});
  }
  json dominated = json::array();
  for (auto const& row : one.dominated) {
    dominated.push_back(
        {{"budget_bytes", short_number(row.budget_bytes)}, {"by", row.by}, {"ratio", short_number(row.ratio)}});
  }
  json recommended = json::array();
  for (auto const& row : one.recommended) {
    recommended.push_back({{"variable", row.variable}, {"value", row.value}, {"why", row.why}});
  }
  return {{"label", one.label},
          {"device", one.device},
          {"profile", one.profile},
          {"hardware", one.hardware},
          {"keep_all_bytes", short_number(one.keep_all_bytes)},
          {"unlimited_us", short_number(one.unlimited_us)},
          {"curves", std::move(curves)},
          {"dominated", std::move(dominated)},
          {"recommended", std::move(recommended)}};
}

template <typename Values, typename Make>
json list_of(Values const& values, Make make) {
  json rows = json::array();
  for (auto const& one : values) rows.push_back(make(one));
  return rows;
}

}  // namespace

page_limits page_limits::divided_by(std::size_t parts) const {
  auto const share = [&](std::size_t of) { return std::max<std::size_t>(of / std::max<std::size_t>(parts, 1), 16); };
  return {share(steps), share(slices), share(decisions), share(byte_points), share(curve_parts), share(items)};
}

json page_data(run_data const& all, page_limits const& limits) {
  auto const each = limits.divided_by(all.runs.size());
  return {{"version", FERRY_VERSION},
          {"runs", list_of(all.runs, [&](run const& one) { return run_json(one, each); })},
          {"comparisons", list_of(all.comparisons, [](policy_comparison const& one) { return json_of(one); })},
          {"benches", list_of(all.benches, [](policy_bench const& one) { return json_of(one); })},
          {"tables", list_of(all.tables,
                             [](plain_table const& one) {
                               return json{{"label", one.label},
                                           {"columns", one.columns},
                                           {"rows", one.rows},
                                           {"left_out", one.left_out}};
                             })},
          {"notes", all.notes}};
}

}  // namespace ferry::command
