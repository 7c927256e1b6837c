#include "report/bench_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ferry/config.hpp"
#include "report/json_rows.hpp"

namespace ferry::command {

namespace {

using nlohmann::json;

constexpr double most_us = 1e15;
constexpr std::size_t most_rows = 500;
constexpr std::size_t most_columns = 24;
constexpr std::size_t most_curves = 48;
constexpr std::size_t most_points = 500;
constexpr std::size_t most_tables = 24;

bool flag_at(json const& object, char const* key) {
  return object.is_object() && object.contains(key) && object[key] == true;
}

/// Measured noise may make a step a little faster than one with unlimited memory.
double overhead_of(json const& value) {
  if (!value.is_object() || !value.contains("overhead") || !value["overhead"].is_number()) return unknown;
  auto const told = value["overhead"].get<double>();
  return told < 0 ? 0 : number_at(value, "overhead");
}

bench_point point_of(json const& value) {
  bench_point point;
  point.budget_bytes = number_at(value, "budget_bytes");
  point.fits = flag_at(value, "fits");
  point.failure = text_at(value, "failure");
  point.peak_bytes = number_at(value, "peak_bytes");
  point.host_peak_bytes = number_at(value, "host_peak_bytes");
  point.step_us = number_at(value, "step_us", most_us);
  point.overhead = overhead_of(value);
  point.recompute_us = number_at(value, "recompute_us", most_us);
  point.waiting_us = number_at(value, "waiting_us", most_us);
  point.offloaded_bytes = number_at(value, "offloaded_bytes");
  point.knob = text_at(value, "knob", 80);
  return point;
}

policy_bench read_policies(json const& value, std::string const& name) {
  policy_bench bench;
  bench.label = name;
  bench.device = text_at(value, "device");
  bench.profile = text_at(value, "profile");
  bench.hardware = text_at(value, "hardware");
  bench.keep_all_bytes = number_at(value, "keep_all_bytes");
  bench.unlimited_us = number_at(value, "unlimited_us", most_us);
  for (auto const& one : array_at(value, "curves")) {
    if (bench.curves.size() == most_curves) break;
    auto& curve = bench.curves.emplace_back();
    curve.name = text_at(one, "name", 60);
    curve.kind = text_at(one, "kind", 40);
    curve.words = text_at(one, "words");
    for (auto const& point : array_at(one, "points")) {
      if (curve.points.size() < most_points) curve.points.push_back(point_of(point));
    }
  }
  for (auto const& one : array_at(value, "dominated")) {
    if (bench.dominated.size() == most_rows) break;
    bench.dominated.push_back({number_at(one, "budget_bytes"), text_at(one, "by", 60), number_at(one, "ratio")});
  }
  for (auto const& one : array_at(value, "recommended")) {
    if (bench.recommended.size() == most_columns) break;
    bench.recommended.push_back({text_at(one, "variable", 60), text_at(one, "value"), text_at(one, "why")});
  }
  return bench;
}

/// Plain values as they are; of others only what they are.
std::string cell_of(std::string const& column, json const& value) {
  if (value.is_string()) return clean(value.get_ref<std::string const&>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_array()) return fmt::format("{} values", value.size());
  if (!value.is_number()) return "";
  auto const number = value.get<double>();
  bool const bytes = column.ends_with("bytes") && number >= 0 && number < 9e15;
  return bytes ? format_bytes(static_cast<std::size_t>(number)) : fmt::format("{:.5g}", number);
}

plain_table table_of(json const& rows, std::string label) {
  plain_table table;
  table.label = std::move(label);
  std::vector<std::string> keys;
  for (auto const& row : rows) {
    if (!row.is_object()) continue;
    for (auto const& [key, value] : row.items()) {
      if (keys.size() < most_columns && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
    if (table.rows.size() == most_rows) {
      ++table.left_out;
      continue;
    }
    auto& cells = table.rows.emplace_back();
    for (auto const& key : keys) cells.push_back(row.contains(key) ? cell_of(key, row[key]) : "");
  }
  for (auto const& key : keys) table.columns.push_back(clean(key, 60));
  for (auto& row : table.rows) row.resize(keys.size());
  return table;
}

/// Every array of objects, however deep; `value` is not nested deeper than a file may be.
void find_tables(json const& value, std::string const& label, run_data& into) {
  if (into.tables.size() >= most_tables) return;
  if (value.is_array() && !value.empty() && value[0].is_object()) {
    into.tables.push_back(table_of(value, label));
  } else if (value.is_object()) {
    for (auto const& [key, inner] : value.items()) {
      if (inner.is_structured()) find_tables(inner, fmt::format("{}, {}", label, clean(key, 60)), into);
    }
  }
}

policy_comparison read_comparison(json const& value, std::string const& name) {
  policy_comparison comparison;
  comparison.label = name;
  comparison.budget_bytes = number_at(value, "budget_bytes");
  comparison.keep_all_bytes = number_at(value, "keep_all_bytes");
  for (auto const& one : array_at(value, "policies")) {
    if (comparison.rows.size() == most_rows) break;
    comparison_row row;
    row.policy = text_at(one, "policy", 60);
    row.fits = flag_at(one, "fits");
    row.failure = text_at(one, "failure", 300);
    row.peak_device_bytes = number_at(one, "peak_device_bytes");
    row.peak_pinned_bytes = number_at(one, "peak_pinned_bytes");
    row.relative_time = number_at(one, "relative_time");
    row.recompute_share = number_at(one, "recompute_share");
    row.waiting_us = number_at(one, "waiting_us_per_step", most_us);
    row.tokens_per_second = number_at(one, "tokens_per_second");
    row.final_loss = number_at(one, "final_loss");
    row.identical = flag_at(one, "gradients_identical");
    comparison.rows.push_back(std::move(row));
  }
  return comparison;
}

}  // namespace

void read_comparisons(json const& value, std::string const& name, run_data& into) {
  into.comparisons.push_back(read_comparison(value, name));
  constexpr std::size_t most = 16;
  for (auto const& other : array_at(value, "other_budgets")) {
    if (into.comparisons.size() >= most) return;
    into.comparisons.push_back(read_comparison(other, name));
    into.comparisons.back().keep_all_bytes = number_at(value, "keep_all_bytes");
  }
}

void read_bench(json const& value, std::string const& name, run_data& into) {
  auto const what = text_at(value, "what", 40);
  if (what == "policies") {
    into.benches.push_back(read_policies(value, name));
    return;
  }
  if (what == "all") {
    auto policies = object_at(value, "policies");
    if (!policies.empty()) {
      policies["recommended"] = array_at(value, "recommended");
      into.benches.push_back(read_policies(policies, name));
    }
    for (char const* part : {"link", "breakeven"})
      find_tables(object_at(value, part), fmt::format("{}: {}", name, part), into);
    return;
  }
  std::size_t const before = into.tables.size();
  find_tables(value, fmt::format("{}: ferry bench {}", name, what), into);
  if (into.tables.size() == before) into.notes.push_back(fmt::format("{}: there are no rows in it.", name));
  if (into.tables.size() == most_tables)
    into.notes.push_back(fmt::format("{}: some of its tables are left out.", name));
}

}  // namespace ferry::command
