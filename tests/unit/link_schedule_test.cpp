// A link whose speed follows a schedule over the steps of a session.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

constexpr auto out = copy_direction::device_to_host;
constexpr auto in = copy_direction::host_to_device;

config settings_with(std::vector<link_change> schedule) {
  config settings;
  settings.policy.kind = policy_kind::keep;
  settings.budget = byte_amount::exactly(1 << 20);
  settings.host_budget = byte_amount::exactly(1 << 20);
  settings.log = log_level::off;
  settings.link_schedule = std::move(schedule);
  return settings;
}

/// The speeds, d2h and h2d by turns, that so many steps see.
template <typename Device>
std::vector<double> speeds_seen(Device& on, session& s, int steps) {
  std::vector<double> seen;
  for (int i = 0; i < steps; ++i) {
    s.begin_step();
    seen.push_back(on.link(out).gbps);
    seen.push_back(on.link(in).gbps);
    s.end_step();
  }
  return seen;
}

TEST(LinkSchedule, EachStepHasItsSpeedAndTheLatencyStays) {
  auto const schedule = std::vector<link_change>{{0, 5, 4}, {2, 1.5, 1.5}, {3, 0, 8}};
  std::vector<double> const expected{5, 4, 5, 4, 1.5, 1.5, 0, 8, 0, 8};
  link_speed const before{.gbps = 9, .latency_us = 3};
  auto const host = make_host_device(
      {.device_bytes = 4 << 20, .pinned_bytes = 4 << 20, .device_to_host = before, .host_to_device = before});
  auto const sim = make_sim_device(
      {.device_bytes = 4 << 20, .pinned_bytes = 4 << 20, .device_to_host = before, .host_to_device = before});
  session on_host(*host, settings_with(schedule));
  EXPECT_EQ(host->link(out).gbps, 9) << "nothing before the first step";
  EXPECT_EQ(speeds_seen(*host, on_host, 5), expected);
  EXPECT_EQ(host->link(in).latency_us, 3);
  session on_sim(*sim, settings_with(schedule));
  EXPECT_EQ(speeds_seen(*sim, on_sim, 5), expected);
  EXPECT_EQ(sim->link(out).latency_us, 3);
}

TEST(LinkSchedule, AnotherSessionBeginsItAnew) {
  auto const sim = make_sim_device({.device_bytes = 4 << 20, .pinned_bytes = 4 << 20});
  for (int round = 0; round < 2; ++round) {
    session s(*sim, settings_with({{0, 5, 5}, {1, 2, 2}}));
    EXPECT_EQ(speeds_seen(*sim, s, 2), (std::vector<double>{5, 5, 2, 2}));
  }
}

TEST(LinkSchedule, WithoutOneTheLinkIsLeftAlone) {
  auto const sim = make_sim_device({.device_bytes = 4 << 20, .pinned_bytes = 4 << 20, .device_to_host = {.gbps = 7}});
  auto settings = settings_with({});
  settings.link_gbps = {1, 1};
  session s(*sim, settings);
  EXPECT_EQ(speeds_seen(*sim, s, 2), (std::vector<double>{7, 0, 7, 0}));
}

TEST(LinkSchedule, StepsMustAscendFromZero) {
  auto const sim = make_sim_device({.device_bytes = 4 << 20, .pinned_bytes = 4 << 20});
  auto const with = [&](std::vector<link_change> schedule) { session(*sim, settings_with(std::move(schedule))); };
  expect_error<invalid_argument>([&] { with({{1, 5, 5}}); }, "step 1 in place 0", "begin with step 0");
  expect_error<invalid_argument>([&] { with({{0, 5, 5}, {4, 1, 1}, {4, 2, 2}}); }, "step 4 in place 2");
}

TEST(LinkSchedule, TheDeviceBeginsWithTheFirstSpeed) {
  config settings;
  settings.set("FERRY_LINK_GBPS", "5/3@0,1.5@20");
  EXPECT_EQ(host_options(settings).device_to_host.gbps, 5);
  EXPECT_EQ(host_options(settings).host_to_device.gbps, 3);
  EXPECT_EQ(sim_options(settings).host_to_device.gbps, 3);
  settings.link_gbps = {.automatic = true};  // the schedule goes before it
  EXPECT_EQ(sim_options(settings).device_to_host.gbps, 5);
}

/// The virtual clock shows when the change happens: from the first copy of its step on.
TEST(LinkSchedule, TransfersTakeTheTimeOfTheirStep) {
  constexpr std::size_t bytes = 100'000;
  std::vector<sim_operation> copies;
  sim_device_options options{.device_bytes = 4 << 20, .pinned_bytes = 4 << 20};
  options.observe = [&](sim_operation const& over) {
    if (over.where == sim_engine::device_to_host) copies.push_back(over);
  };
  auto const sim = make_sim_device(std::move(options));
  stream const compute(*sim, stream_kind::compute, "compute");
  auto settings = settings_with({{0, 1, 1}, {2, 0.1, 1}});
  settings.policy.kind = policy_kind::offload;
  settings.min_bytes = 0;
  session s(*sim, settings);
  for (int step = 0; step < 3; ++step) {
    s.begin_step();
    s.save({0, 0, "h"}, s.allocate(bytes, compute), compute).end();
    s.synchronize();
    s.end_step();
  }
  ASSERT_EQ(copies.size(), 3U);
  std::array<std::int64_t, 3> const expected{100'000, 100'000, 1'000'000};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ((copies[i].end - copies[i].start).count(), expected[i]) << i;
}

}  // namespace
}  // namespace ferry::testing
