// What is said of a comparison, from made-up steps: medians of paired steps, who is recommended, honesty, pictures.
#include "train/compared.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/progress.hpp"
#include "common/svg.hpp"
#include "train/slow_link.hpp"

namespace ferry::command {
namespace {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::StartsWith;

constexpr std::size_t one_mib = std::size_t{1} << 20;

/// Steps that scatter by 1% to both sides of `seconds`; the first half takes three times as long.
compared_row made_row(std::string name, double seconds, std::size_t device_mib = 20, std::size_t steps = 32) {
  compared_row made{.policy = std::move(name), .failure = {}, .seconds = {}, .figures = {}, .notes = {}};
  for (std::size_t i = 0; i < steps; ++i) {
    double const learning = i < steps / 2 ? 3 : 1;
    made.seconds.push_back(learning * seconds * (i % 3 == 0 ? 1.01 : i % 3 == 1 ? 0.99 : 1));
  }
  made.figures.peak_device_bytes = device_mib * one_mib;
  return made;
}

compared_row made_unfit(std::string name, std::size_t needs_bytes) {
  auto made = made_row(std::move(name), 1);
  made.failure = "out of device memory: " + std::string(90, 'x');
  made.needs_bytes = needs_bytes;
  return made;
}

compared_budget made_comparison(std::vector<compared_row> policies) {
  compared_budget made{20 * one_mib, 100 * one_mib, 512, {made_row("unlimited", 0.1, 100)}};
  for (auto& one : policies) made.rows.push_back(std::move(one));
  // The reference does not scatter, so that the ratios do.
  for (auto& second : made.rows.front().seconds) second = 0.1;
  return made;
}

TEST(PairedRatio, IsTheMedianOfTurnsWhateverBothSuffered) {
  std::vector<double> const reference{1, 2, 50, 4, 1};
  std::vector<double> const slower{1.2, 2.4, 60, 4.8, 9};
  auto const found = ratio_of(slower, reference);
  EXPECT_THAT(found.middle, DoubleNear(1.2, 1e-12));
  EXPECT_THAT(found.error, Optional(DoubleNear(0, 1e-12)));
}

TEST(PairedRatio, ErrorShrinksWithTheRootOfTheTurns) {
  std::vector<double> few;
  for (int i = 0; i < 9; ++i) few.push_back(i % 2 == 0 ? 1.1 : 0.9);
  std::vector<double> many;
  for (int i = 0; i < 4; ++i) many.insert(many.end(), few.begin(), few.end());
  std::vector<double> const ones(36, 1.0);
  auto const scattered = ratio_of(few, ones);
  auto const sure = ratio_of(many, ones);
  ASSERT_TRUE(scattered.error && sure.error);
  EXPECT_GT(*scattered.error, 0);
  EXPECT_THAT(*scattered.error / *sure.error, DoubleNear(2, 1e-9));
}

TEST(PairedRatio, FewTurnsDecideNothing) {
  auto const found = ratio_of(std::vector<double>{2, 2, 2}, std::vector<double>{1, 1, 1});
  EXPECT_THAT(found.middle, DoubleEq(2));
  EXPECT_FALSE(found.error);
  EXPECT_FALSE(found.clearly_above(1));
}

TEST(PairedRatio, ClearIsBeyondChanceAndBeyondWhatMatters) {
  EXPECT_TRUE((paired_ratio{1.1, 0.02, 1.05}.clearly_above(1)));
  EXPECT_FALSE((paired_ratio{1.1, 0.06, 1.05}.clearly_above(1))) << "within chance";
  EXPECT_FALSE((paired_ratio{1.005, 0.0001, 1.004}.clearly_above(1))) << "nobody minds";
  EXPECT_FALSE((paired_ratio{1.1, 0.02, 0.99}.clearly_above(1))) << "too many turns say otherwise";
}

TEST(Compared, TheFirstHalfOfTheStepsIsForLearning) {
  EXPECT_EQ(first_judged(3), 0U);
  EXPECT_EQ(first_judged(4), 3U);
  EXPECT_EQ(first_judged(24), 12U);
  auto const all = made_comparison({made_row("a", 0.2)});
  EXPECT_THAT(all.time_of(all.rows.back()).middle, DoubleNear(2, 1e-9));
}

TEST(Compared, TokensASecondSayTheSameAsTheTime) {
  auto all = made_comparison({made_row("recompute", 0.13), made_row("auto", 0.11)});
  // A machine that slows down falls on a row's own median as on the reference's, but at other steps.
  for (auto& one : all.rows) {
    for (std::size_t i = 0; i < one.seconds.size(); ++i) one.seconds[i] *= 1 + 0.1 * static_cast<double>(i % 5);
  }
  double const unlimited = all.tokens_per_second(all.reference());
  for (auto const& one : all.rows) {
    EXPECT_THAT(unlimited / all.tokens_per_second(one), DoubleNear(all.time_of(one).middle, 1e-12)) << one.policy;
  }
  EXPECT_THAT(table_of(made_comparison({})), HasSubstr(" 5120 ")) << "512 tokens in a tenth of a second";
}

TEST(Compared, ATimeBelowThatOfUnlimitedMemoryTellsOfNoise) {
  auto const all = made_comparison({made_row("recompute", 0.084), made_row("auto", 0.1)});
  EXPECT_THAT(all.noise(), DoubleNear(0.16, 0.01));
  EXPECT_THAT(table_of(all), AllOf(HasSubstr("0.84x  16.0%"), HasSubstr("1.00x  16.0%")));
  EXPECT_EQ(all.recommended()->policy, "auto") << "no verdict below the noise";
  EXPECT_THAT(words_of(all), HasSubstr("run it again when the machine is quiet"));
  EXPECT_LT(made_comparison({made_row("recompute", 0.12), made_row("auto", 0.11)}).noise(), 1e-9);
}

TEST(Compared, AutoIsRecommendedWhereItIsTheBest) {
  auto const all = made_comparison({made_unfit("keep", 90 * one_mib), made_row("recompute", 0.124),
                                    made_row("offload", 0.14), made_row("auto", 0.104)});
  EXPECT_EQ(words_of(all),
            "20%: 5.0x less memory for 4.0% more time (±0.5%) with auto; recomputation alone costs 24%, "
            "copies alone 40%\n");
  EXPECT_THAT(next_of(all), StartsWith("Try next: --policy auto --budget 20480KiB"));
}

TEST(Compared, AutoIsRecommendedWithinTheNoise) {
  auto const all = made_comparison({made_row("recompute", 0.1035), made_row("auto", 0.104)});
  ASSERT_EQ(all.fastest()->policy, "recompute");
  EXPECT_THAT(words_of(all), AllOf(HasSubstr("with auto"), HasSubstr("auto and recompute are equal within what was"),
                                   Not(HasSubstr("Not auto"))));
  EXPECT_THAT(next_of(all), HasSubstr("--policy auto"));
}

TEST(Compared, WhereAutoIsNotTheBestItIsSaidAndWhy) {
  auto automatic = made_row("auto", 0.13);
  automatic.figures.waiting_us = 12'300;
  automatic.figures.recompute_share = 0.189;
  automatic.figures.planned = 1.09;
  automatic.notes = {"auto, step 9: offload goes: it took 140.000 ms, the plan 130.000"};
  auto const all = made_comparison({made_row("recompute", 0.12), made_row("offload", 0.14), std::move(automatic)});
  EXPECT_EQ(words_of(all),
            "20%: 5.0x less memory for 20% more time (±0.5%) with recompute; recomputation alone costs 20%, copies "
            "alone 40%\n"
            "Not auto: recompute was quicker, auto took 8.3% more time (±0.0%); a step of auto's waited 12.3 ms for "
            "copies and rebuilt 18.9% of the FLOPs; its plan foresaw 9.0% more time than unlimited memory, it took 30% "
            "more time\n"
            "  auto, step 9: offload goes: it took 140.000 ms, the plan 130.000\n");
  EXPECT_THAT(next_of(all), HasSubstr("--policy recompute"));
}

TEST(Compared, SomethingElseThatLastsForTurnsIsNoVerdict) {
  auto automatic = made_row("auto", 0.1, 20, 24);
  for (std::size_t i = 12; i < 24; ++i) automatic.seconds[i] = i % 4 == 0 ? 0.09 : 0.2;  // as if somebody else compiled
  auto const all = made_comparison({made_row("recompute", 0.1, 20, 24), std::move(automatic)});
  EXPECT_EQ(all.recommended()->policy, "auto");
}

TEST(Compared, AMachineThatIsBusyIsSaid) {
  auto automatic = made_row("auto", 0.1, 20, 24);
  for (std::size_t i = 12; i < 24; ++i) automatic.seconds[i] = i % 2 == 0 ? 0.1 : 0.3;
  EXPECT_THAT(words_of(made_comparison({std::move(automatic)})), HasSubstr("run it again when the machine is quiet"));
  EXPECT_THAT(words_of(made_comparison({made_row("auto", 0.1)})), Not(HasSubstr("quiet")));
}

TEST(Compared, WhereEverythingFitsNothingIsSaidToBeLess) {
  EXPECT_THAT(words_of(made_comparison({made_row("auto", 0.1, 98)})),
              StartsWith("20%: the same memory for no more time"));
}

TEST(Compared, TooFewStepsAreNoVerdict) {
  auto const all = made_comparison({made_row("recompute", 0.104, 20, 3), made_row("auto", 0.13, 20, 3)});
  EXPECT_THAT(words_of(all), HasSubstr("Too few steps to tell auto from recompute: give --steps 16 or more"));
  EXPECT_THAT(next_of(all), HasSubstr("--policy auto"));
}

TEST(Compared, WithoutAutoTheFastestIsRecommended) {
  auto const all = made_comparison({made_row("recompute", 0.12), made_unfit("auto", 30 * one_mib)});
  EXPECT_THAT(words_of(all), HasSubstr("auto did not fit this budget"));
  EXPECT_THAT(next_of(all), HasSubstr("--policy recompute"));
  auto const none = made_comparison({made_unfit("recompute", 0), made_unfit("auto", 0)});
  EXPECT_THAT(words_of(none), IsEmpty());
  EXPECT_THAT(next_of(none), IsEmpty());
}

TEST(Compared, TheTableSaysBrieflyWhatDoesNotFit) {
  auto const table = table_of(made_comparison({made_unfit("keep", 90 * one_mib), made_row("auto", 0.104)}));
  EXPECT_THAT(table, AllOf(HasSubstr("keep       does not fit: the smallest that works is --budget 92160KiB\n"),
                           HasSubstr("1.04x   0.5%"), HasSubstr("±")));
}

TEST(Compared, ThePictureHasAPanelForEachBudget) {
  std::vector<compared_budget> all{made_comparison({made_unfit("keep", 0), made_row("auto", 0.104)}),
                                   made_comparison({made_row("auto", 0.102)})};
  all.back().budget_bytes = 30 * one_mib;
  auto const picture = svg_of(all, "GPT <of 16>");
  EXPECT_THAT(picture, AllOf(StartsWith("<svg "), HasSubstr("budget 20.0 MiB (20% of keeping all)"),
                             HasSubstr("budget 30.0 MiB (30% of keeping all)"), HasSubstr(">does not fit<"),
                             HasSubstr(">1.04x, 20.0 MiB on the device<"), HasSubstr("GPT &lt;of 16&gt;")));
}

TEST(Pictures, ASystemHasTheSameColourInEach) {
  EXPECT_EQ(series_of("auto"), 0U);
  EXPECT_EQ(series_of("every=2"), series_of("every=N"));
  EXPECT_NE(series_of("static"), series_of("rule alone"));
  std::vector<compared_budget> const all{made_comparison({made_row("recompute", 0.12), made_row("auto", 0.104)})};
  EXPECT_THAT(svg_of(all, "a GPT"), AllOf(HasSubstr(R"(stroke="#2ca02c" stroke-width="15" class="series-2 bar")"),
                                          HasSubstr(R"(stroke="#d62728" stroke-width="15" class="series-0 bar")"),
                                          HasSubstr(R"(class="unlimited bar")")));
}

TEST(Pictures, NamesAtTheEndsOfCurvesKeepApart) {
  svg on(100, 100, "names");
  on.name_ends(50, 20, {{31, "lower", "series-1"}, {30, "upper", "series-0"}, {2, "first", "axis"}});
  auto const text = std::move(on).finish();
  for (char const* place : {R"(y="20.00" text-anchor="start" fill="#222222" class="">first<)",
                            R"(y="35.00" text-anchor="start" fill="#222222" class="">upper<)",
                            R"(y="50.00" text-anchor="start" fill="#222222" class="">lower<)"}) {
    EXPECT_THAT(text, HasSubstr(place));
  }
}

link_drop made_drop(double fixed, double automatic) {
  link_drop made{.step = 8, .gbps = 1.2, .slow_gbps = 0.4, .rows = {}};
  auto const add = [&](char const* name, double slow) {
    drop_row one{.name = name, .seconds = {}, .recompute_share = {}, .waiting_us = {}};
    for (std::size_t i = 0; i < 16; ++i) {
      bool const is_slow = i >= made.step;
      one.seconds.push_back(is_slow ? slow : 0.1);
      one.recompute_share.push_back(is_slow ? 0.19 : 0.05);
      one.waiting_us.push_back(is_slow ? 2000 : 1000);
    }
    made.rows.push_back(std::move(one));
  };
  add("unlimited", 0.1);
  add("static", fixed);
  add("auto", automatic);
  made.rows.back().plans_after = 2;
  return made;
}

TEST(SlowLink, SaysWhatTheDropCostAndWhatAutoDid) {
  auto const all = made_drop(0.195, 0.122);
  EXPECT_EQ(
      words_of(all),
      "With a third of the link the plan that stays takes 1.95x the time of unlimited memory and auto 1.22x: auto "
      "rebuilds 19.0% instead of 5.0% of the FLOPs, after 2 changes of plan\n");
  EXPECT_THAT(table_of(all), AllOf(HasSubstr("from step 9 on 0.4 GB/s"), HasSubstr("static        1.00x       1.95x"),
                                   HasSubstr("5.0% -> 19.0%"), HasSubstr("1 -> 2 ms")));
}

TEST(SlowLink, AMachineThatIsBusyIsSaid) {
  auto all = made_drop(0.195, 0.122);
  for (std::size_t i = all.step; i < 16; i += 2) all.rows[1].seconds[i] = 0.9;
  EXPECT_THAT(words_of(all), HasSubstr("run it again when the machine is quiet"));
}

TEST(SlowLink, AGainThatIsNoneIsSaid) {
  EXPECT_THAT(words_of(made_drop(0.12, 0.122)), HasSubstr("These steps prove no gain"));
}

TEST(SlowLink, ThePictureHasACurveForEachButTheReference) {
  auto all = made_drop(0.195, 0.122);
  all.rows.back().seconds[2] = 1;  // while plans are made
  auto const picture = svg_of(all, "a GPT");
  EXPECT_THAT(picture, AllOf(StartsWith("<svg "), HasSubstr(">static<"), HasSubstr(">auto<"),
                             Not(HasSubstr(">unlimited<")), HasSubstr(">0.4 GB/s<"), HasSubstr(">2.5x<"),
                             Not(HasSubstr(">3x<")), HasSubstr(R"(class="series-0 thick")")))
      << "auto's colour is that of other pictures";
}

TEST(ProgressBar, SaysHowFarAndHowLongStill) {
  EXPECT_EQ(bar_of(0, 100, 0, "auto", 80), "[                        ] step 1 of 100: auto");
  EXPECT_EQ(bar_of(25, 100, 30, "auto", 80), "[======                  ] step 26 of 100, 1:30 left: auto");
  EXPECT_EQ(bar_of(100, 100, 60, "", 80), "[========================] step 100 of 100, 0:00 left");
}

TEST(ProgressBar, SaysHoursToo) {
  EXPECT_EQ(words_of_time_left(0, 0), "");
  EXPECT_EQ(words_of_time_left(30, 0.25), "1:30 left");
  EXPECT_EQ(words_of_time_left(3600, 0.25), "3:00:00 left");
  EXPECT_EQ(words_of_time_left(10, 1), "0:00 left");
}

TEST(ProgressBar, LeavesOutWhatHasNoRoom) {
  EXPECT_EQ(bar_of(25, 100, 30, "auto", 42), "[======                  ] step 26 of 100");
  EXPECT_EQ(bar_of(3, 0, 1, "", 80).find('='), 1U) << "of nothing, all is done";
}

}  // namespace
}  // namespace ferry::command
