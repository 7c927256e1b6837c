#include "tape/tape_json.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ferry::command {

namespace {

using json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> place_names{"absent", "device", "leaving", "host", "arriving", "dropped"};
std::string_view name_of(tape_place where) { return place_names[static_cast<std::size_t>(where)]; }

json labels_of(tape const& of, std::vector<std::size_t> const& items) {
  json labels = json::array();
  for (std::size_t const k : items) labels.push_back(of.items[k].label);
  return labels;
}

json json_of(tape const& of, tape_step const& step) {
  json places = json::object();
  for (std::size_t k = 0; k < step.places.size(); ++k) {
    if (step.places[k] != tape_place::absent) places[of.items[k].label] = name_of(step.places[k]);
  }
  return {{"step", step.label},
          {"pass", step.is_backward ? "backward" : "forward"},
          {"segment", step.segment},
          {"start_us", step.start_us},
          {"end_us", step.end_us},
          {"most_bytes", step.most_bytes},
          {"after_bytes", step.after_bytes},
          {"host_bytes", step.host_bytes},
          {"writes", labels_of(of, step.writes)},
          {"reads", labels_of(of, step.reads)},
          {"rebuilt", labels_of(of, step.rebuilt)},
          {"dropped", labels_of(of, step.dropped)},
          {"sent", labels_of(of, step.sent)},
          {"fetched", labels_of(of, step.fetched)},
          {"places", std::move(places)}};
}

json json_of(tape const& of) {
  json value{{"policy", of.policy},
             {"budget_bytes", of.budget_bytes},
             {"step_us", of.step_us},
             {"ahead_us", of.ahead_us},
             {"peak_bytes", of.peak_bytes},
             {"peak_step", of.steps[of.peak_step].label},
             {"average_bytes", of.average_bytes},
             {"host_peak_bytes", of.host_peak_bytes},
             {"host_average_bytes", of.host_average_bytes},
             {"offloaded_bytes", of.sent_bytes},
             {"fetched_bytes", of.fetched_bytes},
             {"forward_operations", of.forward_operations},
             {"forward_us", of.forward_us},
             {"recompute_us", of.recompute_us()},
             {"extra_forward", extra_forward(of)}};
  auto& recomputed = value["recomputed"] = json::array();
  for (auto const& one : of.recomputed) {
    recomputed.push_back({{"operation", one.operation}, {"runs", one.runs}, {"us", one.us}, {"flops", one.flops}});
  }
  auto& steps = value["steps"] = json::array();
  for (auto const& one : of.steps) steps.push_back(json_of(of, one));
  auto& rebuilds = value["rebuilds"] = json::array();
  for (auto const& one : of.rebuilds) {
    rebuilds.push_back({{"item", of.items[one.item].label}, {"start_us", one.from_us}, {"end_us", one.to_us}});
  }
  auto& curve = value["bytes"] = json::array();
  for (auto const& one : of.curve) curve.push_back({{"at_us", one.at_us}, {"device", one.device}, {"host", one.host}});
  return value;
}

}  // namespace

json tape_json(std::span<tape const> tapes, std::span<tape_growth const> growth) {
  json value{{"net", tapes.front().net}};
  auto& items = value["items"] = json::array();
  for (auto const& one : tapes.front().items) {
    items.push_back({{"item", one.label}, {"segment", one.segment}, {"name", one.name}, {"bytes", one.bytes}});
  }
  auto& rows = value["tapes"] = json::array();
  for (auto const& one : tapes) rows.push_back(json_of(one));
  if (!growth.empty()) {
    auto& depths = value["growth"] = json::array();
    for (auto const& one : growth) {
      depths.push_back({{"layers", one.layers},
                        {"policy", one.policy},
                        {"peak_bytes", one.peak_bytes},
                        {"extra_forward", one.extra_forward}});
    }
  }
  return value;
}

}  // namespace ferry::command
