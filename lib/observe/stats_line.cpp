#include "observe/stats_line.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace ferry::observe {

namespace {

using json = nlohmann::ordered_json;

/// Items that cost the most are told one by one.
constexpr std::size_t told_items = 10;

double lost_us(item_line const& item) { return item.exposed_us + item.recipe_us; }
/// The devices' clocks count nanoseconds; what a sum adds beyond them is noise.
double whole_ns(double us) { return std::round(us * 1000) / 1000; }
double hidden_us(item_line const& item) { return std::max(0.0, item.moved_us - item.exposed_us); }

json json_of(link_line const& link) {
  return {{"transfers", link.transfers},
          {"abandoned", link.abandoned},
          {"failed", link.failed},
          {"bytes", link.bytes},
          {"gbps", link.gbps}};
}

json reasons_of(step_record const& book) {
  json reasons = json::object();
  for (std::size_t i = 0; i < reason_count; ++i) {
    if (book.counts[i] == 0) continue;
    reasons[std::string(to_string(static_cast<reason>(i)))] = {{"count", book.counts[i]}, {"bytes", book.bytes[i]}};
  }
  return reasons;
}

json decisions_about(std::uint32_t item, step_record const& book) {
  json rows = json::array();
  for (auto const& one : book.decisions) {
    if (one.item == item) rows.push_back({{"reason", to_string(one.record.why)}, {"words", explain(one.record)}});
  }
  return rows;
}

json json_of(std::uint32_t index, step_record const& book) {
  auto const& item = book.items[index];
  json row{{"item", to_string(item.key)},
           {"bytes", item.bytes},
           {"exposed_us", whole_ns(item.exposed_us)},
           {"hidden_us", whole_ns(hidden_us(item))},
           {"recipe_us", whole_ns(item.recipe_us)}};
  auto const time = [&](char const* name, double us) {
    if (us >= 0) row[name] = whole_ns(us - book.began_us);
  };
  time("saved_at_us", item.saved_us);
  time("offload_began_at_us", item.offload_began_us);
  time("offload_ended_at_us", item.offload_ended_us);
  time("needed_at_us", item.needed_us);
  time("fetch_began_at_us", item.fetch_began_us);
  time("arrived_at_us", item.arrived_us);
  row["decisions"] = decisions_about(index, book);
  return row;
}

json dearest_items(step_record const& book) {
  std::vector<std::uint32_t> lossy;
  for (std::uint32_t i = 0; i < book.items.size(); ++i) {
    if (lost_us(book.items[i]) > 0) lossy.push_back(i);
  }
  std::ranges::stable_sort(lossy, std::greater{}, [&](std::uint32_t i) { return lost_us(book.items[i]); });
  if (lossy.size() > told_items) lossy.resize(told_items);
  json rows = json::array();
  for (std::uint32_t const i : lossy) rows.push_back(json_of(i, book));
  return rows;
}

}  // namespace

std::string step_line(step_record const& book) {
  double hidden = 0;
  for (auto const& item : book.items) hidden += hidden_us(item);
  json row{{"step", book.number},
           {"step_us", whole_ns(book.step_us())},
           {"host_us", whole_ns(book.ended_us - book.began_us)}};
  if (book.planned_us > 0) row["planned_us"] = book.planned_us;
  row.update({{"saves", book.items.size()},
              {"restores", book.restores},
              {"recomputes", book.recomputes},
              {"recompute_us", whole_ns(book.recompute_us)},
              {"hidden_us", whole_ns(hidden)},
              {"exposed_us", whole_ns(book.exposed_us)},
              {"waited_for_bytes_us", whole_ns(book.waited_for_bytes_us)},
              {"host_waited_us", whole_ns(book.host_waited_us)},
              {"run_ahead_us", whole_ns(book.run_ahead_us)},
              {"device_peak_bytes", book.peak_bytes[0]},
              {"pinned_peak_bytes", book.peak_bytes[1]},
              {"in_flight_peak_bytes", book.peak_bytes[2]},
              {"device_to_host", json_of(book.links[0])},
              {"host_to_device", json_of(book.links[1])},
              {"reasons", reasons_of(book)},
              {"items", dearest_items(book)}});
  return row.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace ferry::observe
