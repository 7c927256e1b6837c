#include "observe/setting_effects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace ferry::observe {

namespace {

struct run {
  session_stats const& stats;
  config const& settings;
  setting_effects const& effects;

  [[nodiscard]] std::uint64_t copies() const { return stats.device_to_host.chunks + stats.host_to_device.chunks; }
  template <typename Condition>
  [[nodiscard]] bool any_item(Condition condition) const {
    return std::ranges::any_of(stats.items, condition);
  }
};

/// Each rule says why its setting had no effect, or nothing if it had.
using rule = std::string (*)(run const&);

std::string if_nothing_copied(run const& r) { return r.copies() == 0 ? "nothing was copied" : ""; }

std::string budget(run const& r) {
  bool const decides = r.effects.followed_a_plan || r.effects.planned ||
                       r.settings.policy.kind == policy_kind::selective ||
                       r.settings.policy.kind == policy_kind::automatic;
  if (decides || r.effects.room_was_short) return {};
  return fmt::format("it was never short: at most {} were in use", format_bytes(r.stats.device.peak_bytes));
}

std::string host_budget(run const& r) {
  if (r.stats.pinned.peak_bytes == 0) return "nothing went to the host";
  bool const full = r.stats.count(reason::kept_pinned_full) + r.stats.count(reason::dropped_pinned_full) > 0;
  if (full || r.effects.planned) return {};
  return fmt::format("it was never full: at most {} were in use", format_bytes(r.stats.pinned.peak_bytes));
}

std::string chosen_policy(run const& r) {
  if (r.stats.saves == 0) return "nothing was saved";
  return r.effects.placed_by_function ? "the program decides placements itself" : "";
}

std::string min_bytes(run const& r) {
  if (r.stats.count(reason::kept_below_min_bytes) > 0) return {};
  std::size_t const usual = config{}.min_bytes;
  bool const small_one_went =
      r.any_item([&](item_stats const& item) { return item.bytes < usual && item.offloads + item.recomputes > 0; });
  return small_one_went ? "" : "no item that was to be moved or dropped is so small";
}

std::string max_in_flight(run const& r) {
  if (r.copies() == 0) return "nothing was copied";
  for (auto const why :
       {reason::deferred_in_flight_full, reason::kept_in_flight_full, reason::dropped_in_flight_full}) {
    if (r.stats.count(why) > 0) return {};
  }
  return fmt::format("it was never reached: at most {} were in flight", format_bytes(r.stats.in_flight.peak_bytes));
}

std::string chunk_bytes(run const& r) {
  if (r.copies() == 0) return "nothing was copied";
  std::size_t const unit = std::min(r.settings.chunk_bytes, config{}.chunk_bytes);
  bool const cut = r.any_item([&](item_stats const& item) { return item.offloads > 0 && item.bytes > unit; });
  return cut ? "" : "every copy fits into one chunk";
}

std::string run_ahead(run const& r) {
  return r.effects.ran_further_ahead ? "" : "the host was never further ahead than one segment";
}

std::string if_nothing_planned(run const& r) { return r.effects.planned ? "" : "no plan was made"; }

std::string stall_tolerance(run const& r) {
  return r.effects.weighed ? "" : "it never came to a choice between a transfer and a recipe";
}

std::string adapt(run const& r) {
  return r.effects.planned || r.copies() > 0 ? "" : "no plan was made, and nothing was copied";
}

std::string verify(run const& r) {
  bool const copies = verifies(r.settings.verify, verify_mode::checksum);
  if (copies && r.copies() > 0) return {};
  if (!r.stats.recipe_checks) return "nothing was copied";
  if (r.stats.recipe_checks->checked > 0) return {};
  return copies ? "nothing was copied, and no recipe could be checked" : "no recipe could be checked";
}

std::string if_virtual(run const& r) { return r.effects.virtual_clock ? "the device only simulates" : ""; }

struct row {
  std::string_view variable;
  rule why_idle;
};
// Settings that are not here have an effect whatever happens: devices and outputs.
constexpr std::array rules{
    row{"FERRY_BUDGET", budget},
    row{"FERRY_HOST_BUDGET", host_budget},
    row{"FERRY_POLICY", chosen_policy},
    row{"FERRY_MIN_BYTES", min_bytes},
    row{"FERRY_MAX_IN_FLIGHT", max_in_flight},
    row{"FERRY_CHUNK_BYTES", chunk_bytes},
    row{"FERRY_RUN_AHEAD", run_ahead},
    row{"FERRY_INSURE", if_nothing_planned},
    row{"FERRY_ADAPT", adapt},
    row{"FERRY_PLAN_EFFORT", if_nothing_planned},
    row{"FERRY_STALL_TOLERANCE_US", stall_tolerance},
    row{"FERRY_VERIFY", verify},
    row{"FERRY_LINK_GBPS", if_nothing_copied},
    row{"FERRY_LINK_LATENCY_US", if_nothing_copied},
    row{"FERRY_COMPUTE_THREADS", if_virtual},
    row{"FERRY_CHECK_ORDER", if_virtual},
};

}  // namespace

std::vector<used_setting> used_settings(config const& settings) {
  std::vector<used_setting> used;
  for (auto& row : describe_settings(settings)) {
    bool const given = row.value != row.initial;
    used.push_back({std::move(row.variable), std::move(row.value), given});
  }
  return used;
}

std::vector<idle_setting> settings_without_effect(session_stats const& stats, config const& settings,
                                                  setting_effects const& effects) {
  std::vector<idle_setting> idle;
  run const what{stats, settings, effects};
  for (auto const& one : rules) {
    if (std::ranges::find(settings.given, one.variable) == settings.given.end()) continue;
    if (auto why = one.why_idle(what); !why.empty()) idle.push_back({std::string(one.variable), std::move(why)});
  }
  return idle;
}

}  // namespace ferry::observe
