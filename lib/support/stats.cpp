// Statistics as JSON, and the words of their reasons.
#include "ferry/stats.hpp"

#include <nlohmann/json.hpp>

namespace ferry {

namespace {

using json = nlohmann::ordered_json;  // keys in the order of the members

struct reason_name {
  reason why;
  std::string_view words;
};

constexpr std::array reason_names{
    reason_name{reason::kept_by_policy, "kept_by_policy"},
    reason_name{reason::kept_below_min_bytes, "kept_below_min_bytes"},
    reason_name{reason::kept_no_recipe, "kept_no_recipe"},
    reason_name{reason::kept_pinned_full, "kept_pinned_full"},
    reason_name{reason::kept_in_flight_full, "kept_in_flight_full"},
    reason_name{reason::offloaded_by_policy, "offloaded_by_policy"},
    reason_name{reason::deferred_in_flight_full, "deferred_in_flight_full"},
    reason_name{reason::dropped_by_policy, "dropped_by_policy"},
    reason_name{reason::dropped_pinned_full, "dropped_pinned_full"},
    reason_name{reason::dropped_in_flight_full, "dropped_in_flight_full"},
    reason_name{reason::dropped_after_failed_offload, "dropped_after_failed_offload"},
    reason_name{reason::kept_after_failed_offload, "kept_after_failed_offload"},
    reason_name{reason::placed_anew, "placed_anew"},
    reason_name{reason::dropped_instead_of_waiting, "dropped_instead_of_waiting"},
    reason_name{reason::dropped_for_space, "dropped_for_space"},
    reason_name{reason::evicted_for_space, "evicted_for_space"},
    reason_name{reason::restored_resident, "restored_resident"},
    reason_name{reason::restored_from_host, "restored_from_host"},
    reason_name{reason::offload_cancelled_by_restore, "offload_cancelled_by_restore"},
    reason_name{reason::prefetch_cancelled_for_space, "prefetch_cancelled_for_space"},
    reason_name{reason::fetch_given_up, "fetch_given_up"},
    reason_name{reason::recomputed_by_plan, "recomputed_by_plan"},
    reason_name{reason::recomputed_sooner_than_transfer, "recomputed_sooner_than_transfer"},
    reason_name{reason::recomputed_rows_still_missing, "recomputed_rows_still_missing"},
    reason_name{reason::recomputed_ahead, "recomputed_ahead"},
    reason_name{reason::recomputed_after_failed_transfer, "recomputed_after_failed_transfer"},
    reason_name{reason::unused_at_end_of_step, "unused_at_end_of_step"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < reason_names.size(); ++i) {
    if (reason_names[i].why != static_cast<reason>(i)) return false;
  }
  return reason_names.size() == reason_count;
}
static_assert(in_order(), "every reason has its words, in the order of the enumeration");

json json_of(tier_stats const& tier) {
  return {{"limit_bytes", tier.limit_bytes},
          {"now_bytes", tier.now_bytes},
          {"peak_bytes", tier.peak_bytes},
          {"average_bytes", tier.average_bytes},
          {"fragmentation", tier.fragmentation}};
}

json json_of(link_stats const& link) {
  return {
      {"transfers", link.transfers}, {"abandoned", link.abandoned}, {"failed", link.failed}, {"chunks", link.chunks},
      {"bytes", link.bytes},         {"busy_us", link.busy_us},     {"gbps", link.gbps}};
}

json json_of(used_setting const& setting) {
  return {{"variable", setting.variable}, {"value", setting.value}, {"given", setting.given}};
}

json json_of(item_key const& key) {
  return {{"micro_batch", key.micro_batch}, {"segment", key.segment}, {"name", key.name.view()}};
}

json json_of(item_stats const& item) {
  return {{"key", json_of(item.key)},
          {"bytes", item.bytes},
          {"saves", item.saves},
          {"restores", item.restores},
          {"offloads", item.offloads},
          {"recomputes", item.recomputes},
          {"hidden_us", item.hidden_us},
          {"exposed_us", item.exposed_us},
          {"recipe_us", item.recipe_us},
          {"waited_for_bytes_us", item.waited_for_bytes_us},
          {"recompute_us", item.recompute_us},
          {"last", to_string(item.last)}};
}

json json_of(recipe_check_stats const& checks) {
  return {{"checked", checks.checked},
          {"inputs_away", checks.inputs_away},
          {"no_room", checks.no_room},
          {"not_comparable", checks.not_comparable}};
}

/// Words to counts; what never happened is left out.
json reasons_of(session_stats const& stats) {
  json counts = json::object();
  for (std::size_t i = 0; i < reason_count; ++i) {
    if (stats.reasons[i] > 0) counts[std::string(reason_names[i].words)] = stats.reasons[i];
  }
  return counts;
}

}  // namespace

std::string_view to_string(reason why) noexcept {
  auto const index = static_cast<std::size_t>(why);
  return index < reason_count ? reason_names[index].words : "unknown";
}

std::string to_json(session_stats const& stats, int indent) {
  json idle = json::array();
  for (idle_setting const& one : stats.settings_without_effect) {
    idle.push_back({{"variable", one.variable}, {"why", one.why}});
  }
  json settings = json::array();
  for (used_setting const& one : stats.settings) settings.push_back(json_of(one));
  json items = json::array();
  for (item_stats const& item : stats.items) items.push_back(json_of(item));

  json all{{"steps", stats.steps},
           {"evaluations", stats.evaluations},
           {"saves", stats.saves},
           {"restores", stats.restores},
           {"recomputes", stats.recomputes},
           {"recompute_us", stats.recompute_us},
           {"recomputed_ahead_us", stats.recomputed_ahead_us},
           {"hidden_us", stats.hidden_us},
           {"exposed_us", stats.exposed_us},
           {"waited_for_bytes_us", stats.waited_for_bytes_us},
           {"host_waited_us", stats.host_waited_us},
           {"run_ahead_us", stats.run_ahead_us},
           {"plans", stats.plans},
           {"plan_changes", stats.plan_changes},
           {"device", json_of(stats.device)},
           {"pinned", json_of(stats.pinned)},
           {"in_flight", json_of(stats.in_flight)},
           {"adopted_bytes", stats.adopted_bytes},
           {"device_to_host", json_of(stats.device_to_host)},
           {"host_to_device", json_of(stats.host_to_device)},
           {"reasons", reasons_of(stats)}};
  if (stats.recipe_checks) all["recipe_checks"] = json_of(*stats.recipe_checks);
  all["settings_without_effect"] = std::move(idle);
  all["settings"] = std::move(settings);
  all["items"] = std::move(items);
  // A name may hold any bytes; JSON is UTF-8, and statistics are no place to fail.
  return all.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace ferry
