// The settings' one table, and what is derived from it: the environment, `ferry env`, docs/settings.md.
#include "ferry/config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "support/parse.hpp"
#include "support/setting_details.hpp"
#include "support/text.hpp"

namespace ferry {

namespace {

using support::bad_value;

struct setting {
  std::string_view variable;
  std::string_view meaning;
  std::string_view accepted;
  void (*set)(config& settings, std::string_view text);
  std::string (*get)(config const& settings);
};

/// A row whose value lies in one member, read and written by the given functions.
template <auto Member, auto Read, auto Write>
constexpr setting row(std::string_view variable, std::string_view meaning, std::string_view accepted) {
  return {variable, meaning, accepted, [](config& settings, std::string_view text) { settings.*Member = Read(text); },
          [](config const& settings) { return std::string(Write(settings.*Member)); }};
}

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kib = 1024;
constexpr std::size_t gib = kib * kib * kib;

template <std::size_t Least, std::size_t Most>
std::size_t bytes_within(std::string_view text) {
  return support::read_bytes_within(text, Least, Most);
}

template <unsigned Least, unsigned Most>
unsigned count_within(std::string_view text) {
  return support::read_count(text, Least, Most);
}

std::string count_text(unsigned count) { return fmt::format("{}", count); }

constexpr std::array<std::string_view, 5> log_words{"off", "error", "warning", "info", "debug"};
constexpr std::array<std::string_view, 2> switch_words{"off", "on"};

/// Enumerations are numbered in the order of their words.
template <typename Value, auto const& Words>
Value word_value(std::string_view text) {
  return static_cast<Value>(support::read_word(text, Words));
}

template <typename Value, auto const& Words>
std::string_view word_text(Value value) {
  return Words.at(static_cast<std::size_t>(value));
}

std::string device_name(std::string_view text) {
  constexpr std::array<std::string_view, 4> names{"auto", "host", "sim", "cuda"};
  constexpr std::string_view numbered = "cuda:";
  constexpr unsigned most_devices = 1023;
  std::string_view const value = support::trimmed(text);
  if (value.starts_with(numbered)) {
    return fmt::format("cuda:{}", support::read_count(value.substr(numbered.size()), 0, most_devices));
  }
  return std::string(names.at(support::read_word(value, names)));
}

std::string const& same_text(std::string const& text) { return text; }

// Slower would look like a hang; faster than any memory is a slip in the unit.
constexpr double least_gbps = 0.001;
constexpr double most_gbps = 10'000;
constexpr double most_latency_us = 1'000'000;
constexpr double most_tolerance_us = 1e9;

void require_gbps(std::initializer_list<double> values) {
  for (double const gbps : values) {
    if (gbps > 0 && gbps < least_gbps) throw bad_value("out of range");
  }
}

/// One setting of two members: a schedule, or a speed for all steps.
void set_link_gbps(config& settings, std::string_view text) {
  link_value value{.automatic = true};
  std::vector<link_change> schedule;
  if (text.find('@') != std::string_view::npos) {
    schedule = support::read_link_schedule(text, 0, most_gbps);
    for (auto const& change : schedule) require_gbps({change.device_to_host, change.host_to_device});
    value = {schedule.front().device_to_host, schedule.front().host_to_device};
  } else if (support::trimmed(text) != "auto") {
    value = support::read_link_pair(text, 0, most_gbps);
    require_gbps({value.device_to_host, value.host_to_device});
  }
  settings.link_gbps = value;
  settings.link_schedule = std::move(schedule);
}

std::string link_gbps_text(config const& settings) {
  if (settings.link_schedule.empty()) return support::write_link(settings.link_gbps);
  return support::write_link_schedule(settings.link_schedule);
}

link_value link_latency_us(std::string_view text) { return support::read_link_pair(text, 0, most_latency_us); }

/// A word, or several with commas in between.
verify_mode verify_words(std::string_view text) {
  constexpr std::array<std::string_view, 3> words{"off", "checksum", "recipes"};  // the others are bits
  unsigned chosen = 0;
  bool only = true;
  for (std::size_t comma = 0; comma != std::string_view::npos; only = false) {
    comma = text.find(',');
    auto const one = static_cast<unsigned>(support::read_word(text.substr(0, comma), words));
    bool const last = comma == std::string_view::npos;
    if (one == 0 && !(only && last)) throw bad_value("off goes with nothing else");
    if ((chosen & one) != 0) throw bad_value("one of the choices is named twice");
    chosen |= one;
    if (!last) text.remove_prefix(comma + 1);
  }
  return static_cast<verify_mode>(chosen);
}

std::string_view verify_text(verify_mode chosen) {
  constexpr std::array<std::string_view, 4> texts{"off", "checksum", "recipes", "checksum,recipes"};
  return texts.at(static_cast<std::size_t>(chosen));
}

/// 0 stands for auto.
template <unsigned Most>
unsigned count_or_auto(std::string_view text) {
  return support::trimmed(text) == "auto" ? 0 : support::read_count(text, 1, Most);
}
std::string count_or_auto_text(unsigned count) { return count == 0 ? "auto" : count_text(count); }

double tolerance_us(std::string_view text) { return support::read_number(text, 0, most_tolerance_us); }

/// A path is taken as it stands, blanks included.
std::string file_path(std::string_view text) {
  if (text.empty()) throw bad_value("empty");
  if (text.find('\0') != std::string_view::npos) throw bad_value("not a file path");
  return text == "off" ? std::string{} : std::string(text);
}

std::string file_path_text(std::string const& path) {
  if (path.empty()) return "off";
  return path == "off" ? "./off" : path;
}

/// 0 stands for auto.
std::size_t memory_bytes(std::string_view text) {
  return support::trimmed(text) == "auto" ? 0 : bytes_within<1, no_limit>(text);
}
std::string memory_bytes_text(std::size_t bytes) { return bytes == 0 ? "auto" : support::write_bytes(bytes); }

constexpr std::string_view memory_words = "auto, or bytes with an optional unit (512MiB, 12GiB)";
constexpr std::string_view bytes_words = "bytes with an optional unit (512MiB, 12GiB)";
/// Also nothing at all.
byte_amount amount_or_nothing(std::string_view text) {
  return support::trimmed(text) == "0" ? byte_amount{} : support::read_amount(text);
}

constexpr std::string_view amount_words = "bytes with an optional unit (512MiB, 12GiB) or a share (70%)";

using support::read_amount;
using support::read_policy;
using support::write_amount;
using support::write_bytes;
using support::write_link;
using support::write_number;
using support::write_policy;

constexpr std::array settings_table{
    row<&config::device, device_name, same_text>("FERRY_DEVICE", "the device to run on",
                                                 "auto, host, sim, cuda or cuda:N"),
    row<&config::budget, read_amount, write_amount>(
        "FERRY_BUDGET", "device bytes for activations, or a share of the device's memory", amount_words),
    row<&config::host_budget, amount_or_nothing, write_amount>(
        "FERRY_HOST_BUDGET", "pinned bytes for offloaded items, or a share of the device's pinned memory",
        "bytes with an optional unit (512MiB, 12GiB), 0 for none, or a share (70%)"),
    row<&config::policy, read_policy, write_policy>(
        "FERRY_POLICY", "what becomes of an item between its uses",
        "auto, keep, recompute, offload, selective, every=N, sqrt or plan=FILE"),
    row<&config::min_bytes, bytes_within<0, no_limit>, write_bytes>("FERRY_MIN_BYTES", "smaller items are kept",
                                                                    bytes_words),
    row<&config::max_in_flight, read_amount, write_amount>(
        "FERRY_MAX_IN_FLIGHT", "bytes offloading at once, or a share of the device budget", amount_words),
    row<&config::chunk_bytes, bytes_within<64 * kib, gib>, write_bytes>(
        "FERRY_CHUNK_BYTES", "transfer unit; a transfer can be abandoned between two", "64KiB to 1GiB"),
    row<&config::run_ahead, count_within<1, 64>, count_text>(
        "FERRY_RUN_AHEAD", "segments that the host may be ahead of the device", "1 to 64"),
    row<&config::insure, word_value<bool, switch_words>, word_text<bool, switch_words>>(
        "FERRY_INSURE", "plans ferry only what could be rebuilt from what stays, unless that costs too much",
        "on or off"),
    row<&config::adapt, word_value<bool, switch_words>, word_text<bool, switch_words>>(
        "FERRY_ADAPT", "plan again when steps are not as forecast", "on or off"),
    row<&config::plan_effort, count_or_auto<10'000'000>, count_or_auto_text>(
        "FERRY_PLAN_EFFORT",
        "moves of each search for a plan, whatever time they take, so that a step's plan is always the same; auto "
        "searches by the clock",
        "auto, or 1 to 10000000"),
    row<&config::stall_tolerance_us, tolerance_us, write_number>(
        "FERRY_STALL_TOLERANCE_US", "how much later than its recipe a transfer may be before the recipe is taken",
        "microseconds, 0 to 1e9"),
    row<&config::verify, verify_words, verify_text>(
        "FERRY_VERIFY", "verify every round trip over the link, and that recipes give the bits of their items",
        "off, checksum, recipes, or checksum,recipes"),
    row<&config::advise, word_value<bool, switch_words>, word_text<bool, switch_words>>(
        "FERRY_ADVISE", "an error for want of device memory says which budget is enough", "on or off"),
    row<&config::trace_file, file_path, file_path_text>(
        "FERRY_TRACE", "file for what happened when, as trace events for Perfetto", "a file path or off"),
    row<&config::stats_file, file_path, file_path_text>(
        "FERRY_STATS", "file for the session's statistics: a line of JSON for each step, and one for all",
        "a file path or off"),
    row<&config::profile_file, file_path, file_path_text>(
        "FERRY_PROFILE", "file for what a step looks like, measured, for `ferry plan --profile`", "a file path or off"),
    row<&config::log, word_value<log_level, log_words>, word_text<log_level, log_words>>(
        "FERRY_LOG", "what is reported on standard error", "off, error, warning, info or debug"),
    row<&config::device_bytes, memory_bytes, memory_bytes_text>(
        "FERRY_DEVICE_BYTES", "the device's memory; auto is 1GiB on host and sim, on cuda what the GPU has free",
        memory_words),
    row<&config::pinned_bytes, memory_bytes, memory_bytes_text>(
        "FERRY_PINNED_BYTES", "its pinned memory; auto is 2GiB on host and sim, on cuda half of the machine's memory",
        memory_words),
    setting{
        "FERRY_LINK_GBPS",
        "host and sim device: GB/s of its link; auto balances it with this machine's compute, on sim it is PCIe 4's "
        "25; 0 is unpaced; 5@0,1.5@20 changes it at those steps of a session",
        "auto, 0, 0.001 to 10000, two of these numbers as d2h,h2d, or for every speed the step it begins at, from 0: "
        "VALUE@STEP or D2H/H2D@STEP, separated by commas",
        set_link_gbps, link_gbps_text},
    row<&config::link_latency_us, link_latency_us, write_link>("FERRY_LINK_LATENCY_US",
                                                               "host and sim device: latency of its link per transfer",
                                                               "microseconds, 0 to 1000000, or two numbers as d2h,h2d"),
    row<&config::compute_threads, count_or_auto<1024>, count_or_auto_text>(
        "FERRY_COMPUTE_THREADS",
        "host device: threads of a compute stream; auto leaves a core of several to the copies", "auto, or 1 to 1024"),
    row<&config::check_order, word_value<bool, switch_words>, word_text<bool, switch_words>>(
        "FERRY_CHECK_ORDER", "host device: report stream-order mistakes", "on or off"),
};

static_assert(std::ranges::equal(settings_table, support::setting_details, {}, &setting::variable,
                                 &support::setting_detail::variable),
              "setting_details.hpp has an entry for every setting, in the order of the table");

constexpr std::string_view prefix = "FERRY_";
/// Belongs to the tests, which may run in the same environment.
constexpr std::string_view tests_variable = "FERRY_REQUIRE_GPU";

std::string unknown_setting(std::string_view variable) {
  std::array<std::string_view, settings_table.size()> names{};
  std::transform(settings_table.begin(), settings_table.end(), names.begin(), [](auto const& s) { return s.variable; });
  std::string_view const meant = support::nearest(variable, names);
  std::string const hint = meant.empty() ? "" : fmt::format(" did you mean {}?", meant);
  std::string shown = support::quoted(variable);
  return fmt::format("{} is not a setting;{} `ferry env` lists them all", shown.substr(1, shown.size() - 2), hint);
}

}  // namespace

std::size_t byte_amount::of(std::size_t total) const noexcept {
  if (!(fraction > 0)) return bytes;
  if (fraction >= 1) return total;
  return std::min(total, static_cast<std::size_t>(std::floor(static_cast<double>(total) * fraction)));
}

void config::set(std::string_view variable, std::string_view value) {
  auto const* const found = std::find_if(settings_table.begin(), settings_table.end(),
                                         [&](setting const& s) { return s.variable == variable; });
  if (found == settings_table.end()) throw setting_error(unknown_setting(variable));
  try {
    found->set(*this, value);
  } catch (bad_value const& problem) {
    throw setting_error(
        fmt::format("{}={}: {}; accepted: {}", variable, support::quoted(value), problem.what(), found->accepted));
  }
  budget_given = budget_given || variable == "FERRY_BUDGET";
  std::erase(given, variable);
  if (found->get(*this) != found->get(config{})) given.emplace_back(variable);
}

config config::from_entries(std::vector<std::string> const& entries) {
  config result;
  for (std::string const& entry : entries) {
    std::string_view const text = entry;
    std::string_view const variable = text.substr(0, text.find('='));
    if (!variable.starts_with(prefix) || variable == tests_variable) continue;
    result.set(variable, text.substr(std::min(variable.size() + 1, text.size())));
  }
  return result;
}

config config::from_env() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return from_entries(entries);
}

std::vector<setting_description> describe_settings(config const& current) {
  config const initial;
  std::vector<setting_description> rows;
  rows.reserve(settings_table.size());
  for (std::size_t i = 0; i < settings_table.size(); ++i) {
    setting const& s = settings_table.at(i);
    support::setting_detail const& more = support::setting_details.at(i);
    rows.push_back({std::string(s.variable), s.get(current), s.get(initial), std::string(s.accepted),
                    std::string(s.meaning), std::string(more.member), std::string(more.group),
                    std::string(more.details)});
  }
  return rows;
}

std::size_t parse_bytes(std::string_view text) {
  try {
    return support::read_bytes(text);
  } catch (bad_value const& problem) {
    throw setting_error(fmt::format("{}: {}; accepted: {}", support::quoted(text), problem.what(), bytes_words));
  }
}

std::string format_bytes(std::size_t bytes) {
  constexpr std::array<std::string_view, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double rounds_to_next = 1023.5;  // "1024 KiB" would be the next unit's 1.00
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= rounds_to_next && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  // Three significant digits; the bounds are where rounding would add one.
  int const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

}  // namespace ferry
