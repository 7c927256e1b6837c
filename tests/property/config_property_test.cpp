// Properties of settings: every valid value survives the way through text, and no text whatever crashes.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ferry/config.hpp"
#include "ferry/error.hpp"

namespace {

using ferry::byte_amount;
using ferry::config;

rc::Gen<double> fraction_above_zero() {
  return rc::gen::map(rc::gen::inRange<std::uint64_t>(1, (std::uint64_t{1} << 53) + 1), [](std::uint64_t n) {
    return static_cast<double>(n) / static_cast<double>(std::uint64_t{1} << 53);
  });
}

rc::Gen<std::size_t> bytes_from(std::size_t least) {
  return rc::gen::map(rc::gen::arbitrary<std::size_t>(), [least](std::size_t n) { return std::max(n, least); });
}

rc::Gen<byte_amount> any_amount() {
  return rc::gen::oneOf(rc::gen::map(bytes_from(1), &byte_amount::exactly),
                        rc::gen::map(fraction_above_zero(), &byte_amount::share));
}

ferry::link_value any_link(double least, double most) {
  double const d2h = std::max(least, *fraction_above_zero() * most);
  return {d2h, *rc::gen::element(d2h, most, 0.0), false};
}

/// Up to five speeds, at steps that ascend from 0.
std::vector<ferry::link_change> any_schedule() {
  std::vector<ferry::link_change> schedule;
  std::uint64_t step = 0;
  for (int left = *rc::gen::inRange(1, 6); left > 0; --left) {
    auto const speed = any_link(0.001, 10'000);
    schedule.push_back({step, speed.device_to_host, speed.host_to_device});
    step += *rc::gen::inRange<std::uint64_t>(1, 100'000'000);
  }
  return schedule;
}

config any_config() {
  config c;
  c.device = *rc::gen::element<std::string>("auto", "host", "sim", "cuda", "cuda:7");
  c.budget = *any_amount();
  c.host_budget = *any_amount();
  c.policy.kind = *rc::gen::element(ferry::policy_kind::automatic, ferry::policy_kind::keep, ferry::policy_kind::every,
                                    ferry::policy_kind::sqrt, ferry::policy_kind::selective, ferry::policy_kind::plan);
  if (c.policy.kind == ferry::policy_kind::plan) c.policy.file = "plans/a.json";
  if (c.policy.kind == ferry::policy_kind::every) c.policy.every = *rc::gen::inRange(1u, 1'000'000u);
  c.min_bytes = *bytes_from(0);
  c.max_in_flight = *any_amount();
  c.chunk_bytes = *rc::gen::inRange<std::size_t>(65'536, (std::size_t{1} << 30) + 1);
  c.run_ahead = *rc::gen::inRange(1u, 65u);
  c.insure = *rc::gen::arbitrary<bool>();
  c.adapt = *rc::gen::arbitrary<bool>();
  c.plan_effort = *rc::gen::inRange(0u, 10'000'001u);
  c.stall_tolerance_us = *fraction_above_zero() * 1e9;
  c.verify = *rc::gen::element(ferry::verify_mode::off, ferry::verify_mode::checksum, ferry::verify_mode::recipes,
                               ferry::verify_mode::checksum_and_recipes);
  c.trace_file = *rc::gen::element<std::string>("", "trace.json");
  c.stats_file = *rc::gen::element<std::string>("", "stats.json", " a b=c ");
  c.log = *rc::gen::element(ferry::log_level::off, ferry::log_level::error, ferry::log_level::debug);
  c.device_bytes = *bytes_from(1);
  c.pinned_bytes = *bytes_from(1);
  if (*rc::gen::arbitrary<bool>()) c.link_gbps = any_link(0.001, 10'000);
  if (*rc::gen::arbitrary<bool>()) {
    c.link_schedule = any_schedule();
    c.link_gbps = {c.link_schedule[0].device_to_host, c.link_schedule[0].host_to_device};
  }
  c.link_latency_us = any_link(0, 1'000'000);
  c.compute_threads = *rc::gen::inRange(0u, 1025u);
  c.check_order = *rc::gen::arbitrary<bool>();
  return c;
}

void expect_same(ferry::link_value const& a, ferry::link_value const& b) {
  RC_ASSERT(a.automatic == b.automatic);
  RC_ASSERT(a.device_to_host == b.device_to_host);
  RC_ASSERT(a.host_to_device == b.host_to_device);
}

void expect_same(config const& a, config const& b) {
  RC_ASSERT(a.device == b.device);
  RC_ASSERT(a.budget == b.budget);
  RC_ASSERT(a.host_budget == b.host_budget);
  RC_ASSERT(a.policy == b.policy);
  RC_ASSERT(a.insure == b.insure);
  RC_ASSERT(a.adapt == b.adapt);
  RC_ASSERT(a.plan_effort == b.plan_effort);
  RC_ASSERT(a.min_bytes == b.min_bytes);
  RC_ASSERT(a.max_in_flight == b.max_in_flight);
  RC_ASSERT(a.chunk_bytes == b.chunk_bytes);
  RC_ASSERT(a.run_ahead == b.run_ahead);
  RC_ASSERT(a.stall_tolerance_us == b.stall_tolerance_us);
  RC_ASSERT(a.verify == b.verify);
  RC_ASSERT(a.trace_file == b.trace_file);
  RC_ASSERT(a.stats_file == b.stats_file);
  RC_ASSERT(a.log == b.log);
  RC_ASSERT(a.device_bytes == b.device_bytes);
  RC_ASSERT(a.pinned_bytes == b.pinned_bytes);
  expect_same(a.link_gbps, b.link_gbps);
  RC_ASSERT(a.link_schedule == b.link_schedule);
  expect_same(a.link_latency_us, b.link_latency_us);
  RC_ASSERT(a.compute_threads == b.compute_threads);
  RC_ASSERT(a.check_order == b.check_order);
}

RC_GTEST_PROP(ConfigProperty, ValuesSurviveTheWayThroughText, ()) {
  config const original = any_config();
  std::vector<std::string> entries;
  for (auto const& row : describe_settings(original)) entries.push_back(row.variable + "=" + row.value);
  expect_same(original, config::from_entries(entries));
}

/// Pieces of valid values put together at random come closer to the parser's corners than random bytes.
std::string near_miss() {
  auto const pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "0", "1", "9", "18446744073709551616", ".", ",", "%", "e", "-", "+", "KiB", "gb", "T", "every=", "auto", "off",
      "checksum", "recipes", " ", "cuda:", "inf", "nan", "\n", "=", "@", "/", "5@0"));
  std::string text;
  for (auto const& piece : pieces) text += piece;
  return text;
}

RC_GTEST_PROP(ConfigProperty, AnyTextIsEitherAValueOrASettingError, ()) {
  auto const rows = describe_settings(config{});
  auto const& row = rows[*rc::gen::inRange<std::size_t>(0, rows.size())];
  std::string const text = *rc::gen::arbitrary<bool>() ? near_miss() : *rc::gen::arbitrary<std::string>();
  config settings;
  try {
    settings.set(row.variable, text);
  } catch (ferry::setting_error const& problem) {
    std::string const message = problem.what();
    RC_ASSERT(message.starts_with(row.variable));
    RC_ASSERT(message.find('\n') == std::string::npos);
  }
  // Whether it took the text or not, what it holds now is valid.
  for (auto const& now : describe_settings(settings)) config{}.set(now.variable, now.value);
}

RC_GTEST_PROP(ConfigProperty, AnyNameIsEitherASettingOrASettingError, (std::string const& name)) {
  try {
    static_cast<void>(config::from_entries({"FERRY_" + name + "=1"}));
  } catch (ferry::setting_error const& problem) {
    RC_ASSERT(std::string(problem.what()).find('\n') == std::string::npos);
  }
}

}  // namespace
