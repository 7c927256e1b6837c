// Decisions and lost time in words, and the settings that had no effect.
#include "support/explain.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ferry/ferry.hpp"
#include "observe/setting_effects.hpp"
#include "support/mib.hpp"

namespace {

using ferry::config;
using ferry::decision_record;
using ferry::reason;
using ferry::session_stats;
using ferry::observe::setting_effects;
using ferry::observe::settings_without_effect;
using ferry::support::duration_words;
using ferry::testing::mib;

decision_record record(reason why, ferry::outlook seen = {}, double took_us = 0) {
  return {.key = {0, 3, "h"}, .bytes = 18 * mib, .why = why, .seen = seen, .at_us = 0, .took_us = took_us};
}

void add(session_stats& stats, reason why, std::uint64_t times = 1) {
  stats.reasons[static_cast<std::size_t>(why)] += times;
}

bool has(std::string const& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST(Explain, SaysWhatWasForeseenAndWhatItCost) {
  EXPECT_EQ(explain(record(reason::recomputed_sooner_than_transfer, {4100, 1100}, 1200)),
            "recomputed: would have waited 4.10 ms for 18.0 MiB, recipe took 1.20 ms");
  EXPECT_EQ(explain(record(reason::recomputed_sooner_than_transfer, {4100, 1100})),
            "recomputed: would have waited 4.10 ms for 18.0 MiB, recipe takes 1.10 ms");
  EXPECT_EQ(explain(record(reason::restored_from_host, {300, 1200}, 310)),
            "brought back: waited 310 us for 18.0 MiB, recipe would have taken 1.20 ms");
  EXPECT_EQ(explain(record(reason::restored_from_host)), "brought back: 18.0 MiB in time");
  EXPECT_EQ(explain(record(reason::recomputed_by_plan, {}, 1200)),
            "recomputed: it had been dropped, recipe took 1.20 ms");
  EXPECT_EQ(explain(record(reason::fetch_given_up, {2500, 1100})),
            "its way back was not begun: it would have come 2.50 ms too late, the recipe takes 1.10 ms");
}

TEST(Explain, HasWordsForEveryReason) {
  for (std::size_t i = 0; i < ferry::reason_count; ++i) {
    auto const text = explain(record(static_cast<reason>(i), {100, 200}, 50));
    EXPECT_FALSE(text.empty());
    EXPECT_NE(text[0], ' ');
    auto const names_a_setting = has(text, "FERRY_");
    EXPECT_TRUE(names_a_setting || !has(text, "_")) << text;
  }
}

TEST(Explain, DurationsHaveThreeDigits) {
  EXPECT_EQ(duration_words(0.25), "0.25 us");
  EXPECT_EQ(duration_words(31.04), "31.0 us");
  EXPECT_EQ(duration_words(999.4), "999 us");
  EXPECT_EQ(duration_words(999.6), "1.00 ms");
  EXPECT_EQ(duration_words(4100), "4.10 ms");
  EXPECT_EQ(duration_words(2.5e6), "2.50 s");
  EXPECT_EQ(duration_words(7.2e9), "7200 s");
}

TEST(ExplainLosses, NamesTheDearestCauseFirst) {
  session_stats stats;
  stats.steps = 10;
  stats.exposed_us = 30'000;
  stats.waited_for_bytes_us = 10'000;
  stats.recompute_us = 50'000;
  stats.items.push_back({{.exposed_us = 30'000, .waited_for_bytes_us = 10'000}, {0, 1, "x"}});
  stats.items.push_back({{.recompute_us = 30'000}, {0, 1, "fc"}});
  stats.items.push_back({{.recompute_us = 20'000}, {0, 2, "fc"}});
  add(stats, reason::dropped_pinned_full, 7);
  add(stats, reason::deferred_in_flight_full, 3);
  config settings;
  settings.policy.kind = ferry::policy_kind::offload;
  auto const text = ferry::support::explain_losses(stats, settings);
  EXPECT_TRUE(has(text, "time per step, over 10 steps:")) << text;
  auto const recomputed = text.find("5.00 ms  recomputed: fc 5.00 ms\n");
  auto const waited = text.find("2.00 ms  compute waited for transfers: x (segment 1, micro-batch 0) 2.00 ms\n");
  auto const bytes = text.find("1.00 ms  compute waited for device bytes on their way out: x (segment 1");
  EXPECT_LT(recomputed, waited) << text;
  EXPECT_LT(waited, bytes) << text;
  EXPECT_NE(bytes, std::string::npos) << text;
  EXPECT_TRUE(has(text, "FERRY_HOST_BUDGET, which had no room 7 times")) << text;
  EXPECT_TRUE(has(text, "FERRY_MAX_IN_FLIGHT, which was used up 3 times")) << text;
  EXPECT_TRUE(has(text, "FERRY_POLICY=auto")) << text;
}

TEST(ExplainLosses, SaysSoWhereNothingWasLost) {
  session_stats stats;
  stats.steps = 3;
  stats.settings_without_effect.push_back({"FERRY_CHUNK_BYTES", "nothing was copied"});
  EXPECT_EQ(ferry::support::explain_losses(stats, {}),
            "no time was lost: nothing was waited for or recomputed\n"
            "FERRY_CHUNK_BYTES had no effect: nothing was copied\n");
}

TEST(ExplainLosses, SaysWhichRecipesWereChecked) {
  session_stats stats;
  auto const line = [&] { return ferry::support::recipe_check_words(*stats.recipe_checks); };
  stats.recipe_checks.emplace();
  EXPECT_EQ(line(), "FERRY_VERIFY=recipes has checked no recipe: none had its turn in a step that has ended");
  stats.recipe_checks->no_room = 2;
  EXPECT_EQ(line(), "FERRY_VERIFY=recipes has checked no recipe: 2 times there was no room beside its item");
  stats.recipe_checks->checked = 7;
  stats.recipe_checks->inputs_away = 3;
  EXPECT_EQ(
      line(),
      "FERRY_VERIFY=recipes: 7 times a recipe ran again and gave its item's bits; not checked in their turn: 3 times "
      "something that it reads was not on the device, 2 times there was no room beside its item "
      "(FERRY_POLICY=keep and a larger FERRY_BUDGET leave out fewer)");
  EXPECT_TRUE(has(ferry::support::explain_losses(stats, {}), line() + "\n"));
}

TEST(Config, RemembersWhatWasGivenAwayFromItsDefault) {
  auto settings = config::from_entries({"FERRY_CHUNK_BYTES=2MiB", "FERRY_RUN_AHEAD=1", "FERRY_BUDGET=70%"});
  EXPECT_EQ(settings.given, std::vector<std::string>{"FERRY_CHUNK_BYTES"});
  settings.set("FERRY_RUN_AHEAD", "3");
  settings.set("FERRY_CHUNK_BYTES", "1024KiB");  // the default
  EXPECT_EQ(settings.given, std::vector<std::string>{"FERRY_RUN_AHEAD"});
}

/// Why the one setting that was given had no effect; empty if it had.
std::string idle(char const* entry, session_stats const& stats, setting_effects const& felt = {}) {
  auto const found = settings_without_effect(stats, config::from_entries({entry}), felt);
  if (found.empty()) return {};
  EXPECT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].variable, std::string_view(entry).substr(0, found[0].variable.size()));
  return found[0].why;
}

session_stats after_copies() {
  session_stats stats;
  stats.saves = 4;
  stats.device_to_host.chunks = stats.host_to_device.chunks = 8;
  stats.pinned.peak_bytes = 3 * mib;
  stats.in_flight.peak_bytes = 2 * mib;
  stats.items.push_back({{.bytes = mib, .offloads = 4}, {0, 0, "h"}});
  return stats;
}

TEST(SettingsWithoutEffect, AreOnlyThoseGiven) {
  EXPECT_TRUE(settings_without_effect({}, config{}, {}).empty());
  EXPECT_TRUE(
      settings_without_effect({}, config::from_entries({"FERRY_LOG=off", "FERRY_DEVICE_BYTES=1MiB"}), {}).empty());
}

TEST(SettingsWithoutEffect, WhereNothingWasCopied) {
  for (char const* entry : {"FERRY_CHUNK_BYTES=64KiB", "FERRY_MAX_IN_FLIGHT=1MiB", "FERRY_VERIFY=checksum",
                            "FERRY_LINK_GBPS=3", "FERRY_LINK_LATENCY_US=3"}) {
    EXPECT_EQ(idle(entry, {}), "nothing was copied") << entry;
  }
  EXPECT_EQ(idle("FERRY_HOST_BUDGET=1GiB", {}), "nothing went to the host");
  for (char const* entry : {"FERRY_CHUNK_BYTES=64KiB", "FERRY_VERIFY=checksum", "FERRY_LINK_GBPS=3"}) {
    EXPECT_EQ(idle(entry, after_copies()), "") << entry;
  }
}

TEST(SettingsWithoutEffect, AVerificationThatHasVerifiedNothing) {
  session_stats stats;
  stats.recipe_checks.emplace();
  EXPECT_EQ(idle("FERRY_VERIFY=recipes", stats), "no recipe could be checked");
  EXPECT_EQ(idle("FERRY_VERIFY=checksum,recipes", stats), "nothing was copied, and no recipe could be checked");
  stats.device_to_host.chunks = 1;
  EXPECT_EQ(idle("FERRY_VERIFY=recipes", stats), "no recipe could be checked");
  EXPECT_EQ(idle("FERRY_VERIFY=checksum,recipes", stats), "");
  stats.device_to_host.chunks = 0;
  stats.recipe_checks->checked = 1;
  EXPECT_EQ(idle("FERRY_VERIFY=recipes", stats), "");
  EXPECT_EQ(idle("FERRY_VERIFY=checksum,recipes", stats), "");
}

TEST(SettingsWithoutEffect, LimitsThatWereNeverReached) {
  auto stats = after_copies();
  EXPECT_EQ(idle("FERRY_MAX_IN_FLIGHT=1GiB", stats), "it was never reached: at most 2.00 MiB were in flight");
  EXPECT_EQ(idle("FERRY_HOST_BUDGET=1GiB", stats), "it was never full: at most 3.00 MiB were in use");
  EXPECT_EQ(idle("FERRY_CHUNK_BYTES=2MiB", stats), "every copy fits into one chunk");
  add(stats, reason::deferred_in_flight_full);
  add(stats, reason::dropped_pinned_full);
  stats.items[0].bytes = 2 * mib;
  EXPECT_EQ(idle("FERRY_MAX_IN_FLIGHT=1GiB", stats), "");
  EXPECT_EQ(idle("FERRY_HOST_BUDGET=1GiB", stats), "");
  EXPECT_EQ(idle("FERRY_CHUNK_BYTES=2MiB", stats), "");
}

TEST(SettingsWithoutEffect, TheBudgetIfItWasNeverShortAndNothingWasPlannedForIt) {
  session_stats stats;
  stats.device.peak_bytes = 5 * mib;
  auto const given = [&](char const* policy, setting_effects const& felt) {
    auto settings = config::from_entries({"FERRY_BUDGET=1GiB"});
    settings.policy.kind = config::from_entries({policy}).policy.kind;
    auto const found = settings_without_effect(stats, settings, felt);
    return found.empty() ? std::string() : found[0].why;
  };
  EXPECT_EQ(given("FERRY_POLICY=offload", {}), "it was never short: at most 5.00 MiB were in use");
  EXPECT_EQ(given("FERRY_POLICY=offload", {.room_was_short = true}), "");
  EXPECT_EQ(given("FERRY_POLICY=auto", {}), "");
  EXPECT_EQ(given("FERRY_POLICY=selective", {}), "");
}

TEST(SettingsWithoutEffect, TheRest) {
  auto stats = after_copies();
  EXPECT_NE(idle("FERRY_STALL_TOLERANCE_US=5", stats), "");
  EXPECT_EQ(idle("FERRY_STALL_TOLERANCE_US=5", stats, {.weighed = true}), "");
  EXPECT_EQ(idle("FERRY_INSURE=off", stats), "no plan was made");
  EXPECT_EQ(idle("FERRY_INSURE=off", stats, {.planned = true}), "");
  EXPECT_NE(idle("FERRY_RUN_AHEAD=4", stats), "");
  EXPECT_EQ(idle("FERRY_RUN_AHEAD=4", stats, {.ran_further_ahead = true}), "");
  EXPECT_EQ(idle("FERRY_POLICY=keep", stats), "");
  EXPECT_NE(idle("FERRY_POLICY=keep", stats, {.placed_by_function = true}), "");
  EXPECT_EQ(idle("FERRY_POLICY=keep", {}), "nothing was saved");
  EXPECT_EQ(idle("FERRY_COMPUTE_THREADS=2", stats), "");
  EXPECT_NE(idle("FERRY_COMPUTE_THREADS=2", stats, {.virtual_clock = true}), "");
  EXPECT_NE(idle("FERRY_MIN_BYTES=0", stats), "");
  stats.items.push_back({{.bytes = 100, .offloads = 1}, {0, 0, "small"}});
  EXPECT_EQ(idle("FERRY_MIN_BYTES=0", stats), "");
  add(stats, reason::kept_below_min_bytes);
  EXPECT_EQ(idle("FERRY_MIN_BYTES=1MiB", stats), "");
}

}  // namespace
