// Which files tell of the same run. They carry no name for it, but numbers that no two runs share: a step's time by the
// host's clock stands in traces and statistics alike, to the nanosecond; the link's estimate after each step in
// statistics and in the JSON of `ferry train`, to the last bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "report/run_reader.hpp"

namespace ferry::command {

namespace {

bool has(run const& one, run_source source) { return std::ranges::find(one.sources, source) != one.sources.end(); }

bool share_a_source(run const& a, run const& b) {
  return std::ranges::any_of(a.sources, [&](run_source source) { return has(b, source); });
}

/// How many steps that both have agree in a number, and how many do not.
template <typename Agree>
std::pair<std::size_t, std::size_t> compare(run const& a, run const& b, Agree agree) {
  std::unordered_map<double, step_row const*> steps;
  for (auto const& row : a.steps) steps.emplace(row.number, &row);
  std::size_t same = 0;
  std::size_t different = 0;
  for (auto const& row : b.steps) {
    auto const found = steps.find(row.number);
    if (found == steps.end()) continue;
    if (auto const verdict = agree(*found->second, row)) ++(*verdict ? same : different);
  }
  return {same, different};
}

/// Nothing where either does not know.
std::optional<bool> same_host_time(step_row const& a, step_row const& b) {
  if (!is_known(a.host_us) || !is_known(b.host_us)) return std::nullopt;
  constexpr double rounding_us = 0.0021;
  return std::abs(a.host_us - b.host_us) < rounding_us + 1e-12 * a.host_us;
}

std::optional<bool> same_link(step_row const& a, step_row const& b) {
  bool const known = a.out_gbps > 0 && a.in_gbps > 0 && b.out_gbps > 0 && b.in_gbps > 0;
  if (!known) return std::nullopt;
  // One asks when the step ends, the other a little later: a transfer may have ended meanwhile.
  return a.out_gbps == b.out_gbps || a.in_gbps == b.in_gbps;
}

/// What has to agree where both know it: a simulated link has the same estimates in every run.
bool can_be_one(run const& a, run const& b) {
  auto const agree = [](double x, double y) { return !is_known(x) || !is_known(y) || x == y; };
  return agree(a.peak_bytes[0], b.peak_bytes[0]) && agree(a.limit_bytes[0], b.limit_bytes[0]);
}

std::optional<bool> same_plan(step_row const& a, step_row const& b) {
  if (!is_known(a.planned_us) || !is_known(b.planned_us)) return std::nullopt;
  return std::abs(a.planned_us - b.planned_us) <= 1e-9 * a.planned_us;
}

/// Nothing if no step can tell.
template <typename Agree>
std::optional<bool> mostly(run const& a, run const& b, Agree agree) {
  auto const [same, different] = compare(a, b, agree);
  if (same + different == 0) return std::nullopt;
  return same > different;
}

bool same_simulation(run const& json, run const& trace) {
  if (json.title.empty() || json.title != trace.title || json.steps.empty() || trace.steps.empty()) return false;
  double const told = json.steps.back().step_us;
  double const traced = trace.steps.back().step_us;
  return is_known(told) && is_known(traced) && std::abs(told - traced) <= 0.01 * told;
}

/// Without transfers nothing but the steps' counts and peaks remains to tell.
bool same_totals(run const& a, run const& b) {
  bool const counted = !a.reasons.empty() && a.reasons == b.reasons && a.steps.size() == b.steps.size();
  return counted && a.limit_bytes[0] == b.limit_bytes[0] && a.peak_bytes[0] == b.peak_bytes[0];
}

bool belong_together(run const& a, run const& b) {
  if (share_a_source(a, b)) return false;
  using enum run_source;
  if (has(a, simulated_trace) || has(b, simulated_trace)) {
    return has(a, simulate) ? same_simulation(a, b) : has(b, simulate) && same_simulation(b, a);
  }
  if (auto const told = mostly(a, b, same_host_time)) return *told;
  if (!can_be_one(a, b)) return false;
  if (auto const told = mostly(a, b, same_link)) return *told;
  if (auto const told = mostly(a, b, same_plan)) return *told;
  return same_totals(a, b);
}

void fill(double& into, double from) {
  if (!is_known(into)) into = from;
}

void fill(by_tier& into, by_tier const& from) {
  for (std::size_t i = 0; i < tier_kinds; ++i) fill(into[i], from[i]);
}

void merge_steps(run& into, run& from) {
  // What was counted goes before what a trace gives, which knows parts that the others do not have.
  using enum run_source;
  if (has(from, stats) || has(from, simulate)) std::swap(into.steps, from.steps);
  if (has(into, simulated_trace) && !into.steps.empty() && !from.steps.empty()) {
    double const last = into.steps.back().number;  // which is what was traced
    from.steps.back().number = last;
    for (auto& step : into.trace->steps) step.number = last;
  }
  std::map<double, step_row> rows;
  for (auto const& row : into.steps) rows.emplace(row.number, row);
  for (auto const& row : from.steps) {
    auto const [place, is_new] = rows.emplace(row.number, row);
    if (is_new) continue;
    for (auto const& column : step_columns) fill(place->second.*column.value, row.*column.value);
    fill(place->second.peak_bytes, row.peak_bytes);
  }
  into.steps.clear();
  for (auto const& [number, row] : rows) into.steps.push_back(row);
}

/// Sums of a session go before those that a trace gives; what only one has is added.
void merge_items(run& into, run const& from) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < into.items.size(); ++i) places.emplace(into.items[i].label, i);
  for (auto const& item : from.items) {
    auto const found = places.find(item.label);
    if (found == places.end()) {
      into.items.push_back(item);
      continue;
    }
    auto& own = into.items[found->second];
    if (is_known(item.saves) && !is_known(own.saves)) {
      auto merged = item;
      merged.reasons = own.reasons.empty() ? item.reasons : own.reasons;
      merged.words = own.words.empty() ? item.words : own.words;
      own = std::move(merged);
    }
    if (own.words.empty()) own.words = item.words;
    if (own.reasons.empty()) own.reasons = item.reasons;
    fill(own.bytes, item.bytes);
  }
}

/// `into` keeps its lanes, and their indices; so the one with a trace has to be the first.
void merge(run& into, run&& from) {
  if (!into.trace && from.trace) std::swap(into, from);
  merge_steps(into, from);
  merge_items(into, from);
  bool const knows_more = from.settings.size() > into.settings.size();
  if (knows_more) into.settings = from.settings;
  if (into.facts.empty()) into.facts = from.facts;
  bool const has_model = !from.facts.empty() || into.title.empty();
  if (has_model && !from.title.empty()) into.title = from.title;
  if (into.policy.empty()) into.policy = from.policy;
  if (into.reasons.empty() || has(from, run_source::stats)) into.reasons = from.reasons;
  fill(into.limit_bytes, from.limit_bytes);
  fill(into.peak_bytes, from.peak_bytes);
  fill(into.average_bytes, from.average_bytes);
  fill(into.link_busy_us, from.link_busy_us);
  fill(into.keep_all_bytes, from.keep_all_bytes);
  fill(into.unlimited_us, from.unlimited_us);
  into.sources.insert(into.sources.end(), from.sources.begin(), from.sources.end());
  into.files.insert(into.files.end(), from.files.begin(), from.files.end());
  into.notes.insert(into.notes.end(), from.notes.begin(), from.notes.end());
}

template <typename Value>
void append(std::vector<Value>& to, std::vector<Value>& from) {
  std::ranges::move(from, std::back_inserter(to));
}

/// As long as one takes in another: two that do not know each other may both know a third.
void join_runs(std::vector<run>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = i + 1; j < runs.size();) {
      if (!belong_together(runs[i], runs[j])) {
        ++j;
        continue;
      }
      auto label = std::move(runs[i].label);
      merge(runs[i], std::move(runs[j]));
      runs[i].label = std::move(label);
      runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(j));
      j = i + 1;
    }
  }
}

}  // namespace

run_data join(std::vector<run_data> files) {
  run_data all;
  for (auto& one : files) {
    append(all.runs, one.runs);
    append(all.comparisons, one.comparisons);
    append(all.benches, one.benches);
    append(all.tables, one.tables);
    append(all.notes, one.notes);
  }
  join_runs(all.runs);
  return all;
}

}  // namespace ferry::command
