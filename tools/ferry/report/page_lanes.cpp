#include "report/page_lanes.hpp"

#include <algorithm>
#include <functional>

#include "report/page_number.hpp"

namespace ferry::command {

namespace {

using json = nlohmann::ordered_json;

/// The shortest that is still shown if no more than `limit` may be.
double shortest_shown(std::vector<traced_slice> const& slices, std::size_t limit) {
  if (slices.size() <= limit || limit == 0) return 0;
  std::vector<double> times;
  times.reserve(slices.size());
  for (auto const& one : slices) times.push_back(one.to_us - one.from_us);
  auto const last = times.begin() + static_cast<std::ptrdiff_t>(limit - 1);
  std::ranges::nth_element(times, last, std::greater{});
  return *last;
}

json slices_json(run const& of, traced_step const& step, label_book& labels, std::size_t limit, std::size_t& left_out,
                 double& shortest) {
  auto const& trace = *of.trace;
  shortest = shortest_shown(step.slices, limit);
  json rows = json::array();
  for (auto const& one : step.slices) {
    if (one.to_us - one.from_us < shortest || rows.size() >= limit) {
      ++left_out;
      continue;
    }
    json row{one.lane,
             static_cast<int>(one.what),
             short_time(one.from_us - step.from_us),
             short_time(one.to_us - one.from_us),
             one.name == no_index ? json(-1) : json(labels.index_of(trace.names[one.name])),
             one.item == no_index ? json(-1) : json(labels.index_of(of.items[one.item].label)),
             short_number(one.bytes)};
    if (one.outcome != no_index) row.push_back(labels.index_of(trace.names[one.outcome]));
    rows.push_back(std::move(row));
  }
  return rows;
}

json decisions_json(run const& of, traced_step const& step, label_book& labels, std::size_t limit,
                    std::size_t& left_out) {
  json rows = json::array();
  for (auto const& one : step.decisions) {
    if (rows.size() == limit) {
      ++left_out;
      continue;
    }
    rows.push_back({short_time(one.at_us - step.from_us),
                    one.item == no_index ? json(-1) : json(labels.index_of(of.items[one.item].label)),
                    one.reason == no_index ? json(-1) : json(labels.index_of(of.trace->names[one.reason])),
                    labels.index_of(one.words)});
  }
  return rows;
}

/// Of too many changes of a tier, the most of several together: peaks must not get lost.
json bytes_json(traced_step const& step, tier_kind of, std::size_t limit) {
  std::vector<traced_bytes const*> own;
  for (auto const& one : step.bytes) {
    if (one.of == of) own.push_back(&one);
  }
  std::size_t const together = std::max<std::size_t>(1, (own.size() + limit - 1) / std::max<std::size_t>(limit, 1));
  json times = json::array();
  json bytes = json::array();
  for (std::size_t i = 0; i < own.size(); i += together) {
    double most = 0;
    for (std::size_t at = i; at < std::min(own.size(), i + together); ++at) most = std::max(most, own[at]->bytes);
    times.push_back(short_time(own[i]->at_us - step.from_us));
    bytes.push_back(short_number(most));
  }
  return {std::move(times), std::move(bytes)};
}

}  // namespace

std::vector<chosen_step> choose_steps(trace_data const& trace, page_limits const& limits) {
  std::vector<chosen_step> chosen;
  auto const& steps = trace.steps;
  if (steps.empty()) return chosen;
  std::size_t slices = 0;
  for (auto const& one : steps) slices += one.slices.size();
  constexpr std::size_t few = 6;
  bool const all = steps.size() <= few && slices <= limits.slices;

  std::size_t const skipped = steps.size() > 4 ? 2 : 0;  // they warm up, or are measured for a plan
  std::vector<std::size_t> by_time;
  for (std::size_t i = skipped; i < steps.size(); ++i) by_time.push_back(i);
  std::ranges::stable_sort(by_time, {}, [&](std::size_t i) { return steps[i].took_us(); });
  std::size_t const median = by_time[by_time.size() / 2];
  std::size_t const slowest = by_time.back();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::string why;
    auto const add = [&](bool is, char const* word) {
      if (is) why += (why.empty() ? "" : ", ") + std::string(word);
    };
    add(i == 0, "first");
    add(i == median, "median");
    add(i == slowest && slowest != median, "slowest");
    add(i + 1 == steps.size() && i > 0, "last");
    if (all || !why.empty()) chosen.push_back({i, why});
  }
  return chosen;
}

json traced_json(run const& of, label_book& labels, page_limits const& limits) {
  auto const chosen = choose_steps(*of.trace, limits);
  json rows = json::array();
  for (auto const& one : chosen) {
    auto const& step = of.trace->steps[one.index];
    auto const share = limits.divided_by(chosen.size());
    std::size_t left_out = step.left_out;
    double shortest = 0;
    json value{{"number", short_number(step.number)}, {"why", one.why}, {"took_us", short_time(step.took_us())}};
    value["slices"] = slices_json(of, step, labels, share.slices, left_out, shortest);
    value["decisions"] = decisions_json(of, step, labels, share.decisions, left_out);
    json bytes = json::array();
    for (std::size_t i = 0; i < tier_kinds; ++i) {
      bytes.push_back(bytes_json(step, static_cast<tier_kind>(i), share.byte_points / tier_kinds));
    }
    value["bytes"] = std::move(bytes);
    value["left_out"] = left_out;
    value["shortest_us"] = short_time(shortest);
    rows.push_back(std::move(value));
  }
  return rows;
}

}  // namespace ferry::command
