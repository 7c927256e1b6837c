#include "simulate_trace.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/timeline.hpp"

namespace ferry::command {

namespace {

using kind = traced_span::kind;

struct appearance {
  std::string_view name;
  char letter;
  int lane;
};
constexpr std::array<appearance, 5> appearances{
    {{"forward", 'F', 0}, {"backward", 'B', 0}, {"rebuild", 'R', 0}, {"offload", '>', 1}, {"fetch", '<', 2}}};
constexpr appearance const& look_of(kind what) { return appearances[static_cast<std::size_t>(what)]; }

/// Launches that forward makes under their items' names; those that follow are recipes.
std::size_t items_of_forward(profile const& step) {
  std::size_t items = 0;
  for (std::size_t i = 0; i < step.segments.size(); ++i) {
    for (auto const& one : step.segments[i].items) {
      bool const given = i == 0 && one.inputs.empty();
      if (one.recipe_us.value_or(0) > 0 && !given) ++items;
    }
  }
  return items;
}

constexpr double ns_per_us = 1000;

std::string event(nlohmann::ordered_json const& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::vector<traced_span> spans_of(simulation const& simulated, profile const& step) {
  std::vector<traced_span> spans;
  std::size_t still_forward = items_of_forward(step);
  for (auto const& one : simulated.timeline) {
    traced_span span;
    span.name = one.name.view();
    span.start_us = static_cast<double>(one.start.count()) / ns_per_us;
    span.end_us = static_cast<double>(one.end.count()) / ns_per_us;
    span.bytes = one.bytes;
    if (one.where == sim_engine::device_to_host) {
      span.what = kind::offload;
    } else if (one.where == sim_engine::host_to_device) {
      span.what = kind::fetch;
    } else if (span.name == "backward") {
      span.what = kind::backward;
    } else if (span.name == "forward") {
      span.what = kind::forward;
    } else if (still_forward > 0) {
      span.what = kind::forward;
      --still_forward;
    } else {
      span.what = kind::rebuild;
    }
    spans.push_back(std::move(span));
  }
  return spans;
}

step_sums sums_of(std::vector<traced_span> const& spans, double step_us) {
  step_sums sums;
  for (auto const& one : spans) {
    double const took = one.end_us - one.start_us;
    switch (one.what) {
      case kind::offload:
        sums.out_bytes += one.bytes;
        continue;
      case kind::fetch:
        sums.in_bytes += one.bytes;
        continue;
      case kind::rebuild:
        sums.rebuild_us += took;
        ++sums.rebuilds;
        break;
      case kind::forward:
      case kind::backward:
        break;
    }
    sums.busy_us += took;
  }
  constexpr double hardly_us = 1e-3;  // what rounding to nanoseconds makes
  double const idle = step_us - sums.busy_us;
  sums.waiting_us = idle > hardly_us ? idle : 0;
  return sums;
}

std::string timeline(std::vector<traced_span> const& spans, double step_us) {
  auto lanes = three_lanes();
  for (auto const& one : spans) {
    auto const& look = look_of(one.what);
    lanes[static_cast<std::size_t>(look.lane)].spans.push_back({one.start_us, one.end_us, look.letter});
  }
  return draw(lanes, step_us) + "F forward, B backward, R rebuild, > out, < in, . idle\n";
}

std::string trace_events(std::vector<traced_span> const& spans, std::string const& title) {
  constexpr int process = 1;
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  text += event({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", title}}}});
  auto const lanes = three_lanes();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    text += ",\n" + event({{"name", "thread_name"},
                           {"ph", "M"},
                           {"pid", process},
                           {"tid", i + 1},
                           {"args", {{"name", lanes[i].name}}}});
    text += ",\n" + event({{"name", "thread_sort_index"},
                           {"ph", "M"},
                           {"pid", process},
                           {"tid", i + 1},
                           {"args", {{"sort_index", i + 1}}}});
  }
  for (auto const& one : spans) {
    nlohmann::ordered_json row{{"name", one.name},
                               {"cat", look_of(one.what).name},
                               {"ph", "X"},
                               {"ts", one.start_us},
                               {"dur", one.end_us - one.start_us},
                               {"pid", process},
                               {"tid", look_of(one.what).lane + 1}};
    if (one.bytes > 0) row["args"] = {{"bytes", one.bytes}};
    text += ",\n" + event(row);
  }
  return text + "\n]}\n";
}

}  // namespace ferry::command
