#include "support/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

namespace ferry {

namespace {

using support::duration_words;

/// "recipe took 1.20 ms", of what is known of it; with what stands before, or nothing.
std::string recipe_words(decision_record const& what, std::string_view before) {
  if (what.took_us > 0) return fmt::format("{}recipe took {}", before, duration_words(what.took_us));
  if (what.seen.recipe_us > 0) return fmt::format("{}recipe takes {}", before, duration_words(what.seen.recipe_us));
  return {};
}

std::string words_of_restore(decision_record const& what) {
  auto const bytes = format_bytes(what.bytes);
  std::string waited = what.took_us > 0
                           ? fmt::format("brought back: waited {} for {}", duration_words(what.took_us), bytes)
                           : fmt::format("brought back: {} in time", bytes);
  if (what.seen.recipe_us <= 0) return waited;
  return fmt::format("{}, recipe would have taken {}", waited, duration_words(what.seen.recipe_us));
}

std::string words_of_sooner_recipe(decision_record const& what) {
  if (what.seen.transfer_us <= 0) return "recomputed: sooner than its transfer" + recipe_words(what, ", ");
  return fmt::format("recomputed: would have waited {} for {}{}", duration_words(what.seen.transfer_us),
                     format_bytes(what.bytes), recipe_words(what, ", "));
}

/// For a reason that has no sentence of its own.
std::string plain_words(decision_record const& what) {
  std::string text(to_string(what.why));
  std::ranges::replace(text, '_', ' ');
  std::string_view separator = ": ";
  if (what.seen.transfer_us > 0) {
    text += fmt::format("{}transfer of {} would take {}", separator, format_bytes(what.bytes),
                        duration_words(what.seen.transfer_us));
    separator = ", ";
  }
  return text + recipe_words(what, separator);
}

}  // namespace

std::string explain(decision_record const& decision) {
  auto const bytes = format_bytes(decision.bytes);
  switch (decision.why) {
    case reason::kept_by_policy:
      return fmt::format("kept: {}", bytes);
    case reason::kept_below_min_bytes:
      return fmt::format("kept: {} is below FERRY_MIN_BYTES", bytes);
    case reason::kept_no_recipe:
      return "kept: nothing can rebuild it";
    case reason::kept_pinned_full:
      return fmt::format("kept: FERRY_HOST_BUDGET had no room for {}, and nothing can rebuild it", bytes);
    case reason::kept_in_flight_full:
      return fmt::format("kept: {} is more than FERRY_MAX_IN_FLIGHT, and nothing can rebuild it", bytes);
    case reason::offloaded_by_policy:
      return fmt::format("offloaded: {}", bytes);
    case reason::deferred_in_flight_full:
      return "to be offloaded later: FERRY_MAX_IN_FLIGHT was used up";
    case reason::dropped_by_policy:
      return "dropped: its recipe will rebuild it";
    case reason::dropped_pinned_full:
      return fmt::format("dropped: FERRY_HOST_BUDGET had no room for {}, its recipe will rebuild it", bytes);
    case reason::dropped_in_flight_full:
      return fmt::format("dropped: {} is more than FERRY_MAX_IN_FLIGHT, its recipe will rebuild it", bytes);
    case reason::placed_anew:
      return "placed anew: the step went on by the plan for the link as it turned out to be";
    case reason::dropped_instead_of_waiting:
      return fmt::format("dropped: an operation would have waited {} for device memory, the recipe takes {}",
                         duration_words(decision.seen.transfer_us), duration_words(decision.seen.recipe_us));
    case reason::dropped_for_space:
      return fmt::format("dropped: its {} of device memory were needed, its recipe will rebuild it", bytes);
    case reason::evicted_for_space:
      return fmt::format("sent away: its {} of device memory were needed, and its host copy was still good", bytes);
    case reason::restored_resident:
      return "it was there";
    case reason::restored_from_host:
      return words_of_restore(decision);
    case reason::offload_cancelled_by_restore:
      return "it was there: needed again before its copy had ended";
    case reason::prefetch_cancelled_for_space:
      return fmt::format("its way back was given up: the {} of device memory were needed", bytes);
    case reason::fetch_given_up:
      return fmt::format("its way back was not begun: it would have come {} too late, the recipe takes {}",
                         duration_words(decision.seen.transfer_us), duration_words(decision.seen.recipe_us));
    case reason::recomputed_by_plan:
      return "recomputed: it had been dropped" + recipe_words(decision, ", ");
    case reason::recomputed_sooner_than_transfer:
      return words_of_sooner_recipe(decision);
    case reason::recomputed_rows_still_missing:
      return "part of it had arrived; the rest was " + words_of_sooner_recipe(decision);
    case reason::recomputed_ahead:
      return "recomputed ahead, while the stream would have stood still" + recipe_words(decision, ": ");
    case reason::recomputed_after_failed_transfer:
      return "recomputed: its transfer failed" + recipe_words(decision, ", ");
    case reason::unused_at_end_of_step:
      return "never restored in its step";
    default:
      return plain_words(decision);
  }
}

namespace support {

namespace {

constexpr std::size_t named_culprits = 3;

/// Something that cost time, over all steps.
struct cause {
  double us = 0;
  std::string what;
  std::string remedy;
};

/// "h (segment 7) 1.20 ms, ..."; the dearest few, per step.
std::string culprits(std::vector<std::pair<double, std::string>> all, double steps) {
  std::erase_if(all, [](auto const& one) { return one.first <= 0; });
  std::ranges::stable_sort(all, [](auto const& a, auto const& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), named_culprits); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? ": " : ", ", all[i].second, duration_words(all[i].first / steps));
  }
  if (all.size() > named_culprits) text += fmt::format(", {} more", all.size() - named_culprits);
  return text;
}

template <typename Cost>
std::string dear_items(session_stats const& stats, double steps, Cost cost) {
  std::vector<std::pair<double, std::string>> all;
  for (auto const& item : stats.items) all.emplace_back(cost(item), to_string(item.key));
  return culprits(std::move(all), steps);
}

std::string recipe_culprits(session_stats const& stats, double steps) {
  std::map<std::string, double> by_name;
  for (auto const& item : stats.items) by_name[item.key.name.str()] += item.recompute_us;
  std::vector<std::pair<double, std::string>> all;
  all.reserve(by_name.size());
  for (auto const& [name, us] : by_name) all.emplace_back(us, name);
  return culprits(std::move(all), steps);
}

std::string waiting_remedy(session_stats const& stats, config const& settings) {
  std::string text = "raise FERRY_BUDGET, so that less has to be ferried";
  if (settings.policy.kind == policy_kind::offload) text += ", or set FERRY_POLICY=auto, which weighs link and recipe";
  bool const weighs = stats.count(reason::recomputed_sooner_than_transfer) > 0 && settings.stall_tolerance_us > 0;
  if (weighs) text += ", or lower FERRY_STALL_TOLERANCE_US";
  return text;
}

std::string bytes_remedy(session_stats const& stats, config const& settings) {
  std::string text = "raise FERRY_BUDGET";
  if (stats.count(reason::deferred_in_flight_full) > 0) {
    text += fmt::format(", or FERRY_MAX_IN_FLIGHT, which was used up {} times",
                        stats.count(reason::deferred_in_flight_full));
  }
  if (settings.run_ahead > 1) text += ", or lower FERRY_RUN_AHEAD, so that fewer segments want memory at once";
  return text;
}

std::string recompute_remedy(session_stats const& stats, config const& settings) {
  std::string text = "raise FERRY_BUDGET";
  std::uint64_t const full = stats.count(reason::dropped_pinned_full);
  if (full > 0) text += fmt::format(", or FERRY_HOST_BUDGET, which had no room {} times", full);
  if (stats.count(reason::dropped_in_flight_full) > 0) text += ", or FERRY_MAX_IN_FLIGHT";
  if (stats.count(reason::recomputed_sooner_than_transfer) > 0) text += ", or FERRY_STALL_TOLERANCE_US";
  bool const by_hand = settings.policy.kind != policy_kind::automatic && settings.policy.kind != policy_kind::plan;
  if (by_hand) text += ", or set FERRY_POLICY=auto or offload";
  return text;
}

/// Why some could not be checked in their turn; nothing if all were.
std::string unchecked_words(recipe_check_stats const& checks) {
  std::string text;
  auto const add = [&](std::uint64_t times, std::string_view why) {
    if (times > 0) text += fmt::format("{}{} times {}", text.empty() ? "" : ", ", times, why);
  };
  add(checks.inputs_away, "something that it reads was not on the device");
  add(checks.no_room, "there was no room beside its item");
  add(checks.not_comparable, "nobody could look at its item's bytes");
  return text;
}

std::vector<cause> causes_of(session_stats const& stats, config const& settings, double steps) {
  std::vector<cause> causes;
  auto const for_arrivals = [](item_stats const& item) { return item.exposed_us - item.waited_for_bytes_us; };
  auto const for_bytes = [](item_stats const& item) { return item.waited_for_bytes_us; };
  causes.push_back({stats.exposed_us - stats.waited_for_bytes_us,
                    "compute waited for transfers" + dear_items(stats, steps, for_arrivals),
                    waiting_remedy(stats, settings)});
  causes.push_back({stats.waited_for_bytes_us,
                    "compute waited for device bytes on their way out" + dear_items(stats, steps, for_bytes),
                    bytes_remedy(stats, settings)});
  causes.push_back(
      {stats.recompute_us, "recomputed" + recipe_culprits(stats, steps), recompute_remedy(stats, settings)});
  causes.push_back({stats.run_ahead_us, "the host was held back; the device had work meanwhile",
                    "nothing is lost unless the device runs dry; then raise FERRY_RUN_AHEAD"});
  std::erase_if(causes, [](cause const& one) { return one.us <= 0; });
  std::ranges::stable_sort(causes, [](cause const& a, cause const& b) { return a.us > b.us; });
  return causes;
}

}  // namespace

std::string duration_words(double us) {
  constexpr std::array<std::string_view, 3> units{"us", "ms", "s"};
  std::size_t unit = 0;
  while (us >= 999.5 && unit + 1 < units.size()) {
    us /= 1000;
    ++unit;
  }
  int const decimals = us < 9.995 ? 2 : us < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", us, decimals, units[unit]);
}

std::string recipe_check_words(recipe_check_stats const& checks) {
  auto const left_out = unchecked_words(checks);
  if (checks.checked == 0) {
    return "FERRY_VERIFY=recipes has checked no recipe: " +
           (left_out.empty() ? "none had its turn in a step that has ended" : left_out);
  }
  auto text = fmt::format("FERRY_VERIFY=recipes: {} times a recipe ran again and gave its item's bits", checks.checked);
  if (!left_out.empty()) {
    text += fmt::format("; not checked in their turn: {} (FERRY_POLICY=keep and a larger FERRY_BUDGET leave out fewer)",
                        left_out);
  }
  return text;
}

std::string explain_losses(session_stats const& stats, config const& settings) {
  auto const steps = static_cast<double>(std::max<std::uint64_t>(stats.steps, 1));
  auto const causes = causes_of(stats, settings, steps);
  std::string text = causes.empty() ? "no time was lost: nothing was waited for or recomputed\n"
                                    : fmt::format("time per step, over {} steps:\n", stats.steps);
  for (auto const& one : causes) {
    text += fmt::format("{:>9}  {}\n{:>9}  {}\n", duration_words(one.us / steps), one.what, "", one.remedy);
  }
  if (stats.recipe_checks) text += recipe_check_words(*stats.recipe_checks) + '\n';
  for (auto const& one : stats.settings_without_effect) {
    text += fmt::format("{} had no effect: {}\n", one.variable, one.why);
  }
  return text;
}

}  // namespace support

}  // namespace ferry
