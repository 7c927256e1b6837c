// What `ferry report` knows of runs, whichever files it comes from: steps, items, lanes of some steps, settings. All
// texts in here are UTF-8 without control characters and of limited length; all numbers are finite and not negative, or
// `unknown`.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry::command {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
[[nodiscard]] inline bool is_known(double value) { return !std::isnan(value); }

enum class tier_kind : std::uint8_t { device, host, in_flight, disk };
inline constexpr std::size_t tier_kinds = 4;
using by_tier = std::array<double, tier_kinds>;
inline constexpr by_tier unknown_tiers{unknown, unknown, unknown, unknown};

/// One step: times of the compute stream unless the name says otherwise. Which are known depends on the files.
struct step_row {
  double number = unknown;
  double step_us = unknown;
  double host_us = unknown;
  double planned_us = unknown;
  double forward_us = unknown;  ///< without what stands below
  double backward_us = unknown;
  double recompute_us = unknown;
  double arrival_us = unknown;  ///< standing still for transfers
  double bytes_us = unknown;    ///< standing still for device bytes
  double hidden_us = unknown;
  double host_waited_us = unknown;
  double run_ahead_us = unknown;
  by_tier peak_bytes = unknown_tiers;
  double out_bytes = unknown;
  double in_bytes = unknown;
  double out_gbps = unknown;
  double in_gbps = unknown;
  double abandoned = unknown;  ///< transfers
  double failed = unknown;
  double wall_us = unknown;  ///< the trainer's whole step, with the optimizer
  double loss = unknown;
  double tokens_per_second = unknown;
};

/// Every number of a step, for what treats them alike.
struct step_column {
  std::string_view name;
  double step_row::*value;
};
inline constexpr std::array step_columns{
    step_column{"number", &step_row::number},
    step_column{"step_us", &step_row::step_us},
    step_column{"host_us", &step_row::host_us},
    step_column{"planned_us", &step_row::planned_us},
    step_column{"forward_us", &step_row::forward_us},
    step_column{"backward_us", &step_row::backward_us},
    step_column{"recompute_us", &step_row::recompute_us},
    step_column{"arrival_us", &step_row::arrival_us},
    step_column{"bytes_us", &step_row::bytes_us},
    step_column{"hidden_us", &step_row::hidden_us},
    step_column{"host_waited_us", &step_row::host_waited_us},
    step_column{"run_ahead_us", &step_row::run_ahead_us},
    step_column{"out_bytes", &step_row::out_bytes},
    step_column{"in_bytes", &step_row::in_bytes},
    step_column{"out_gbps", &step_row::out_gbps},
    step_column{"in_gbps", &step_row::in_gbps},
    step_column{"abandoned", &step_row::abandoned},
    step_column{"failed", &step_row::failed},
    step_column{"wall_us", &step_row::wall_us},
    step_column{"loss", &step_row::loss},
    step_column{"tokens_per_second", &step_row::tokens_per_second},
};

/// One item over all steps.
struct item_row {
  std::string label;  ///< "h (segment 3, micro-batch 0)"
  std::string name;
  double segment = unknown;
  double micro_batch = unknown;
  double bytes = unknown;
  double saves = unknown;
  double offloads = 0;
  double recomputes = 0;
  double exposed_us = 0;
  double hidden_us = unknown;
  double recompute_us = 0;
  std::map<std::string, double> reasons;  ///< how often each
  std::string last;                       ///< the last that is known, where counts are not; at best one that places it
  std::string words;                      ///< of the last decision that is more than "it was there"
};

/// Of a reason's name: it says where the item went, not how it came back.
[[nodiscard]] inline bool places_item(std::string_view reason) {
  return reason.starts_with("kept_") || reason.starts_with("offloaded_") || reason.starts_with("dropped_");
}

enum class span_kind : std::uint8_t {
  forward,
  backward,
  rebuild,
  wait,
  shortage,
  offload,
  fetch,
  step,
  run_ahead,
  other
};
inline constexpr std::array<std::string_view, 10> span_kind_names{
    "forward", "backward", "rebuild", "wait", "short", "offload", "fetch", "step", "run_ahead", "other"};

inline constexpr std::uint32_t no_index = std::numeric_limits<std::uint32_t>::max();

struct traced_slice {
  double from_us = 0;
  double to_us = 0;
  span_kind what = span_kind::other;
  std::uint8_t lane = 0;          ///< index into `trace_data::lanes`
  std::uint32_t name = no_index;  ///< index into `trace_data::names`
  std::uint32_t item = no_index;  ///< index into `run::items`
  double bytes = unknown;
  std::uint32_t outcome = no_index;  ///< of a copy that did not complete; index into `trace_data::names`
  double arrived_bytes = unknown;
};
[[nodiscard]] inline bool is_stretch(traced_slice const& one) {
  return one.what == span_kind::forward || one.what == span_kind::backward;
}

struct traced_decision {
  double at_us = 0;
  std::uint32_t item = no_index;
  std::uint32_t reason = no_index;  ///< index into `trace_data::names`
  std::string words;
  double transfer_us = unknown;  ///< foreseen
  double recipe_us = unknown;
};

struct traced_bytes {
  double at_us = 0;
  tier_kind of = tier_kind::device;
  double bytes = 0;
};

/// A step with all that its trace tells.
struct traced_step {
  double number = unknown;
  double from_us = 0;
  double to_us = 0;
  std::vector<traced_slice> slices;
  std::vector<traced_decision> decisions;
  std::vector<traced_bytes> bytes;
  std::size_t left_out = 0;  ///< events beyond what is held

  [[nodiscard]] std::size_t events() const { return slices.size() + decisions.size() + bytes.size(); }
  [[nodiscard]] double took_us() const { return to_us - from_us; }
};

/// Bytes of a tier over the whole run, in equal parts of time.
struct byte_curve {
  double part_us = 1;
  std::vector<double> least;  ///< of each part; `unknown` where nothing changed
  std::vector<double> most;
};

struct trace_data {
  std::vector<std::string> lanes;
  std::vector<std::string> names;
  std::vector<traced_step> steps;  ///< some, in their order
  std::size_t all_steps = 0;
  std::array<byte_curve, tier_kinds> curves;
  double end_us = 0;
};

struct setting_row {
  std::string variable;
  std::string value;
  bool given = false;
  std::string no_effect;  ///< why, if it had none
};

enum class run_source : std::uint8_t { trace, simulated_trace, stats, train, simulate };

struct run {
  std::string label;
  std::vector<run_source> sources;
  std::vector<std::string> files;
  std::string title;                                       ///< "ferry on host", the name of a profile
  std::vector<std::pair<std::string, std::string>> facts;  ///< what else the files tell, for showing
  std::string policy;
  std::vector<step_row> steps;
  std::vector<item_row> items;
  std::map<std::string, double> reasons;  ///< how often each, over all steps
  by_tier limit_bytes = unknown_tiers;
  by_tier peak_bytes = unknown_tiers;
  by_tier average_bytes = unknown_tiers;
  double link_busy_us = unknown;  ///< of the busier direction, over all steps
  double keep_all_bytes = unknown;
  double unlimited_us = unknown;  ///< a step's, by the plan
  std::vector<setting_row> settings;
  std::optional<trace_data> trace;
  std::vector<std::string> notes;  ///< what is missing or was left out
};

/// `ferry train --compare --json`
struct comparison_row {
  std::string policy;
  bool fits = false;
  std::string failure;
  double peak_device_bytes = unknown;
  double peak_pinned_bytes = unknown;
  double relative_time = unknown;
  double recompute_share = unknown;
  double waiting_us = unknown;
  double tokens_per_second = unknown;
  double final_loss = unknown;
  bool identical = false;
};
struct policy_comparison {
  std::string label;
  double budget_bytes = unknown;
  double keep_all_bytes = unknown;
  std::vector<comparison_row> rows;
};

/// `ferry bench policies --json`
struct bench_point {
  double budget_bytes = unknown;
  bool fits = false;
  std::string failure;
  double peak_bytes = unknown;
  double host_peak_bytes = unknown;
  double step_us = unknown;
  double overhead = unknown;
  double recompute_us = unknown;
  double waiting_us = unknown;
  double offloaded_bytes = unknown;
  std::string knob;
};
struct bench_curve {
  std::string name;
  std::string kind;
  std::string words;
  std::vector<bench_point> points;
};
struct bench_advice {
  std::string variable;
  std::string value;
  std::string why;
};
struct bench_dominated {
  double budget_bytes = unknown;
  std::string by;
  double ratio = unknown;
};
struct policy_bench {
  std::string label;
  std::string device;
  std::string profile;
  std::string hardware;
  double keep_all_bytes = unknown;
  double unlimited_us = unknown;
  std::vector<bench_curve> curves;
  std::vector<bench_dominated> dominated;
  std::vector<bench_advice> recommended;
};

/// Anything else that consists of rows of plain values: the other benches.
struct plain_table {
  std::string label;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::size_t left_out = 0;
};

struct run_data {
  std::vector<run> runs;
  std::vector<policy_comparison> comparisons;
  std::vector<policy_bench> benches;
  std::vector<plain_table> tables;
  std::vector<std::string> notes;
};

}  // namespace ferry::command
