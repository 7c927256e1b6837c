// Settings. One table in lib/support/config.cpp gives each its name here, its environment variable, its
// line in `ferry env`, its row and its section in docs/settings.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/cuda_device.hpp"
#include "ferry/export.h"
#include "ferry/host_device.hpp"
#include "ferry/sim_device.hpp"

namespace ferry {

/// Bytes, or a share of some total that is known only later.
struct byte_amount {
  std::size_t bytes = 0;
  double fraction = 0;  ///< used instead of `bytes` when above zero

  static byte_amount exactly(std::size_t bytes) noexcept { return {bytes, 0}; }
  static byte_amount share(double fraction) noexcept { return {0, fraction}; }
  [[nodiscard]] FERRY_API std::size_t of(std::size_t total) const noexcept;
  friend bool operator==(byte_amount, byte_amount) noexcept = default;
};

enum class policy_kind : std::uint8_t { automatic, keep, recompute, offload, every, sqrt, selective, plan };

/// The policy by which placements are decided; see docs/settings.md for what each does.
struct policy_choice {
  policy_kind kind = policy_kind::automatic;
  unsigned every = 0;  ///< with `policy_kind::every`
  std::string file{};  ///< with `policy_kind::plan`

  friend bool operator==(policy_choice const&, policy_choice const&) noexcept = default;
};

/// What is verified: copies, recipes, or both.
enum class verify_mode : std::uint8_t { off = 0, checksum = 1, recipes = 2, checksum_and_recipes = 3 };
/// What was chosen includes `what`.
[[nodiscard]] constexpr bool verifies(verify_mode chosen, verify_mode what) noexcept {
  return (static_cast<unsigned>(chosen) & static_cast<unsigned>(what)) != 0;
}
enum class log_level : std::uint8_t { off, error, warning, info, debug };

/// One value per link direction.
struct link_value {
  double device_to_host = 0;
  double host_to_device = 0;
  bool automatic = false;
};

/// GB/s of the link from one step of a session on; steps count from 0.
struct link_change {
  std::uint64_t step = 0;
  double device_to_host = 0;
  double host_to_device = 0;
  friend bool operator==(link_change const&, link_change const&) noexcept = default;
};

/// Every setting of Ferry. docs/settings.md has the environment variable of each, and what it affects.
struct config {
  std::string device = "auto";
  byte_amount budget = byte_amount::share(0.7);       ///< device bytes for activations
  bool budget_given = false;                          ///< FERRY_BUDGET was `set`, to whatever value
  byte_amount host_budget = byte_amount::share(0.5);  ///< pinned bytes
  policy_choice policy;
  std::size_t min_bytes = 4096;                         ///< smaller items are kept
  byte_amount max_in_flight = byte_amount::share(1.0);  ///< bytes offloading at once, or a share of the budget
  std::size_t chunk_bytes = std::size_t{1} << 20;       ///< transfer unit
  unsigned run_ahead = 1;                               ///< segments the host may be ahead of the device
  bool insure = true;                                   ///< plans ferry only what could be rebuilt
  bool adapt = true;                                    ///< plan again, and tune, when steps are not as forecast
  unsigned plan_effort = 0;                             ///< moves of each search for a plan; 0: by the clock
  double stall_tolerance_us = 50;                       ///< wait this much longer than the recipe before taking it
  verify_mode verify = verify_mode::off;
  bool advise = true;        ///< an error for want of room says which budget is enough
  std::string trace_file;    ///< where the session writes what happened when, for Perfetto
  std::string stats_file;    ///< where the session writes its statistics, a line of JSON for each step
  std::string profile_file;  ///< where the session writes at its end what a step looks like, for `ferry plan`
  log_level log = log_level::warning;

  // The most that the device hands out. 0 is for what suits it: 1 and 2 GiB on the host and the sim device, on a GPU
  // what is free there and half of the machine's memory.
  std::size_t device_bytes = 0;
  std::size_t pinned_bytes = 0;

  // The host device; the link also of the sim device.
  link_value link_gbps{.automatic = true};
  /// Speeds over the steps, the first from step 0 on, in ascending order; goes before `link_gbps` unless empty.
  std::vector<link_change> link_schedule;
  link_value link_latency_us{10, 10, false};
  unsigned compute_threads = 0;  ///< 0: `auto`
  bool check_order = false;

  std::vector<std::string> given;  ///< variables that were `set`, to a value other than the default's

  /// Defaults, overridden by `FERRY_*` environment variables. Throws: `setting_error` that names the
  /// variable, its value and what is accepted; unknown `FERRY_*` names are errors too.
  [[nodiscard]] FERRY_API static config from_env();
  /// The same from "NAME=value" entries, as in `environ`.
  [[nodiscard]] FERRY_API static config from_entries(std::vector<std::string> const& entries);

  /// Sets one setting by its environment variable's name. Throws: `setting_error`.
  FERRY_API void set(std::string_view variable, std::string_view value);
};

/// One setting as `ferry env` shows it.
struct setting_description {
  std::string variable;  ///< "FERRY_BUDGET"
  std::string value;     ///< in the form that the variable accepts
  std::string initial;   ///< the default, in the same form
  std::string accepted;  ///< what it accepts
  std::string meaning;   ///< one line
  std::string member;    ///< of `config`: "budget"
  std::string group;     ///< the heading that it stands under in docs/settings.md
  std::string details;   ///< what it affects and when to change it, in Markdown
};
[[nodiscard]] FERRY_API std::vector<setting_description> describe_settings(config const& current);

/// Throws: `setting_error`. Accepts "4096", "512KiB", "1.5GiB", "2GB"; a bare number counts bytes.
[[nodiscard]] FERRY_API std::size_t parse_bytes(std::string_view text);
/// "1.50 GiB"
[[nodiscard]] FERRY_API std::string format_bytes(std::size_t bytes);

/// The device that `config.device` names; `auto` is the first GPU where there is one to use, else the host device.
/// Throws: `no_cuda` for a GPU that is not there.
[[nodiscard]] FERRY_API std::unique_ptr<device> make_device(config const& settings);
/// The options of the host device that `settings` describe; measures the machine if the link is `auto`.
[[nodiscard]] FERRY_API host_device_options host_options(config const& settings);
/// The options of the sim device that `settings` describe: with real memory, so that any program runs on it, and
/// kernels that cost what an A100's memory takes for their accesses. A link on `auto` is PCIe 4's with 16 lanes.
[[nodiscard]] FERRY_API sim_device_options sim_options(config const& settings);
/// The options of the CUDA device that `settings` name: "cuda" is the first GPU.
[[nodiscard]] FERRY_API cuda_device_options cuda_options(config const& settings);

}  // namespace ferry
