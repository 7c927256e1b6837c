// What `ferry bench` makes of its figures: break-even by hand, budgets, curves against each other, settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/breakeven.hpp"
#include "bench/contest.hpp"
#include "bench/link.hpp"
#include "bench/recommend.hpp"
#include "ferry/model_profile.hpp"
#include "support/temporary_folder.hpp"
#include "support/two_item_chain.hpp"

namespace ferry::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using testing::gpu_with_link;
using testing::mib;
using testing::two_item_chain;

profile two_kinds() {
  profile step;
  step.name = "two kinds";
  profile_segment segment{.forward_us = 1000, .backward_us = 2000, .items = {}};
  segment.items.push_back({.name = "dear", .bytes = 1'000'000, .recipe_us = 500, .inputs = {}});
  segment.items.push_back({.name = "cheap", .bytes = 4'000'000, .recipe_us = 40, .inputs = {{0, "dear"}}});
  segment.items.push_back({.name = "seed", .bytes = 1000, .recipe_us = {}, .inputs = {}});
  step.segments.push_back(segment);
  step.check();
  return step;
}

TEST(BreakEven, IsTheSpeedAtWhichMovingTakesAsLongAsRebuilding) {
  hardware on{.name = "a GPU", .device_to_host = {2, 0}, .host_to_device = {1, 0}};
  auto const table = weigh(two_kinds(), on);
  ASSERT_EQ(table.items.size(), 3U);
  EXPECT_EQ(table.items[0].name, "seed") << "what nothing rebuilds comes first";
  EXPECT_FALSE(table.items[0].even_gbps());
  EXPECT_EQ(table.items[0].advice, placement::offload);
  EXPECT_EQ(table.items[1].name, "dear");
  EXPECT_DOUBLE_EQ(*table.items[1].even_gbps(), 2);  // 1 MB in 500 us
  EXPECT_DOUBLE_EQ(table.items[1].in_us, 1000);
  EXPECT_EQ(table.items[2].name, "cheap");
  EXPECT_DOUBLE_EQ(*table.items[2].even_gbps(), 100);
  EXPECT_EQ(table.items[2].advice, placement::recompute);
}

TEST(BreakEven, TheLinkCarriesTheDearestAsFarAsComputeHidesIt) {
  // 1000 us of forward hide 1.3 MB out, 2000 us of backward hide 2 MB in.
  hardware on{.name = "a GPU", .device_to_host = {1.3, 0}, .host_to_device = {1, 0}};
  auto const table = weigh(two_kinds(), on);
  EXPECT_NEAR(table.hidden_bytes, 1'300'000, 1);
  EXPECT_DOUBLE_EQ(table.items[1].ferried_share, 1);
  EXPECT_NEAR(table.items[2].ferried_share, (1'300'000.0 - 1'001'000) / 4'000'000, 1e-9);
}

TEST(BreakEven, WithoutALinkEverythingIsRebuiltThatCanBe) {
  auto const table = weigh(two_kinds(), {});
  EXPECT_EQ(table.items[1].advice, placement::recompute);
  EXPECT_EQ(table.items[2].advice, placement::recompute);
}

TEST(BreakEven, SweepsNameEveryItemOnceAndLeaveGapsWhereItIsNot) {
  auto const swept = sweep_axis("size", {1, 2}, [](int value) {
    auto step = two_kinds();
    if (value == 2) step.segments[0].items.erase(step.segments[0].items.begin() + 1);
    return step;
  });
  EXPECT_THAT(swept.items, ElementsAre("seed", "dear", "cheap"));
  EXPECT_DOUBLE_EQ(swept.gbps[1][0], 2);
  EXPECT_DOUBLE_EQ(swept.gbps[2][0], 100);
  EXPECT_EQ(swept.gbps[2][1], 0);
}

TEST(BreakEven, ASweepEndsWhereItsStepsDo) {
  auto const swept = sweep_axis("size", {1, 2, 3}, [](int value) -> std::optional<profile> {
    return value < 3 ? std::optional(two_kinds()) : std::nullopt;
  });
  EXPECT_THAT(swept.values, ElementsAre(1, 2));
  EXPECT_EQ(swept.gbps[1].size(), 2U);
  break_even all;
  all.not_measured = {"width", "batch"};
  EXPECT_THAT(text_of(all), HasSubstr("\nbreak-even by width, by batch: not measured\n"));
}

profile gpt_step(int layers, int batch = 4) {
  return gpt_profile({.layers = layers, .width = 1024, .heads = 8, .context = 512, .batch = batch},
                     named_hardware("rtx4090"));
}

/// Whatever comes out of the same step says the same of it: an embedding in the sums would not.
TEST(BreakEven, IsTheSameForAnyNumberOfLayersAndByHand) {
  auto const even_of = [](break_even_table const& table, std::string const& name) {
    return *std::ranges::find(table.items, name, &item_cost::name)->even_gbps();
  };
  auto const step = gpt_step(2);
  auto const& x = step.segments[1].items.front();
  double const by_hand = static_cast<double>(x.bytes) / (1e3 * *x.recipe_us);
  for (int const layers : {2, 3, 32}) {
    auto const table = weigh(gpt_step(layers), named_hardware("rtx4090"));
    EXPECT_NEAR(even_of(table, "x"), by_hand, 1e-9 * by_hand) << layers;
    EXPECT_GT(even_of(table, "first x"), by_hand);
  }
}

TEST(BreakEven, SaysOnceWhatADimensionDoesNotChange) {
  break_even all;
  all.table = weigh(gpt_step(2), named_hardware("rtx4090"));
  all.sweeps.push_back(sweep_axis("batch", {1, 2, 4, 8}, [](int value) { return gpt_step(2, value); }));
  EXPECT_THAT(text_of(all), HasSubstr("break-even in GB/s by batch: as above for 1 to 8; bytes and times grow alike"));
  all.sweeps.front() = sweep_axis("context", {512, 1024}, [](int value) {
    return gpt_profile({.layers = 2, .width = 1024, .heads = 8, .context = value, .batch = 4},
                       named_hardware("rtx4090"));
  });
  EXPECT_THAT(text_of(all), HasSubstr("as above for every context: "));
  EXPECT_THAT(text_of(all), HasSubstr("\nheads  "));
}

TEST(BreakEven, SaysOnceThatNothingFits) {
  break_even all;
  all.budget_bytes = mib;
  all.links.resize(3);
  EXPECT_THAT(text_of(all), HasSubstr("no mix fits 1.00 MiB, whatever the link"));
}

TEST(BreakEven, AFasterLinkNeverCostsMore) {
  auto const links = sweep_link(two_item_chain(6), gpu_with_link(4), 60 * mib, 50);
  for (std::size_t i = 1; i < links.size(); ++i) {
    ASSERT_TRUE(links[i].fits);
    EXPECT_LE(links[i].overhead, links[i - 1].overhead + 1e-9);
  }
}

TEST(Budgets, SpreadFromTheSmallestToTheLargestAndAscend) {
  auto const budgets = spread_budgets(100, 10'000, 3);
  EXPECT_THAT(budgets, ElementsAre(100, 1000, 10'000));
  EXPECT_THAT(spread_budgets(100, 100, 5), ElementsAre(100));
  EXPECT_THAT(spread_budgets(100, 50, 2), ElementsAre(100)) << "never below the smallest";
  EXPECT_THAT(spread_budgets(100, 200, 1), ElementsAre(200));
}

contest_point point(std::size_t budget, double us) {
  contest_point one;
  one.budget_bytes = budget;
  one.measured = true;
  one.fits = us > 0;
  one.step_us = us;
  one.failure = us > 0 ? "" : "too small";
  return one;
}

contest three_curves() {
  contest all;
  all.device = "sim";
  all.step = "a <step> & more";
  all.hardware = "a GPU";
  all.keep_all_bytes = 1000 * mib;
  all.unlimited_us = 100;
  all.budgets = {100 * mib, 200 * mib, 400 * mib};
  all.curves = {
      {"auto", "planned", false, {point(all.budgets[0], 120), point(all.budgets[1], 104), point(all.budgets[2], 100)}},
      {"keep", "stays", false, {point(all.budgets[0], 0), point(all.budgets[1], 0), point(all.budgets[2], 100)}},
      {"recompute",
       "rebuilt",
       false,
       {point(all.budgets[0], 130), point(all.budgets[1], 130), point(all.budgets[2], 130)}},
      {"others", "moves", true, {point(all.budgets[0], 0), point(all.budgets[1], 101), point(all.budgets[2], 101)}}};
  all.curves[0].points[1].host_peak_bytes = 10 * mib;
  return all;
}

TEST(Contest, SaysWhereAnotherCurveIsBelowAuto) {
  auto const lost = three_curves().lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].by, "others");
  EXPECT_EQ(lost[0].budget_bytes, 200 * mib);
  EXPECT_NEAR(lost[0].ratio, 104.0 / 101, 1e-12);
}

TEST(Contest, DifferencesWithinTheNoiseAreNone) {
  auto all = three_curves();
  all.noise = 0.05;
  EXPECT_TRUE(all.lost().empty());
}

TEST(Contest, LosesWhereAutoDoesNotFitAndAnotherDoes) {
  auto all = three_curves();
  all.curves[0].points[0].fits = false;
  EXPECT_EQ(all.lost().front().budget_bytes, 100 * mib);
}

TEST(Contest, ErrorsOfTimesAreNoiseToo) {
  auto all = three_curves();
  all.curves[3].points[1].error = 0.02;
  EXPECT_TRUE(all.lost().empty());
}

TEST(Contest, WhatWasNotMeasuredIsSaidToBeSo) {
  auto all = three_curves();
  all.interrupted = true;
  for (auto& curve : all.curves) curve.points[2] = {};
  all.curves[3].points[1] = {};
  auto const text = table_of(all);
  EXPECT_THAT(text, HasSubstr("budget               100 MiB       200 MiB\n"));
  EXPECT_THAT(text, HasSubstr("auto                   20.0%         4.00%\n"));
  EXPECT_THAT(text, HasSubstr("others                     -  not measured\n"));
  EXPECT_THAT(text, HasSubstr("\nbudgets not measured: 400 MiB\n"));
  EXPECT_EQ(json_of(all)["curves"][0]["points"][2]["failure"], "not measured");
  EXPECT_TRUE(all.lost().empty()) << "of what was not measured";
  EXPECT_TRUE(recommend(&all, nullptr, {}).empty());
  EXPECT_EQ(words_of_advice(all, {}, "a GPU"), "");
  for (auto& curve : all.curves) {
    for (auto& one : curve.points) one = {};
  }
  EXPECT_EQ(table_of(all), "budgets not measured: 100 MiB, 200 MiB, 400 MiB\n");
}

TEST(Contest, ATimeBelowThatOfUnlimitedMemoryIsShownAsItIs) {
  auto all = three_curves();
  all.curves[2].points[1] = point(all.budgets[1], 84);
  all.curves[2].points[2].error = 0.2;
  auto const text = table_of(all);
  EXPECT_THAT(text, HasSubstr("recompute          30.0%    -16.0%    30.0%?\n"));
  EXPECT_THAT(text, HasSubstr("\n? varies too much to say anything of it"));
}

TEST(Contest, ItsTableFitsTheTerminal) {
  auto all = three_curves();
  setenv("COLUMNS", "36", 1);
  auto const text = table_of(all);
  unsetenv("COLUMNS");
  EXPECT_THAT(text, HasSubstr("auto               20.0%     4.00%\n"));
  EXPECT_THAT(text, HasSubstr("\nbudget           400 MiB\n"));
  EXPECT_THAT(text, HasSubstr("auto               0.00%\n"));
}

TEST(Contest, TheBetterOfTwoFitsAndIsFaster) {
  EXPECT_EQ(better(point(1, 0), point(1, 50)).step_us, 50);
  EXPECT_EQ(better(point(1, 40), point(1, 50)).step_us, 40);
  EXPECT_EQ(better(point(1, 60), point(1, 50)).step_us, 50);
  EXPECT_FALSE(better(point(1, 0), point(1, 0)).fits);
}

TEST(Contest, PicturesEscapeWhatTheyAreTold) {
  auto const drawn = svg_of(three_curves());
  EXPECT_THAT(drawn, HasSubstr("a &lt;step&gt; &amp; more"));
  EXPECT_THAT(drawn, Not(HasSubstr("<step>")));
  EXPECT_THAT(drawn, HasSubstr("recompute"));
}

TEST(Contest, CurvesHaveTheirColoursWhateverElseIsThere) {
  auto all = three_curves();
  all.curves.erase(all.curves.begin());
  auto const drawn = svg_of(all);
  EXPECT_THAT(drawn, Not(HasSubstr("series-0\"")));
  EXPECT_THAT(drawn, HasSubstr(R"(stroke="#2ca02c" class="series-2")")) << "recompute's";
}

TEST(Contest, JsonHasEveryPointAndWhyOneDoesNotFit) {
  auto const value = json_of(three_curves());
  EXPECT_EQ(value["curves"].size(), 4U);
  EXPECT_EQ(value["curves"][1]["points"][0]["failure"], "too small");
  EXPECT_NEAR(value["curves"][0]["points"][1]["overhead"].get<double>(), 0.04, 1e-12);
  EXPECT_EQ(value["dominated"].size(), 1U);
}

TEST(Recommend, TheSmallestBudgetThatCostsLittle) {
  auto const all = three_curves();
  auto const advice = recommend(&all, nullptr, {});
  ASSERT_EQ(advice.size(), 3U);
  EXPECT_EQ(advice[0].variable, "FERRY_BUDGET");
  EXPECT_EQ(advice[0].value, "200MiB");
  EXPECT_EQ(advice[1].variable, "FERRY_POLICY");
  EXPECT_EQ(advice[1].value, "auto");
  EXPECT_NEAR(*advice[1].gain, 1 - 104.0 / 130, 1e-12);
  EXPECT_EQ(advice[2].value, "11MiB");
  auto const lines = exports_of(advice, "a GPU");
  EXPECT_THAT(lines, HasSubstr("export FERRY_BUDGET=200MiB"));
}

TEST(Recommend, OnlyOfWhatGotThroughItsSteps) {
  auto all = three_curves();
  for (auto& one : all.curves[0].points) one.fits = false;  // of `auto` nothing was measured
  all.curves[2].points[1].host_peak_bytes = 0;
  all.curves[2].points[2].step_us = 103;
  auto advice = recommend(&all, nullptr, {});
  ASSERT_EQ(advice.size(), 2U);
  EXPECT_EQ(advice[0].value, "400MiB");
  EXPECT_EQ(advice[0].why, "the largest that was tried, for 0.0% more time a step: less costs more");
  EXPECT_EQ(advice[1].value, "keep");
  for (auto& curve : all.curves) {
    for (auto& one : curve.points) one.fits = one.fits && curve.is_peer;
  }
  EXPECT_TRUE(recommend(&all, nullptr, {}).empty()) << "what others do is no setting";
}

TEST(Recommend, AnotherPolicyOnlyIfItIsFasterByMoreThanChance) {
  auto all = three_curves();
  all.curves[2].points[1].step_us = 102;
  all.curves[2].points[1].host_peak_bytes = 20 * mib;
  auto advice = recommend(&all, nullptr, {});
  ASSERT_EQ(advice.size(), 3U);
  EXPECT_EQ(advice[1].value, "recompute");
  EXPECT_THAT(advice[1].why, HasSubstr("shorter than with auto"));
  EXPECT_THAT(advice[0].why, HasSubstr("for 2.0% more time")) << "of the policy that is recommended";
  EXPECT_EQ(advice[2].value, "22MiB");
  for (bool const of_all : {true, false}) {
    all.noise = of_all ? 0.05 : 0;
    all.curves[2].points[1].error = of_all ? 0 : 0.02;
    advice = recommend(&all, nullptr, {});
    ASSERT_EQ(advice.size(), 3U);
    EXPECT_EQ(advice[1].value, "auto");
    EXPECT_THAT(advice[1].why, HasSubstr("no slower than recompute"));
    EXPECT_FALSE(advice[1].gain);
  }
}

TEST(Recommend, NothingFromWhatMeansLittle) {
  auto all = three_curves();
  all.noise = 0.16;
  auto advice = recommend(&all, nullptr, {});
  EXPECT_TRUE(advice.empty());
  EXPECT_THAT(words_of_advice(all, advice, "a GPU"), HasSubstr("run it again when the machine is quiet"));
  EXPECT_THAT(words_of_advice(all, advice, "a GPU"), Not(HasSubstr("export")));
}

TEST(Recommend, NothingFromRowsThatVaryTooMuch) {
  auto all = three_curves();
  for (auto& one : all.curves[0].points) one.error = 0.2;
  auto advice = recommend(&all, nullptr, {});
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[1].value, "keep") << "which does not vary";
  EXPECT_EQ(advice[1].why, "a step is 23.1% shorter than with recompute");
  for (auto& curve : all.curves) {
    for (auto& one : curve.points) one.error = std::numeric_limits<double>::infinity();
  }
  advice = recommend(&all, nullptr, {});
  EXPECT_TRUE(advice.empty());
  EXPECT_THAT(words_of_advice(all, advice, "a GPU"), HasSubstr("give more --rounds"));
  EXPECT_EQ(json_of(all)["curves"][0]["points"][0].count("error"), 0U);
}

TEST(Recommend, EveryValueIsOneThatTheSettingAccepts) {
  auto const all = three_curves();
  link_result link;
  link.chunks = {{64 << 10, 1, 1}, {1 << 20, 4, 4}, {4 << 20, 8, 8}};
  auto const advice = recommend(&all, &link, {});
  ASSERT_EQ(advice.size(), 4U);
  config settings;
  for (auto const& one : advice) EXPECT_NO_THROW(settings.set(one.variable, one.value)) << one.variable;
  EXPECT_EQ(settings.chunk_bytes, std::size_t{4} << 20);
  EXPECT_THAT(advice[3].why, HasSubstr("100% more"));
}

TEST(Recommend, AChunkThatGainsNothingIsNotMentioned) {
  link_result link;
  link.chunks = {{1 << 20, 8, 8}, {4 << 20, 8.1, 8.1}};
  EXPECT_TRUE(recommend(nullptr, &link, {}).empty());
}

TEST(BenchLink, ADirectionThatGoesOnAloneIsNotBesideTheOtherThen) {
  EXPECT_DOUBLE_EQ(gbps_beside(8'000'000, 1000, 1000, 10).value(), 8) << "beside the other all the time";
  // 3 MB of the 8 went in the 300 us that it was alone.
  EXPECT_DOUBLE_EQ(gbps_beside(8'000'000, 1300, 1000, 10).value(), 5);
  EXPECT_EQ(gbps_beside(8'000'000, 1300, 1000, 100), 0) << "noise";
  EXPECT_FALSE(gbps_beside(8'000'000, 1300, 600, 10)) << "they hardly met";
  EXPECT_FALSE(gbps_beside(8'000'000, 0, 0, 10));
  EXPECT_FALSE(gbps_beside(8'000'000, 1300, -5, 10));
}

link_contention measured_contention() {
  return {.copied_bytes = 16'000'000,
          .out = {1000, 1250},
          .back = {2000, 2000},
          .product_width = 1000,
          .products = 5,
          .compute_beside_out = {10'000, 10'010},
          .compute_beside_back = {10'000, 12'500},
          .compute_beside_both = {10'000, 16'000},
          .out_alone = {16, 9},
          .back_alone = {8, 10},
          .memory_gbps = 30,
          .device_bytes = 1 << 30,
          .pinned_bytes = 2 << 20};
}

TEST(BenchLink, SharesAreWhatIsLeftOfASpeedInHundredths) {
  EXPECT_EQ(measured_contention().shares(), (contention{.out_beside_back = 0.8,
                                                        .back_beside_out = 1,
                                                        .compute_beside_out = 1,
                                                        .compute_beside_back = 0.8,
                                                        .compute_beside_both = 0.63}));
  EXPECT_EQ(contended_time().share(), 1) << "not measured";
  EXPECT_EQ((contended_time{10, 9}.share()), 1) << "faster is noise";
  EXPECT_EQ((contended_time{1, 1e6}.share()), contention::least);
}

TEST(BenchLink, TheTableEndsWithALineOfAHardwareFile) {
  auto const text = table_of(measured_contention());
  EXPECT_THAT(text, HasSubstr("16.00 GB/s   12.80 GB/s      0.80\n"));
  EXPECT_THAT(text, HasSubstr("10.00 ms     16.00 ms      0.63\n"));
  EXPECT_THAT(text, HasSubstr("\n\"contention\": {\"out_beside_back\": 0.8, \"back_beside_out\": 1.0, "
                              "\"compute_beside_out\": 1.0, \"compute_beside_back\": 0.8, "
                              "\"compute_beside_both\": 0.63}\n"));
  auto const json = json_of(measured_contention());
  EXPECT_DOUBLE_EQ(json.at("out_beside_back").at("beside_gbps").get<double>(), 12.8);
  EXPECT_DOUBLE_EQ(json.at("contention").at("compute_beside_both").get<double>(), 0.63);
}

TEST(BenchLink, WhatWasMeasuredIsAHardwareFile) {
  testing::temporary_folder const folder;
  auto const file = folder.path() / "here.json";
  std::ofstream(file) << hardware_file_of(measured_contention(), "host");
  EXPECT_EQ(read_hardware(file), (hardware{.name = "host",
                                           .device_bytes = 1 << 30,
                                           .host_bytes = 2 << 20,
                                           .device_to_host = {16, 9},
                                           .host_to_device = {8, 10},
                                           .beside = measured_contention().shares(),
                                           .tflops = 1,
                                           .memory_gbps = 30}));
}

TEST(Link, TheGoodChunkIsTheSmallestNearTheBestByTheSlowerDirection) {
  link_result link;
  EXPECT_FALSE(link.good_chunk());
  link.chunks = {{64 << 10, 9, 2}, {128 << 10, 9.6, 9.6}, {256 << 10, 10, 10}};
  EXPECT_EQ(link.good_chunk(), std::size_t{128} << 10);
  EXPECT_NEAR(link.gain_over(64 << 10), 4.8, 1e-12);
  EXPECT_EQ(link.gain_over(12345), 1) << "not measured";
}

TEST(Link, ReadsLanesAsTheKernelWritesThem) {
  auto const four = pcie_rate_of("16.0 GT/s PCIe", "16");
  ASSERT_TRUE(four);
  EXPECT_EQ(four->words, "PCIe 4 x16");
  EXPECT_NEAR(four->gbps, 31.5, 0.02);
  auto const three = pcie_rate_of("8.0 GT/s PCIe", "8\n");
  ASSERT_TRUE(three);
  EXPECT_NEAR(three->gbps, 7.88, 0.01);
  for (char const* const speed : {"", "Unknown", "17 GT/s", "nan GT/s", "-8 GT/s"}) {
    EXPECT_FALSE(pcie_rate_of(speed, "16")) << speed;
  }
  for (char const* const width : {"", "0", "255", "x16"}) EXPECT_FALSE(pcie_rate_of("8.0 GT/s PCIe", width)) << width;
}

}  // namespace
}  // namespace ferry::command
