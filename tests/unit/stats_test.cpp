// Statistics: the words of reasons, and the JSON that carries every member.
#include "ferry/stats.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace {

using ferry::reason;
using ferry::session_stats;
using nlohmann::json;

TEST(Reason, HasOneWordEach) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < ferry::reason_count; ++i) words.insert(to_string(static_cast<reason>(i)));
  EXPECT_EQ(words.size(), ferry::reason_count);
  EXPECT_EQ(words.count("unknown"), 0u);
  EXPECT_EQ(to_string(reason::count_), "unknown");
}

TEST(Reason, WordsFollowTheEnumeration) {
  EXPECT_EQ(to_string(reason::kept_by_policy), "kept_by_policy");
  EXPECT_EQ(to_string(reason::offloaded_by_policy), "offloaded_by_policy");
  EXPECT_EQ(to_string(reason::evicted_for_space), "evicted_for_space");
  EXPECT_EQ(to_string(reason::restored_from_host), "restored_from_host");
  EXPECT_EQ(to_string(reason::recomputed_sooner_than_transfer), "recomputed_sooner_than_transfer");
  EXPECT_EQ(to_string(reason::unused_at_end_of_step), "unused_at_end_of_step");
}

session_stats sample() {
  session_stats stats;
  stats.steps = 3;
  stats.exposed_us = 12.5;
  stats.device.peak_bytes = std::size_t{5} << 30;
  stats.host_to_device.gbps = 1.25;
  stats.settings.push_back({"FERRY_BUDGET", "5GiB", true});
  stats.reasons[static_cast<std::size_t>(reason::dropped_for_space)] = 7;
  stats.items.push_back({{.bytes = 4096, .last = reason::restored_from_host}, {1, 2, "h"}});
  return stats;
}

TEST(StatsJson, CarriesValuesUnderTheMembersNames) {
  json const parsed = json::parse(to_json(sample()));
  EXPECT_EQ(parsed["steps"], 3);
  EXPECT_EQ(parsed["exposed_us"], 12.5);
  EXPECT_EQ(parsed["device"]["peak_bytes"], std::size_t{5} << 30);
  EXPECT_EQ(parsed["host_to_device"]["gbps"], 1.25);
  EXPECT_EQ(parsed["settings"], json::parse(R"([{"variable": "FERRY_BUDGET", "value": "5GiB", "given": true}])"));
  ASSERT_EQ(parsed["items"].size(), 1u);
  EXPECT_EQ(parsed["items"][0]["key"], (json{{"micro_batch", 1}, {"segment", 2}, {"name", "h"}}));
  EXPECT_EQ(parsed["items"][0]["last"], "restored_from_host");
}

TEST(StatsJson, HasEveryMember) {
  json const parsed = json::parse(to_json(sample()));
  for (char const* key : {"steps",
                          "saves",
                          "restores",
                          "recomputes",
                          "recompute_us",
                          "hidden_us",
                          "exposed_us",
                          "recomputed_ahead_us",
                          "waited_for_bytes_us",
                          "host_waited_us",
                          "run_ahead_us",
                          "plans",
                          "plan_changes",
                          "device",
                          "pinned",
                          "in_flight",
                          "adopted_bytes",
                          "device_to_host",
                          "host_to_device",
                          "reasons",
                          "settings_without_effect",
                          "settings",
                          "items"}) {
    EXPECT_TRUE(parsed.contains(key)) << key;
  }
  for (char const* key : {"limit_bytes", "now_bytes", "peak_bytes", "average_bytes", "fragmentation"}) {
    EXPECT_TRUE(parsed["in_flight"].contains(key)) << key;
  }
  for (char const* key : {"transfers", "abandoned", "failed", "chunks", "bytes", "busy_us", "gbps"}) {
    EXPECT_TRUE(parsed["device_to_host"].contains(key)) << key;
  }
  for (char const* key : {"bytes", "saves", "restores", "offloads", "recomputes", "hidden_us", "exposed_us",
                          "waited_for_bytes_us", "recipe_us", "recompute_us"}) {
    EXPECT_TRUE(parsed["items"][0].contains(key)) << key;
  }
}

TEST(StatsJson, HasRecipeChecksWhereThereAreAny) {
  auto stats = sample();
  EXPECT_FALSE(json::parse(to_json(stats)).contains("recipe_checks"));
  stats.recipe_checks = {.checked = 5, .inputs_away = 1, .no_room = 2, .not_comparable = 3};
  EXPECT_EQ(json::parse(to_json(stats))["recipe_checks"],
            (json{{"checked", 5}, {"inputs_away", 1}, {"no_room", 2}, {"not_comparable", 3}}));
}

TEST(StatsJson, FitsOnOneLine) {
  EXPECT_EQ(to_json(sample(), -1).find('\n'), std::string::npos);
  EXPECT_EQ(json::parse(to_json(sample(), -1)), json::parse(to_json(sample())));
}

TEST(StatsJson, CountsOnlyReasonsThatHappened) {
  EXPECT_EQ(json::parse(to_json(sample()))["reasons"], (json{{"dropped_for_space", 7}}));
  EXPECT_EQ(json::parse(to_json(session_stats{}))["reasons"], json::object());
}

TEST(StatsJson, SurvivesNamesThatAreNotUtf8AndTimesThatAreNotNumbers) {
  session_stats stats;
  stats.hidden_us = std::numeric_limits<double>::quiet_NaN();
  stats.items.push_back({{}, {0, 0, "\xff\xfe"}});
  json const parsed = json::parse(to_json(stats));
  EXPECT_TRUE(parsed["hidden_us"].is_null());
}

}  // namespace
