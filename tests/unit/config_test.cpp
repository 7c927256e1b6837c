// Settings: what each accepts, what it refuses and with which words, and the texts of bytes.
#include "ferry/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "ferry/error.hpp"
#include "support/parse.hpp"

namespace {

using ferry::byte_amount;
using ferry::config;
using ferry::policy_kind;
using ferry::setting_error;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_of(std::string const& entry) {
  try {
    static_cast<void>(config::from_entries({entry}));
  } catch (setting_error const& problem) {
    return problem.what();
  }
  return "";
}

config with(std::string const& entry) { return config::from_entries({entry}); }

TEST(ParseBytes, TakesUnitsOfBothKinds) {
  EXPECT_EQ(ferry::parse_bytes("4096"), 4096u);
  EXPECT_EQ(ferry::parse_bytes("17B"), 17u);
  EXPECT_EQ(ferry::parse_bytes("512KiB"), 512u << 10);
  EXPECT_EQ(ferry::parse_bytes("512MiB"), 512u << 20);
  EXPECT_EQ(ferry::parse_bytes("1.5GiB"), 3u << 29);
  EXPECT_EQ(ferry::parse_bytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(ferry::parse_bytes("3TiB"), std::size_t{3} << 40);
  EXPECT_EQ(ferry::parse_bytes("0.1GiB"), 107'374'182u);
  EXPECT_EQ(ferry::parse_bytes("18446744073709551615"), std::numeric_limits<std::size_t>::max());
}

TEST(ParseBytes, IgnoresCaseOfUnitsAndBlanksAtTheEnds) {
  EXPECT_EQ(ferry::parse_bytes("1gib"), std::size_t{1} << 30);
  EXPECT_EQ(ferry::parse_bytes("1GIB"), std::size_t{1} << 30);
  EXPECT_EQ(ferry::parse_bytes(" \t64KiB\n"), 65'536u);
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (char const* text : {"",
                           " ",
                           "-1",
                           "+1",
                           "nan",
                           "inf",
                           "1e9",
                           "0x10",
                           "12 GiB",
                           "12GX",
                           "GiB",
                           "1.5",
                           "1.5B",
                           "5.",
                           ".5GiB",
                           "1,5GiB",
                           "12G",
                           "1GiB1",
                           "1..5GiB",
                           "18446744073709551616",
                           "17000000000TiB",
                           "99999999999.5TiB",
                           "70%"}) {
    EXPECT_THROW(static_cast<void>(ferry::parse_bytes(text)), setting_error) << text;
  }
}

TEST(FormatBytes, ShowsThreeSignificantDigits) {
  EXPECT_EQ(ferry::format_bytes(0), "0 B");
  EXPECT_EQ(ferry::format_bytes(512), "512 B");
  EXPECT_EQ(ferry::format_bytes(1023), "1023 B");
  EXPECT_EQ(ferry::format_bytes(64 << 10), "64.0 KiB");
  EXPECT_EQ(ferry::format_bytes(512 << 20), "512 MiB");
  EXPECT_EQ(ferry::format_bytes(3u << 29), "1.50 GiB");
  EXPECT_EQ(ferry::format_bytes((1u << 20) - 1), "1.00 MiB");
  EXPECT_EQ(ferry::format_bytes(10'239), "10.0 KiB");
  EXPECT_EQ(ferry::format_bytes(std::numeric_limits<std::size_t>::max()), "16.0 EiB");
}

TEST(ByteAmount, TakesItsShareOfATotal) {
  EXPECT_EQ(byte_amount::exactly(100).of(10), 100u);
  EXPECT_EQ(byte_amount::share(0.5).of(1001), 500u);
  EXPECT_EQ(byte_amount::share(1).of(std::numeric_limits<std::size_t>::max()), std::numeric_limits<std::size_t>::max());
}

TEST(Config, TakesBytesOrShares) {
  EXPECT_EQ(with("FERRY_BUDGET=12GiB").budget, byte_amount::exactly(std::size_t{12} << 30));
  EXPECT_EQ(with("FERRY_BUDGET=70%").budget, byte_amount::share(0.7));
  EXPECT_EQ(with("FERRY_HOST_BUDGET=12.5%").host_budget, byte_amount::share(0.125));
  EXPECT_EQ(with("FERRY_HOST_BUDGET=0").host_budget, byte_amount::exactly(0)) << "nothing is ferried";
  EXPECT_EQ(with("FERRY_MAX_IN_FLIGHT=100%").max_in_flight, byte_amount::share(1));
}

TEST(Config, TakesPolicies) {
  EXPECT_EQ(with("FERRY_POLICY=auto").policy.kind, policy_kind::automatic);
  EXPECT_EQ(with("FERRY_POLICY=plan=a b.json").policy, (ferry::policy_choice{policy_kind::plan, 0, "a b.json"}));
  EXPECT_EQ(with("FERRY_POLICY=keep").policy.kind, policy_kind::keep);
  EXPECT_EQ(with("FERRY_POLICY=recompute").policy.kind, policy_kind::recompute);
  EXPECT_EQ(with("FERRY_POLICY=offload").policy.kind, policy_kind::offload);
  EXPECT_EQ(with("FERRY_POLICY=selective").policy.kind, policy_kind::selective);
  EXPECT_EQ(with("FERRY_POLICY=sqrt").policy.kind, policy_kind::sqrt);
  EXPECT_EQ(with("FERRY_POLICY=every=4").policy, (ferry::policy_choice{policy_kind::every, 4}));
}

TEST(Config, TakesTheOtherSettings) {
  EXPECT_EQ(with("FERRY_DEVICE=cuda:1").device, "cuda:1");
  EXPECT_EQ(with("FERRY_MIN_BYTES=0").min_bytes, 0u);
  EXPECT_EQ(with("FERRY_CHUNK_BYTES=64KiB").chunk_bytes, 65'536u);
  EXPECT_EQ(with("FERRY_RUN_AHEAD=64").run_ahead, 64u);
  EXPECT_EQ(with("FERRY_STALL_TOLERANCE_US=12.5").stall_tolerance_us, 12.5);
  EXPECT_EQ(with("FERRY_VERIFY=checksum").verify, ferry::verify_mode::checksum);
  EXPECT_EQ(with("FERRY_LOG=debug").log, ferry::log_level::debug);
  EXPECT_EQ(with("FERRY_STATS= a=b.json").stats_file, " a=b.json");
  EXPECT_EQ(with("FERRY_STATS=off").stats_file, "");
  EXPECT_EQ(with("FERRY_PROFILE=step.json").profile_file, "step.json");
  EXPECT_EQ(with("FERRY_TRACE=t.json").trace_file, "t.json");
  EXPECT_EQ(with("FERRY_DEVICE_BYTES=1GB").device_bytes, 1'000'000'000u);
  EXPECT_EQ(with("FERRY_PINNED_BYTES=1GB").pinned_bytes, 1'000'000'000u);
  EXPECT_EQ(with("FERRY_COMPUTE_THREADS=auto").compute_threads, 0u);
  EXPECT_TRUE(with("FERRY_CHECK_ORDER=on").check_order);
}

TEST(Config, VerifiesCopiesRecipesOrBoth) {
  using enum ferry::verify_mode;
  EXPECT_EQ(with("FERRY_VERIFY=off").verify, off);
  EXPECT_EQ(with("FERRY_VERIFY=recipes").verify, recipes);
  EXPECT_EQ(with("FERRY_VERIFY=checksum,recipes").verify, checksum_and_recipes);
  EXPECT_EQ(with("FERRY_VERIFY= recipes , checksum ").verify, checksum_and_recipes);
  for (char const* const wrong : {"recipes,", ",", "off,recipes", "recipes,off", "off,off", "recipes,recipes", "all"}) {
    EXPECT_THROW(static_cast<void>(with(std::string("FERRY_VERIFY=") + wrong)), ferry::setting_error) << wrong;
  }
  EXPECT_TRUE(verifies(checksum_and_recipes, checksum) && verifies(checksum_and_recipes, recipes));
  EXPECT_FALSE(verifies(checksum, recipes) || verifies(recipes, checksum) || verifies(off, recipes));
}

TEST(Config, TakesLinkValuesForOneOrBothDirections) {
  EXPECT_TRUE(with("FERRY_LINK_GBPS=auto").link_gbps.automatic);
  config const both = with("FERRY_LINK_GBPS=12.5");
  EXPECT_FALSE(both.link_gbps.automatic);
  EXPECT_EQ(both.link_gbps.device_to_host, 12.5);
  EXPECT_EQ(both.link_gbps.host_to_device, 12.5);
  config const each = with("FERRY_LINK_LATENCY_US=10, 20");
  EXPECT_EQ(each.link_latency_us.device_to_host, 10);
  EXPECT_EQ(each.link_latency_us.host_to_device, 20);
}

TEST(Config, TakesLinkSpeedsOverTheSteps) {
  using ferry::link_change;
  config const falling = with("FERRY_LINK_GBPS=5@0, 2/1.5@20");
  EXPECT_EQ(falling.link_schedule, (std::vector<link_change>{{0, 5, 5}, {20, 2, 1.5}}));
  EXPECT_FALSE(falling.link_gbps.automatic);
  EXPECT_EQ(falling.link_gbps.device_to_host, 5);
  config const unpaced = with("FERRY_LINK_GBPS=0@0");
  EXPECT_EQ(unpaced.link_schedule, (std::vector<link_change>{{0, 0, 0}}));
  config settings = falling;
  settings.set("FERRY_LINK_GBPS", "3");
  EXPECT_TRUE(settings.link_schedule.empty()) << "the last word counts";
  settings = falling;
  settings.set("FERRY_LINK_GBPS", "auto");
  EXPECT_TRUE(settings.link_schedule.empty());
  EXPECT_TRUE(settings.link_gbps.automatic);
}

TEST(Config, AWrongLinkScheduleIsExplained) {
  for (char const* entry : {"FERRY_LINK_GBPS=5@0,1.5", "FERRY_LINK_GBPS=5,1.5@20"}) {
    EXPECT_THAT(error_of(entry), HasSubstr("some speeds have a step and others have none; accepted: auto, 0,"));
    EXPECT_THAT(error_of(entry), HasSubstr("VALUE@STEP or D2H/H2D@STEP"));
  }
  EXPECT_THAT(error_of("FERRY_LINK_GBPS=5@1"), HasSubstr("the first step is not 0"));
  EXPECT_THAT(error_of("FERRY_LINK_GBPS=5@0,2@9,1@9"), HasSubstr("the steps do not ascend"));
  EXPECT_THAT(error_of("FERRY_LINK_GBPS=5@0,2@-1"), HasSubstr("not a whole number"));
}

TEST(Config, RefusesWhatMakesNoSense) {
  for (char const* entry : {"FERRY_BUDGET=0",
                            "FERRY_BUDGET=0%",
                            "FERRY_BUDGET=100.1%",
                            "FERRY_BUDGET=-5%",
                            "FERRY_BUDGET=%",
                            "FERRY_BUDGET=nan%",
                            "FERRY_BUDGET=1e1%",
                            "FERRY_BUDGET=",
                            "FERRY_HOST_BUDGET=0%",
                            "FERRY_MAX_IN_FLIGHT=0B",
                            "FERRY_CHUNK_BYTES=65535",
                            "FERRY_CHUNK_BYTES=1025MiB",
                            "FERRY_RUN_AHEAD=0",
                            "FERRY_RUN_AHEAD=65",
                            "FERRY_RUN_AHEAD=1.5",
                            "FERRY_RUN_AHEAD=99999999999",
                            "FERRY_POLICY=every",
                            "FERRY_POLICY=every=0",
                            "FERRY_POLICY=every=-1",
                            "FERRY_POLICY=plan",
                            "FERRY_POLICY=plan=",
                            "FERRY_INSURE=yes",
                            "FERRY_ADAPT=maybe",
                            "FERRY_PLAN_EFFORT=0",
                            "FERRY_PLAN_EFFORT=10000001",
                            "FERRY_PLAN_EFFORT=-5",
                            "FERRY_PLAN_EFFORT=much",
                            "FERRY_POLICY=Keep",
                            "FERRY_DEVICE=",
                            "FERRY_DEVICE=gpu",
                            "FERRY_DEVICE=cuda:",
                            "FERRY_DEVICE=cuda:x",
                            "FERRY_DEVICE=cuda:1024",
                            "FERRY_STALL_TOLERANCE_US=-1",
                            "FERRY_STALL_TOLERANCE_US=nan",
                            "FERRY_STALL_TOLERANCE_US=inf",
                            "FERRY_STALL_TOLERANCE_US=1e999",
                            "FERRY_VERIFY=on",
                            "FERRY_LOG=warn",
                            "FERRY_STATS=",
                            "FERRY_TRACE=",
                            "FERRY_DEVICE_BYTES=0",
                            "FERRY_PINNED_BYTES=0",
                            "FERRY_DEVICE_BYTES=50%",
                            "FERRY_LINK_GBPS=1,",
                            "FERRY_LINK_GBPS=,1",
                            "FERRY_LINK_GBPS=1,2,3",
                            "FERRY_LINK_GBPS=auto,1",
                            "FERRY_LINK_GBPS=1e-9",
                            "FERRY_LINK_GBPS=10001",
                            "FERRY_LINK_GBPS=@",
                            "FERRY_LINK_GBPS=5@",
                            "FERRY_LINK_GBPS=@0",
                            "FERRY_LINK_GBPS=5@0,",
                            "FERRY_LINK_GBPS=5@0@1",
                            "FERRY_LINK_GBPS=5@0.5",
                            "FERRY_LINK_GBPS=5/@0",
                            "FERRY_LINK_GBPS=/5@0",
                            "FERRY_LINK_GBPS=1/2/3@0",
                            "FERRY_LINK_GBPS=1/2",
                            "FERRY_LINK_GBPS=auto@0",
                            "FERRY_LINK_GBPS=1e-9@0",
                            "FERRY_LINK_GBPS=5@0,10001@4",
                            "FERRY_LINK_GBPS=5@0,1@2000000000",
                            "FERRY_LINK_LATENCY_US=auto",
                            "FERRY_LINK_LATENCY_US=-1",
                            "FERRY_COMPUTE_THREADS=0",
                            "FERRY_COMPUTE_THREADS=1025",
                            "FERRY_CHECK_ORDER=yes",
                            "FERRY_CHECK_ORDER=1"}) {
    EXPECT_THROW(with(entry), setting_error) << entry;
  }
}

TEST(Config, ErrorNamesVariableValueAndWhatIsAccepted) {
  EXPECT_EQ(error_of("FERRY_BUDGET=12 GX"),
            "FERRY_BUDGET='12 GX': not a byte amount; accepted: bytes with an optional unit (512MiB, 12GiB) or a share "
            "(70%)");
  EXPECT_EQ(error_of("FERRY_RUN_AHEAD=0"), "FERRY_RUN_AHEAD='0': out of range; accepted: 1 to 64");
}

TEST(Config, ErrorIsOneLineWhateverTheValue) {
  std::string const message = error_of("FERRY_BUDGET=a\nb\x1b[31m" + std::string(1000, 'x'));
  EXPECT_THAT(message, AllOf(Not(HasSubstr("\n")), Not(HasSubstr("\x1b")), HasSubstr("...'")));
  EXPECT_LT(message.size(), 250u);
}

TEST(Config, UnknownVariableSuggestsTheNearest) {
  EXPECT_EQ(error_of("FERRY_BUGDET=1GiB"),
            "FERRY_BUGDET is not a setting; did you mean FERRY_BUDGET? `ferry env` lists them all");
  EXPECT_THAT(error_of("FERRY_LOGS=info"), HasSubstr("did you mean FERRY_LOG?"));
  EXPECT_EQ(error_of("FERRY_ENTIRELY_DIFFERENT=1"),
            "FERRY_ENTIRELY_DIFFERENT is not a setting; `ferry env` lists them all");
}

TEST(Config, LeavesOtherVariablesAlone) {
  config const settings =
      config::from_entries({"PATH=/bin", "FERRYMAN=1", "XFERRY_BUDGET=x", "FERRY_REQUIRE_GPU=1", "no equals sign"});
  EXPECT_EQ(settings.budget, config{}.budget);
}

TEST(Config, ReadsTheEnvironment) {
  ASSERT_EQ(setenv("FERRY_RUN_AHEAD", "7", 1), 0);
  EXPECT_EQ(config::from_env().run_ahead, 7u);
  ASSERT_EQ(setenv("FERRY_RUN_AHEAD", "seven", 1), 0);
  EXPECT_THROW(static_cast<void>(config::from_env()), setting_error);
  ASSERT_EQ(unsetenv("FERRY_RUN_AHEAD"), 0);
}

TEST(Config, AFailedSetChangesNothing) {
  config settings;
  EXPECT_THROW(settings.set("FERRY_LINK_GBPS", "3,x"), setting_error);
  EXPECT_THROW(settings.set("FERRY_LINK_GBPS", "3@0,x@1"), setting_error);
  EXPECT_TRUE(settings.link_gbps.automatic);
  EXPECT_TRUE(settings.link_schedule.empty());
}

TEST(DescribeSettings, CoversEverySettingOnce) {
  std::set<std::string> seen;
  for (auto const& row : ferry::describe_settings(config{})) {
    EXPECT_TRUE(seen.insert(row.variable).second) << row.variable;
    EXPECT_EQ(row.value, row.initial);
    EXPECT_FALSE(row.accepted.empty());
    EXPECT_FALSE(row.meaning.empty());
    EXPECT_FALSE(row.member.empty()) << row.variable;
    EXPECT_FALSE(row.group.empty()) << row.variable;
    EXPECT_TRUE(row.details.ends_with('.')) << row.variable << ": " << row.details;
    EXPECT_THAT(row.meaning + row.accepted, Not(HasSubstr("|"))) << "would break the table of docs/settings.md";
  }
  EXPECT_EQ(seen.size(), 24u);
}

TEST(DescribeSettings, DefaultsReadBackAsThemselves) {
  config settings;
  for (auto const& row : ferry::describe_settings(config{})) settings.set(row.variable, row.initial);
  for (auto const& row : ferry::describe_settings(settings)) EXPECT_EQ(row.value, row.initial) << row.variable;
}

TEST(DescribeSettings, AFileCalledOffIsNotTheWordOff) {
  config settings;
  settings.stats_file = "off";
  for (auto const& row : ferry::describe_settings(settings)) {
    if (row.variable == "FERRY_STATS") {
      EXPECT_EQ(row.value, "./off");
    }
  }
}

TEST(Nearest, CountsASwapAsOneEdit) {
  std::array<std::string_view, 2> const names{"abcdefgh", "abxxefgh"};
  EXPECT_EQ(ferry::support::nearest("abdcefgh", names), "abcdefgh");
  EXPECT_EQ(ferry::support::nearest("zzzzzzzz", names), "");
}

}  // namespace
