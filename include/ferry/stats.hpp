// What a session did: bytes by tier, transfers, waiting, recomputations, and why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/export.h"
#include "ferry/item.hpp"

namespace ferry {

/// Bytes of one tier or budget.
struct tier_stats {
  std::size_t limit_bytes = 0;
  std::size_t now_bytes = 0;
  std::size_t peak_bytes = 0;
  double average_bytes = 0;  ///< over the time between `begin_step` and `end_step`
  double fragmentation = 0;  ///< 1 - largest free block / free bytes
};

/// One direction of the link.
struct link_stats {
  std::uint64_t transfers = 0;
  std::uint64_t abandoned = 0;  ///< given up between chunks
  std::uint64_t failed = 0;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  double busy_us = 0;  ///< chunks under way, by the device's marks
  double gbps = 0;     ///< the running estimate
};

/// Why an item went where it went. Each is counted; `to_string` gives the words.
enum class reason : std::uint8_t {
  kept_by_policy,
  kept_below_min_bytes,  ///< FERRY_MIN_BYTES
  kept_no_recipe,        ///< the policy would drop it, but nothing can rebuild it
  kept_pinned_full,      ///< FERRY_HOST_BUDGET, and no recipe
  kept_in_flight_full,   ///< larger than FERRY_MAX_IN_FLIGHT, and no recipe
  offloaded_by_policy,
  deferred_in_flight_full,  ///< offloaded later: FERRY_MAX_IN_FLIGHT was used up
  dropped_by_policy,
  dropped_pinned_full,  ///< FERRY_HOST_BUDGET; its recipe rebuilds it
  dropped_in_flight_full,
  dropped_after_failed_offload,
  kept_after_failed_offload,
  placed_anew,                 ///< in the midst of its step, by the plan for the link as it turned out to be
  dropped_instead_of_waiting,  ///< an operation would have waited for device bytes longer than its recipe takes
  dropped_for_space,           ///< rebuilt earlier, and its bytes were needed before it was
  evicted_for_space,           ///< its host copy was still good and its device bytes were needed
  restored_resident,
  restored_from_host,
  offload_cancelled_by_restore,  ///< needed again before its copy had finished
  prefetch_cancelled_for_space,
  fetch_given_up,  ///< planned, but it would have come later than its recipe will be over
  recomputed_by_plan,
  recomputed_sooner_than_transfer,
  recomputed_rows_still_missing,  ///< the same, of an item that had arrived in part
  recomputed_ahead,               ///< while the stream would have stood still
  recomputed_after_failed_transfer,
  unused_at_end_of_step,
  count_
};
inline constexpr std::size_t reason_count = static_cast<std::size_t>(reason::count_);
[[nodiscard]] FERRY_API std::string_view to_string(reason why) noexcept;

/// What was foreseen when a decision was made; 0 where it was not known.
struct outlook {
  double transfer_us =
      0;                 ///< how long the stream would stand still for the transfer, once it has done what it has to do
  double recipe_us = 0;  ///< how long the recipe would take, with whatever its inputs need first
};

/// One decision about one item.
struct decision_record {
  item_key key;
  std::size_t bytes = 0;
  reason why = reason::kept_by_policy;
  outlook seen;
  double at_us = 0;    ///< since the session began, by the device's clock
  double took_us = 0;  ///< what it then cost: the recipe's run, or how long its consumer stood still
};

/// "recomputed: would have waited 4.10 ms for 18.0 MiB, recipe took 1.20 ms"
[[nodiscard]] FERRY_API std::string explain(decision_record const& decision);

/// A setting that was given and changed nothing.
struct idle_setting {
  std::string variable;  ///< "FERRY_CHUNK_BYTES"
  std::string why;       ///< "nothing was copied"
};

/// A setting in force.
struct used_setting {
  std::string variable;  ///< "FERRY_BUDGET"
  std::string value;     ///< in the form that the variable accepts
  bool given = false;    ///< away from its default
};

/// One item over all steps, every micro-batch on its own.
struct item_counts {
  std::size_t bytes = 0;
  std::uint64_t saves = 0;
  std::uint64_t restores = 0;
  std::uint64_t offloads = 0;
  std::uint64_t recomputes = 0;
  double hidden_us = 0;            ///< transfer time that nothing waited for
  double exposed_us = 0;           ///< time that compute stood still for it, or for its device bytes
  double waited_for_bytes_us = 0;  ///< of that, for its device bytes
  double recipe_us = 0;            ///< how long its recipe took last time; 0 until it has run
  double recompute_us = 0;         ///< all runs of its recipe
  reason last = reason::kept_by_policy;
};

/// The same with its name.
struct item_stats : item_counts {
  item_key key;
};

/// With FERRY_VERIFY=recipes: what came of the items whose turn it was.
struct recipe_check_stats {
  std::uint64_t checked = 0;         ///< the recipe ran again and gave the same bits
  std::uint64_t inputs_away = 0;     ///< it could not run: something that it reads was not on the device
  std::uint64_t no_room = 0;         ///< it could not run: nothing was free for what it writes
  std::uint64_t not_comparable = 0;  ///< nobody can look at the item's bytes, or what was to write them has failed
};

/// What a session did, from its beginning to now.
struct session_stats {
  std::uint64_t steps = 0;        ///< without those that were begun as evaluations
  std::uint64_t evaluations = 0;  ///< steps without a backward, announced or not
  std::uint64_t saves = 0;
  std::uint64_t restores = 0;
  std::uint64_t recomputes = 0;
  double recompute_us = 0;
  double recomputed_ahead_us = 0;  ///< of that, done while the stream would have stood still
  double hidden_us = 0;
  double exposed_us = 0;           ///< compute stood still for transfers: for arrivals, and for device bytes
  double waited_for_bytes_us = 0;  ///< of that, for device bytes on their way out
  double host_waited_us = 0;       ///< the host for such bytes; the device may have been busy meanwhile
  std::uint64_t plans = 0;         ///< taken over because steps were not as forecast
  std::uint64_t plan_changes = 0;  ///< within a step, for the link as it was found
  double run_ahead_us = 0;         ///< the host held back by FERRY_RUN_AHEAD
  tier_stats device;
  tier_stats pinned;
  tier_stats in_flight;
  std::size_t adopted_bytes = 0;  ///< of `device.now_bytes`, the trainer's own memory
  link_stats device_to_host;
  link_stats host_to_device;
  std::array<std::uint64_t, reason_count> reasons{};
  std::optional<recipe_check_stats> recipe_checks;  ///< nothing unless FERRY_VERIFY has `recipes`
  std::vector<item_stats> items;
  /// Settings given by name, away from their default, that no decision of the session depended on.
  std::vector<idle_setting> settings_without_effect;
  std::vector<used_setting> settings;  ///< all, in the order of `ferry env`

  [[nodiscard]] std::uint64_t count(reason why) const noexcept { return reasons[static_cast<std::size_t>(why)]; }
};

/// The same as JSON text, one object, keys as the members are called, without `recipe_checks` where there is none; on
/// one line if `indent` is negative.
[[nodiscard]] FERRY_API std::string to_json(session_stats const& stats, int indent = 2);

}  // namespace ferry
