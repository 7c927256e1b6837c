// FERRY_TRACE and FERRY_STATS: on the sim device every time in them is known to the nanosecond; on the host device they
// hold together.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/session_fixture.hpp"
#include "support/sim_chain.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::testing {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

std::int64_t ns(double us) { return std::llround(us * 1000); }

struct slice {
  std::int64_t from;
  std::int64_t to;
  json event;
};

/// A finished trace, taken apart.
class read_trace {
 public:
  explicit read_trace(std::filesystem::path const& file) : events_(json::parse(read_file(file))) {}

  [[nodiscard]] json const& events() const { return events_; }
  [[nodiscard]] std::vector<slice> slices(std::string const& category) const {
    std::vector<slice> found;
    for (auto const& e : events_) {
      if (e["ph"] != "X" || e.value("cat", "") != category) continue;
      found.push_back({ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e});
    }
    return found;
  }
  [[nodiscard]] std::vector<json> decisions(std::string const& reason = "") const {
    std::vector<json> found;
    for (auto const& e : events_) {
      if (e.value("cat", "") == "decision" && (reason.empty() || e["name"] == reason)) found.push_back(e["args"]);
    }
    return found;
  }
  [[nodiscard]] double most(std::string const& counter) const {
    double most = 0;
    for (auto const& e : events_) {
      if (e["ph"] == "C" && e["name"] == counter) most = std::max(most, e["args"]["bytes"].get<double>());
    }
    return most;
  }
  /// Slices of a lane that neither follow nor contain each other; by how much at most is forgiven.
  [[nodiscard]] int crossings(std::int64_t forgiven_ns) const {
    std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> lanes;
    for (auto const& e : events_) {
      if (e["ph"] == "X") lanes[e["tid"]].emplace_back(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]));
    }
    int count = 0;
    for (auto& [lane, all] : lanes) {
      std::ranges::sort(all,
                        [](auto a, auto b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
      std::vector<std::int64_t> ends;
      for (auto const& [from, to] : all) {
        while (!ends.empty() && ends.back() <= from + forgiven_ns) ends.pop_back();
        if (!ends.empty() && to > ends.back() + forgiven_ns) ++count;
        ends.push_back(to);
      }
    }
    return count;
  }

 private:
  json events_;
};

std::vector<json> read_lines(std::filesystem::path const& file) {
  std::vector<json> lines;
  std::istringstream in(read_file(file));
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

class Journal : public SimChain {
 protected:
  void start(nanoseconds copy, std::size_t budget_items, config settings = {}) {
    settings.trace_file = folder_ / "trace.json";
    settings.stats_file = folder_ / "stats.jsonl";
    SimChain::start(copy, budget_items, with_policy(policy_kind::offload, settings));
  }
  /// Every third item is dropped, the others are ferried.
  void mix_placements() {
    session_->set_placement(
        [](item_info const& item) { return item.key.segment % 3 == 1 ? placement::recompute : placement::offload; });
  }
  /// Recipes that have run, and then a link on which everything is late.
  void run_late() {
    session_->set_placement([](item_info const& item) {
      return item.has_recipe && item.key.segment > 0 ? placement::recompute : placement::offload;
    });
    step();
    session_->set_placement([](item_info const&) { return placement::offload; });
    step();
    step();
  }

  [[nodiscard]] read_trace finished_trace() {
    session_.reset();
    return read_trace(folder_ / "trace.json");
  }
  [[nodiscard]] std::vector<json> finished_lines() {
    session_.reset();
    return read_lines(folder_ / "stats.jsonl");
  }

  temporary_folder folder_;
};

TEST_F(Journal, ATraceHasTheTimesOfTheDeviceToTheNanosecond) {
  start(170us, 5);
  mix_placements();
  for (int i = 0; i < 3; ++i) step();
  auto const trace = finished_trace();

  std::map<std::string, std::set<std::pair<std::int64_t, std::int64_t>>> kernels;
  std::set<std::int64_t> copies_began;
  std::set<std::int64_t> copies_ended;
  for (auto const& one : observed_) {
    if (one.where == sim_engine::compute) {
      kernels[one.name.str()].emplace(one.start.count(), one.end.count());
    } else {
      copies_began.insert(one.start.count());
      copies_ended.insert(one.end.count());
    }
  }
  auto const recipes = trace.slices("rebuild");
  EXPECT_EQ(recipes.size(), kernels["rebuild"].size());
  for (auto const& one : recipes) EXPECT_TRUE(kernels["rebuild"].contains({one.from, one.to})) << one.event;
  for (char const* direction : {"offload", "fetch"}) {
    auto const copies = trace.slices(direction);
    EXPECT_GT(copies.size(), 0U);
    for (auto const& one : copies) {
      EXPECT_TRUE(copies_began.contains(one.from)) << one.event;
      EXPECT_TRUE(copies_ended.contains(one.to)) << one.event;
    }
  }
  for (char const* which : {"forward", "backward"}) {
    auto const stretches = trace.slices(which);
    EXPECT_EQ(stretches.size(), 3 * segments);
    for (auto const& kernel : kernels[which]) {
      EXPECT_TRUE(std::ranges::any_of(
          stretches, [&](slice const& one) { return one.from <= kernel.first && kernel.second <= one.to; }))
          << which << " from " << kernel.first;
    }
  }
  EXPECT_EQ(trace.crossings(1), 0);
}

TEST_F(Journal, ComputeIsBusyOrItsStandingStillIsCharged) {
  start(400us, 3);
  for (int i = 0; i < 2; ++i) step(false);
  auto const stats = session_->stats();
  auto const trace = finished_trace();
  std::int64_t still = 0;
  std::int64_t starved = 0;
  std::int64_t host = 0;
  for (auto const& one : trace.slices("wait")) (one.event["tid"] == 1 ? still : host) += one.to - one.from;
  for (auto const& one : trace.slices("short")) starved += one.to - one.from;
  EXPECT_GT(still, 0);
  EXPECT_GT(starved, 0);
  EXPECT_GT(host, starved) << "the device had work meanwhile";
  EXPECT_EQ(still, ns(stats.exposed_us - stats.waited_for_bytes_us));
  EXPECT_EQ(starved, ns(stats.waited_for_bytes_us));
  EXPECT_EQ(host, ns(stats.host_waited_us));
}

TEST_F(Journal, EveryDecisionKeepsTheRule) {
  config settings;
  settings.stall_tolerance_us = 20;
  start(900us, 6, settings);
  run_late();
  auto const stats = session_->stats();
  auto const trace = finished_trace();
  std::size_t weighed = 0;
  for (auto const& one : trace.decisions()) {
    EXPECT_EQ(one["tolerance_us"], 20);
    double const transfer = one["transfer_us"];
    double const recipe = one["recipe_us"];
    if (transfer <= 0 || recipe <= 0) continue;
    ++weighed;
    static std::set<std::string> const taking_it{"recomputed_sooner_than_transfer", "recomputed_rows_still_missing",
                                                 "recomputed_ahead", "dropped_instead_of_waiting"};
    EXPECT_EQ(taking_it.contains(one["reason"]), recipe < transfer - 20) << one;
    if (one["reason"] == "recomputed_sooner_than_transfer") {
      EXPECT_EQ(one["took_us"], 30);
      EXPECT_NE(one["words"].get<std::string>().find("recomputed: would have waited "), std::string::npos);
      EXPECT_NE(one["words"].get<std::string>().find(" for 1.00 MiB, recipe took 30.0 us"), std::string::npos);
    }
  }
  EXPECT_GT(weighed, 0U);
  for (std::size_t i = 0; i < reason_count; ++i) {
    auto const why = static_cast<reason>(i);
    EXPECT_EQ(trace.decisions(std::string(to_string(why))).size(), stats.count(why)) << to_string(why);
  }
}

TEST_F(Journal, CountersReachTheTiersPeaks) {
  start(170us, 5);
  step();
  step();
  auto const stats = session_->stats();
  auto const trace = finished_trace();
  EXPECT_EQ(trace.most("device bytes"), static_cast<double>(stats.device.peak_bytes));
  EXPECT_EQ(trace.most("pinned bytes"), static_cast<double>(stats.pinned.peak_bytes));
  EXPECT_EQ(trace.most("in flight bytes"), static_cast<double>(stats.in_flight.peak_bytes));
}

TEST_F(Journal, ATraceSaysWhichSettingsAndBudgetsHold) {
  start(170us, 5);
  step();
  auto const stats = session_->stats();
  auto const trace = finished_trace();
  auto const is_it = [](json const& e) { return e["name"] == "ferry_settings"; };
  ASSERT_EQ(std::ranges::count_if(trace.events(), is_it), 1);
  json const found = (*std::ranges::find_if(trace.events(), is_it))["args"];
  EXPECT_EQ(found["device limit_bytes"], stats.device.limit_bytes);
  EXPECT_EQ(found["pinned limit_bytes"], stats.pinned.limit_bytes);
  EXPECT_EQ(found["in flight limit_bytes"], stats.in_flight.limit_bytes);
  ASSERT_FALSE(stats.settings.empty());
  for (auto const& one : stats.settings) {
    EXPECT_EQ(found.contains(one.variable), one.given) << one.variable;
    if (one.given) {
      EXPECT_EQ(found[one.variable], one.value);
    }
  }
}

TEST_F(Journal, ArrowsLeadFromTheWayOutOverTheWayBackToTheUse) {
  start(170us, 4);
  step();
  step();
  auto const trace = finished_trace();
  std::map<int, std::map<std::string, double>> arrows;
  for (auto const& e : trace.events()) {
    if (e.value("cat", "") == "ferried") arrows[e["id"]][e["ph"]] = e["ts"];
  }
  EXPECT_GT(arrows.size(), segments);
  for (auto const& [id, arrow] : arrows) {
    ASSERT_EQ(arrow.size(), 3U);
    EXPECT_LT(arrow.at("s"), arrow.at("t"));
    EXPECT_LE(arrow.at("t"), arrow.at("f"));
  }
}

TEST_F(Journal, ACopyThatWasGivenUpSaysHowFarItCame) {
  config settings;
  settings.chunk_bytes = item_bytes / 16;
  start(1600us, 4, settings);
  session_->begin_step();
  auto memory = session_->allocate(item_bytes, *compute_);
  device_->launch(*compute_, "forward", {}, [] {});
  session_->save(key(0), std::move(memory), *compute_);
  for (int i = 0; i < 5; ++i) device_->launch(*compute_, "forward", {}, [] {});
  compute_->synchronize();
  session_->restore(key(0), *compute_).end();
  session_->synchronize();
  session_->end_step();
  auto const offloads = finished_trace().slices("offload");
  ASSERT_EQ(offloads.size(), 1U);
  auto const& told = offloads[0].event["args"];
  EXPECT_EQ(told["outcome"], "abandoned");
  EXPECT_EQ(told["bytes"], item_bytes);
  EXPECT_GT(told["arrived_bytes"], 0);
  EXPECT_LT(told["arrived_bytes"], item_bytes);
  auto const chunks = told["arrived_bytes"].get<std::int64_t>() / static_cast<std::int64_t>(settings.chunk_bytes);
  EXPECT_EQ(offloads[0].from, forward / 1ns);
  EXPECT_EQ(offloads[0].to - offloads[0].from, (chunks * 100us + 10us) / 1ns);
}

TEST_F(Journal, AFailedCopySaysSo) {
  start(90us, 4);
  device_->fail({.name = "h", .nth = 6});
  step();
  auto const offloads = finished_trace().slices("offload");
  auto const failed = [](slice const& one) { return one.event["args"]["outcome"] == "failed"; };
  EXPECT_EQ(std::ranges::count_if(offloads, failed), 1);
}

TEST_F(Journal, StatisticsHaveALinePerStepThatAddUpToTheTotals) {
  start(400us, 4);
  mix_placements();
  std::vector<nanoseconds> took;
  for (int i = 0; i < 4; ++i) took.push_back(step());
  auto const stats = session_->stats();
  auto const lines = finished_lines();
  ASSERT_EQ(lines.size(), 5U);
  double exposed = 0;
  double recompute = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::uint64_t> reasons;
  for (std::size_t i = 0; i < 4; ++i) {
    auto const& line = lines[i];
    EXPECT_EQ(line["step"], i + 1);
    EXPECT_EQ(line["saves"], segments);
    EXPECT_EQ(line["restores"], segments);
    EXPECT_EQ(ns(line["step_us"]), took[i].count());
    EXPECT_LE(line["device_peak_bytes"], stats.device.peak_bytes);
    EXPECT_FALSE(line.contains("planned_us"));
    exposed += line["exposed_us"].get<double>();
    recompute += line["recompute_us"].get<double>();
    bytes += line["device_to_host"]["bytes"].get<std::uint64_t>();
    for (auto const& [why, count] : line["reasons"].items()) {
      reasons[why] += count["count"].get<std::uint64_t>();
      EXPECT_EQ(count["bytes"], count["count"].get<std::uint64_t>() * item_bytes);
    }
  }
  auto const& totals = lines.back();
  EXPECT_EQ(totals["steps"], 4);
  EXPECT_NEAR(exposed, totals["exposed_us"], 1e-6);
  EXPECT_NEAR(recompute, totals["recompute_us"], 1e-6);
  EXPECT_EQ(bytes, totals["device_to_host"]["bytes"]);
  for (auto const& [why, count] : totals["reasons"].items()) EXPECT_EQ(reasons[why], count) << why;
  EXPECT_EQ(totals["settings_without_effect"], json::array());
}

TEST_F(Journal, AStepsLineTellsWhatBecameOfItsDearestItems) {
  start(900us, 6);
  run_late();
  auto const line = finished_lines()[1];
  auto const& items = line["items"];
  ASSERT_FALSE(items.empty());
  double before = 1e18;
  for (auto const& one : items) {
    double const lost = one["exposed_us"].get<double>() + one["recipe_us"].get<double>();
    EXPECT_GT(lost, 0);
    EXPECT_LE(lost, before);
    before = lost;
    EXPECT_LE(one["saved_at_us"], one["needed_at_us"]);
    ASSERT_GE(one["decisions"].size(), 2U);
    EXPECT_EQ(one["decisions"][0]["reason"], "offloaded_by_policy");
    EXPECT_EQ(one["decisions"][0]["words"], "offloaded: 1.00 MiB");
  }
}

TEST_F(Journal, ATraceThatEndsInsideAStepIsJson) {
  start(170us, 4);
  step();
  session_->begin_step();
  go_forward();
  auto const trace = finished_trace();
  EXPECT_EQ(trace.slices("step").size(), 2U);
  EXPECT_EQ(read_lines(folder_ / "stats.jsonl").size(), 3U);
}

TEST_F(Journal, StepsAreInTheFilesBeforeTheSessionEnds) {
  start(170us, 4);
  for (int i = 0; i < 3; ++i) step();
  session_->begin_step();
  EXPECT_EQ(read_lines(folder_ / "stats.jsonl").size(), 3U);
  EXPECT_EQ(json::parse(read_file(folder_ / "trace.json") + "]").empty(), false);
  session_->end_step();
}

TEST_F(Journal, MeasuringChangesNothing) {
  auto const run = [this](bool traced) {
    start(170us, 5);
    config settings = session_->settings();
    if (!traced) settings.trace_file = settings.stats_file = "";
    session_.reset();
    session_.emplace(*device_, settings);
    mix_placements();
    std::vector<nanoseconds> times;
    for (int i = 0; i < 3; ++i) times.push_back(step());
    TearDown();
    return times;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(Journal, TwoFilesOfTheSameNameAreRefused) {
  start(170us, 4);
  config settings = session_->settings();
  settings.stats_file = settings.trace_file = folder_ / "same";
  expect_error<setting_error>([&] { session(*device_, settings); }, "FERRY_TRACE", "FERRY_STATS", "same");
  settings.trace_file = "/no/such/folder/trace.json";
  expect_error<setting_error>([&] { session(*device_, settings); }, "FERRY_TRACE", "/no/such/folder/trace.json");
}

TEST_F(Journal, ADiskThatIsFullEndsTheFileAndNotTheRun) {
  config settings;
  start(170us, 4, settings);
  settings = session_->settings();
  settings.trace_file = settings.stats_file = "/dev/full";
  session_.reset();
  session_.emplace(*device_, settings);
  EXPECT_NO_THROW(step());
  EXPECT_NO_THROW(step());
  EXPECT_EQ(session_->stats().steps, 2U);
}

class HostJournal : public SessionTest {
 protected:
  static constexpr std::uint32_t segments = 10;
};

TEST_F(HostJournal, ATraceOfRealTimesHoldsTogether) {
  temporary_folder const folder;
  config settings;
  settings.trace_file = folder / "trace.json";
  auto const began = std::chrono::steady_clock::now();
  start(policy_kind::offload, 5, 64, settings);
  device_->set_link(copy_direction::device_to_host, {.gbps = 1, .latency_us = 5});
  device_->set_link(copy_direction::host_to_device, {.gbps = 1, .latency_us = 5});
  for (int i = 0; i < 3; ++i) {
    session_->begin_step();
    for (std::uint32_t s = 0; s < segments; ++s) save_filled({0, s, "h"}, std::byte(s));
    for (std::uint32_t s = segments; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
    stream_->synchronize();
    session_->end_step();
  }
  auto const stats = session_->stats();
  session_.reset();
  double const ran_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
  read_trace const trace(folder / "trace.json");
  EXPECT_EQ(trace.slices("forward").size() + trace.slices("backward").size(), 3 * 2 * segments);
  EXPECT_EQ(trace.slices("step").size(), 3U);
  EXPECT_GT(trace.slices("fetch").size(), 0U);
  EXPECT_EQ(trace.most("device bytes"), static_cast<double>(stats.device.peak_bytes));
  for (auto const& e : trace.events()) {
    EXPECT_GE(e["ts"], 0) << e;
    EXPECT_LE(e["ts"], ran_us) << e;
  }
  // Compute and copies on one clock: no item is copied out before its forward began, by any measure.
  double const first_forward = trace.slices("forward").front().event["ts"];
  for (auto const& one : trace.slices("offload")) EXPECT_GE(one.event["ts"], first_forward - 200) << one.event;
  EXPECT_EQ(trace.crossings(1), 0);
}

}  // namespace
}  // namespace ferry::testing
