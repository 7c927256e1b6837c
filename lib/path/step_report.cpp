#include "path/step_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace ferry::path {

namespace {

using json = nlohmann::ordered_json;

/// Items that cost the most are told one by one.
constexpr std::size_t told_items = 10;

double lost_us(item_line const& item) { return item.exposed_us + item.recipe_us; }
double hidden_us(item_line const& item) { return std::max(0.0, item.moved_us - item.exposed_us); }

json json_of(link_line const& link) {
  return {{"transfers", link.transfers},
          {"abandoned", link.abandoned},
          {"failed", link.failed},
          {"bytes", link.bytes},
          {"gbps", link.gbps}};
}

json reasons_of(step_book const& book) {
  json reasons = json::object();
  for (std::size_t i = 0; i < reason_count; ++i) {
    if (book.counts[i] == 0) continue;
    reasons[std::string(to_string(static_cast<reason>(i)))] = {{"count", book.counts[i]}, {"bytes", book.bytes[i]}};
  }
  return reasons;
}

json json_of(item_line const& item, step_book const& book) {
  json row{{"item", to_string(item.key)},   {"bytes", item.bytes},          {"lost_us", lost_us(item)},
           {"exposed_us", item.exposed_us}, {"hidden_us", hidden_us(item)}, {"recipe_us", item.recipe_us}};
  auto const time = [&](char const* name, double us) {
    if (us >= 0) row[name] = us - book.began_us;
  };
  time("saved_at_us", item.saved_us);
  time("offload_began_at_us", item.offload_began_us);
  time("offload_ended_at_us", item.offload_ended_us);
  time("needed_at_us", item.needed_us);
  time("fetch_began_at_us", item.fetch_began_us);
  time("arrived_at_us", item.arrived_us);
  if (item.last_decision < book.decisions.size()) {
    auto const& last = book.decisions[item.last_decision].record;
    row["reason"] = to_string(last.why);
    row["decision"] = explain(last);
  }
  return row;
}

json dearest_items(step_book const& book) {
  std::vector<item_line const*> lossy;
  for (auto const& item : book.items) {
    if (lost_us(item) > 0) lossy.push_back(&item);
  }
  auto const told = std::min(told_items, lossy.size());
  std::partial_sort(lossy.begin(), lossy.begin() + static_cast<std::ptrdiff_t>(told), lossy.end(),
                    [](auto const* a, auto const* b) { return lost_us(*a) > lost_us(*b); });
  json rows = json::array();
  for (std::size_t i = 0; i < told; ++i) rows.push_back(json_of(*lossy[i], book));
  return rows;
}

}  // namespace

std::string step_line(step_book const& book) {
  double hidden = 0;
  for (auto const& item : book.items) hidden += hidden_us(item);
  json row{{"step", book.number}, {"step_us", book.step_us()}, {"host_us", book.ended_us - book.began_us}};
  if (book.planned_us > 0) row["planned_us"] = book.planned_us;
  row.update({{"saves", book.items.size()},
              {"restores", book.restores},
              {"recomputes", book.recomputes},
              {"recompute_us", book.recompute_us},
              {"hidden_us", hidden},
              {"exposed_us", book.exposed_us},
              {"waited_for_bytes_us", book.waited_for_bytes_us},
              {"run_ahead_us", book.run_ahead_us},
              {"device_peak_bytes", book.peak_bytes[0]},
              {"pinned_peak_bytes", book.peak_bytes[1]},
              {"in_flight_peak_bytes", book.peak_bytes[2]},
              {"device_to_host", json_of(book.links[0])},
              {"host_to_device", json_of(book.links[1])},
              {"reasons", reasons_of(book)},
              {"items", dearest_items(book)}});
  return row.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace ferry::path
