// Planning: what one step looks like (`profile`), what it runs on (`hardware`), and what is to become of every item
// (`plan`). Profiles, hardware and plans are versioned JSON files; docs/formats.md describes their fields.
//
// Threads: values; `make_plan` may be called from any thread, and uses others beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/export.h"
#include "ferry/host_device.hpp"
#include "ferry/item.hpp"
#include "ferry/link.hpp"

namespace ferry {

/// Names an item of a profile: plans hold for every micro-batch.
struct item_name {
  std::uint32_t segment = 0;
  std::string name;
  friend bool operator==(item_name const&, item_name const&) = default;
};

/// An item as forward saves it.
struct profile_item {
  std::string name;
  std::size_t bytes = 0;
  std::optional<double> recipe_us;  ///< how long its recipe takes; nothing if it has none
  std::vector<item_name> inputs;    ///< what its recipe reads
  double recipe_flops = 0;          ///< 0 if not known
  friend bool operator==(profile_item const&, profile_item const&) = default;
};

/// One segment. Its items stand in the order in which forward saves them; the first one that reaches beyond the segment
/// (or has no recipe) is its input.
struct profile_segment {
  double forward_us = 0;
  double backward_us = 0;
  std::size_t forward_scratch_bytes = 0;   ///< blocks that are not saved, at the peak of its forward
  std::size_t backward_scratch_bytes = 0;  ///< what its backward needs at once beyond all its items: gradients
  std::vector<profile_item> items;
  friend bool operator==(profile_segment const&, profile_segment const&) = default;
};

/// What one step (of one micro-batch) looks like.
struct profile {
  static constexpr int version = 1;
  std::string name;
  std::vector<profile_segment> segments;
  std::vector<item_name> need_order;  ///< the first restore of each item, in backward's order
  /// As it was measured beside the step's own transfers; counts where the hardware says nothing of it.
  contention beside{};

  /// Throws: `format_error` naming the place and the fix.
  FERRY_API void check() const;
  friend bool operator==(profile const&, profile const&) = default;
};

/// What a step is planned for: memory, link, and rates.
struct hardware {
  static constexpr int version = 1;
  std::string name;
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;  ///< that can be pinned
  link_speed device_to_host;
  link_speed host_to_device;
  contention beside{};     ///< what is left of each rate while others are at work
  double tflops = 0;       ///< sustained matrix products; for profiles built by formula
  double memory_gbps = 0;  ///< device memory
  friend bool operator==(hardware const&, hardware const&) = default;
};

/// One operation of a plan. `position` counts the compute operations (forward, backward, rebuild) before it; `after`
/// names transfers, by their index in `plan::operations`, that must have ended before it may start. These two make a
/// plan safe whatever the timing; the times are predictions.
struct plan_operation {
  enum class kind : std::uint8_t { forward, backward, rebuild, offload, fetch, drop };
  kind what{};
  std::uint32_t segment = 0;
  std::string item;  ///< empty for forward and backward
  std::uint32_t position = 0;
  std::vector<std::uint32_t> after;
  double start_us = 0;
  double end_us = 0;
  double latest_start_us = 0;  ///< a later start delays the step
  friend bool operator==(plan_operation const&, plan_operation const&) = default;
};

/// An item's placement, and why.
struct plan_item {
  item_name item;
  std::size_t bytes = 0;
  placement where = placement::keep;
  std::optional<double> rebuild_us;  ///< what its recipe takes, in case the transfer is late; nothing if it has none
  std::string reason;                ///< "recomputed: 1.1 ms to rebuild, 7.4 ms to fetch, link is full here"
  friend bool operator==(plan_item const&, plan_item const&) = default;
};

/// Bytes of one tier over the step.
struct planned_bytes {
  std::size_t limit = 0;
  std::size_t peak = 0;
  double average = 0;
  friend bool operator==(planned_bytes const&, planned_bytes const&) = default;
};

/// What the recipes of one kind of item come to in a step.
struct recompute_share {
  std::string operation;  ///< the item's name
  std::uint64_t runs = 0;
  double us = 0;
  double flops = 0;
  friend bool operator==(recompute_share const&, recompute_share const&) = default;
};

/// What becomes of each item of a step, in which order, and what that is predicted to cost.
struct plan {
  static constexpr int version = 1;
  std::string profile_name;
  std::string hardware_name;
  std::size_t budget_bytes = 0;
  bool insured = false;
  std::vector<plan_item> items;
  std::vector<plan_operation> operations;  ///< in the order in which the host issues them

  double step_us = 0;         ///< predicted
  double unlimited_us = 0;    ///< with unlimited memory
  double lower_bound_us = 0;  ///< no schedule is faster
  double waiting_us = 0;      ///< compute standing still
  double slowed_us = 0;       ///< what copies beside it cost the computation
  double recompute_us = 0;
  planned_bytes device;
  planned_bytes host;
  std::size_t offloaded_bytes = 0;
  std::size_t fetched_bytes = 0;
  std::vector<recompute_share> recomputed;

  [[nodiscard]] double overhead() const noexcept { return unlimited_us > 0 ? step_us / unlimited_us - 1 : 0; }
  friend bool operator==(plan const&, plan const&) = default;
};

/// What a plan has to keep to, and how long to look for it.
struct plan_options {
  std::size_t budget_bytes = 0;       ///< device bytes for activations
  std::size_t host_budget_bytes = 0;  ///< 0: what the hardware has
  bool insured = true;                ///< what is ferried can be rebuilt from something that stays
  double link_derating = 0.9;         ///< plan with this share of the measured bandwidth
  double fragmentation_margin = 0;    ///< share of the budget left free for gaps
  double time_limit_ms = 500;         ///< for the search; the first plan is made in any case
  /// Moves of each search, whatever time they take: then the same input gives the same plan everywhere. 0: as many as
  /// the time limit permits.
  std::uint64_t effort = 0;
  std::uint64_t seed = 1;
};

/// The best plan found. Throws: `infeasible_budget` with the smallest feasible budget and what sets it; `format_error`.
[[nodiscard]] FERRY_API plan make_plan(profile const& step, hardware const& on, plan_options const& options);

/// The same step on links that are so many times as fast as `on` says: one plan for each of `link_factors`, quicker
/// than one by one. A factor for which no plan fits has none.
[[nodiscard]] FERRY_API std::vector<std::optional<plan>> make_plans(profile const& step, hardware const& on,
                                                                    plan_options const& options,
                                                                    std::span<double const> link_factors);

/// Throws: `plan_mismatch` that names the first difference between the plan and the step.
FERRY_API void require_match(plan const& planned, profile const& step);

/// Files. Throws: `format_error` that names the file, the place and the fix.
[[nodiscard]] FERRY_API profile read_profile(std::filesystem::path const& file);
[[nodiscard]] FERRY_API hardware read_hardware(std::filesystem::path const& file);
[[nodiscard]] FERRY_API plan read_plan(std::filesystem::path const& file);
[[nodiscard]] FERRY_API std::string to_json(profile const& step);
[[nodiscard]] FERRY_API std::string to_json(hardware const& on);
[[nodiscard]] FERRY_API std::string to_json(plan const& planned);

/// Hardware by name, out of lib/plan/gpus.json: "a100-80", "rtx4090", "NVIDIA A100-SXM4-80GB", ... The rates are those
/// of half precision, assumed and not measured. Throws: `invalid_argument` that suggests the nearest names.
[[nodiscard]] FERRY_API hardware named_hardware(std::string_view name);
[[nodiscard]] FERRY_API std::vector<std::string> hardware_names();

}  // namespace ferry
