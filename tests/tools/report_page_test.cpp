// The page of `ferry report`: what is left out of long runs, what it advises, and that names are inert.
#include "report/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/advice.hpp"
#include "report/page_data.hpp"
#include "report_samples.hpp"

namespace ferry::command {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using namespace testing;

/// The data that a page holds, as a browser would read it.
json data_in(std::string const& page) {
  std::string_view const begin = R"(<script id="data" type="application/json">)";
  auto const from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

run_data of(std::initializer_list<std::string> texts) {
  std::vector<run_data> files;
  for (auto const& text : texts) files.push_back(read_text(text));
  return join(std::move(files));
}

TEST(ReportPage, HoldsNothingFromElsewhere) {
  auto const page = make_page(of({trace_of(3), bench_json(), compare_json()}));
  EXPECT_EQ(page.find("http://", 0), page.find("http://www.w3.org/2000/svg"));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("innerHTML")));
  for (char const* mark : {"<!--title-->", "/*style*/", "/*data*/", "/*script*/"})
    EXPECT_THAT(page, Not(HasSubstr(mark)));
}

TEST(ReportPage, HostileNamesAreInert) {
  std::string const name = R"(</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&quot;)";
  auto const page = make_page(of({trace_of(2, name)}));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("</script><script>alert")));
  auto const data = data_in(page);
  EXPECT_THAT(data["runs"][0]["labels"].dump(), HasSubstr("</script><script>alert(1)"));
}

TEST(ReportPage, AFileNameIsInertToo) {
  run_data data = read_text(stats_of(2), "</title><script>alert(3)</script>\xe2\x80\xa8");
  auto const page = make_page(data);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert(3)")));
  EXPECT_THAT(page, HasSubstr("<title>Ferry report: &lt;/title&gt;"));
}

TEST(ReportPage, ScriptTextHasNoCharacterThatEndsAScript) {
  auto const text = script_text({{"a", "<!--</script>&\xe2\x80\xa8\xe2\x80\xa9\xff"}});
  for (char const c : {'<', '>', '&'}) EXPECT_EQ(text.find(c), std::string::npos);
  for (char const c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_EQ(json::parse(text)["a"].get<std::string>().substr(0, 13), "<!--</script>");
}

/// A step of a model of 10 segments of 12 items.
std::string large_step(int number) {
  std::string text;
  double const at = 1e6 * number;
  for (int segment = 0; segment < 10; ++segment) {
    text += fmt::format(
        R"({{"name":"forward {0}","ph":"X","ts":{1},"tid":1,"cat":"forward","dur":900,"args":{{"step":{2},"segment":{0},"micro_batch":0}}}},)",
        segment, at + 1000 * segment, number);
    for (int i = 0; i < 12; ++i) {
      auto const item = fmt::format("item{} (segment {}, micro-batch 0)", i, segment);
      text += fmt::format(
          R"({{"name":"item{0}","ph":"X","ts":{1}.123,"tid":2,"cat":"offload","dur":70.456,"args":{{"item":"{2}","bytes":123456,"arrived_bytes":123456,"outcome":"completed"}}}},
{{"name":"restored_from_host","ph":"i","ts":{1}.5,"tid":4,"cat":"decision","args":{{"item":"{2}","bytes":123456,"reason":"restored_from_host","words":"waited {3} us for its way back, number {1}"}}}},
{{"name":"device bytes","ph":"C","ts":{1}.7,"tid":1,"args":{{"bytes":{4}}}}},)",
          i, at + 1000 * segment + 80 * i, item, i, 1000000 + 7919 * i);
    }
  }
  return text;
}

TEST(ReportPage, AThousandStepsStayBelowFiveMebibytes) {
  std::string trace = trace_head();
  for (int i = 1; i <= 1000; ++i) trace += large_step(i);
  auto const all = of({trace});
  ASSERT_THAT(all.runs.at(0).steps, SizeIs(1000));
  auto const page = make_page(all);
  EXPECT_LT(page.size(), most_page_bytes);
  auto const run = data_in(page)["runs"][0];
  EXPECT_EQ(run["steps"]["count"], 1000);
  EXPECT_EQ(run["traced_of"], 1000);
  EXPECT_THAT(run["traced"], SizeIs(::testing::AllOf(::testing::Ge(2U), ::testing::Le(4U))));
  EXPECT_EQ(run["items"]["all"], 10 * 12);
}

TEST(ReportPage, ManyRunsOfManyItemsStayBelowFiveMebibytes) {
  std::vector<run_data> files;
  std::string items;
  for (int i = 0; i < 30'000; ++i) {
    items +=
        fmt::format(R"({}{{"key":{{"micro_batch":0,"segment":{},"name":"{}"}},"bytes":1,"saves":1,"exposed_us":{}}})",
                    i == 0 ? "" : ",", i, std::string(150, 'n'), i);
  }
  auto text = session_json(2);
  text.replace(text.find("\"items\":[") + 9, std::string::npos, items + "]}");
  for (int i = 0; i < 12; ++i) files.push_back(read_text(stats_line(1, i) + text));
  auto const page = make_page(join(std::move(files)));
  EXPECT_LT(page.size(), most_page_bytes);
  auto const data = data_in(page);
  EXPECT_THAT(data["runs"], SizeIs(12));
  EXPECT_EQ(data["runs"][3]["items"]["all"], 30'001);  // and that of the step
  EXPECT_LT(data["runs"][3]["items"]["rows"].size(), 30'000U);
}

TEST(ReportPage, LongRunsAreMeansOfSeveralSteps) {
  std::string text;
  for (int i = 1; i <= 7000; ++i) text += stats_line(i);
  auto const steps = json::parse(page_data(of({text}), {}).dump())["runs"][0]["steps"];
  EXPECT_EQ(steps["count"], 7000);
  EXPECT_EQ(steps["together"], 3);
  EXPECT_EQ(steps["columns"]["step_us"].size(), 2334U);
  EXPECT_EQ(steps["columns"]["step_us"][5], 600);
}

TEST(ReportPage, ChoosesTheStepsThatAreWorthALook) {
  auto const run = of({trace_of(20)}).runs.at(0);
  auto const chosen = choose_steps(*run.trace, {});
  ASSERT_THAT(chosen, SizeIs(4));
  EXPECT_EQ(chosen.front().why, "first");
  EXPECT_EQ(run.trace->steps[chosen[1].index].number, 3);
  EXPECT_EQ(chosen[1].why, "slowest");
  EXPECT_EQ(chosen[2].why, "median");
  EXPECT_EQ(chosen.back().why, "last");
}

TEST(ReportAdvice, NamesWhatCostsTimeAndTheSettingThatChangesIt) {
  auto const run = of({stats_of(6)}).runs.at(0);
  auto const found = advise(run);
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0].seen, HasSubstr("Recipes took 8.3% of the time, most for h (segment 1, micro-batch 0)"));
  EXPECT_THAT(found[0].remedy, HasSubstr("FERRY_POLICY=auto"));
  EXPECT_TRUE(std::ranges::is_sorted(found, std::ranges::greater{}, &advice::weight));
  EXPECT_TRUE(std::ranges::any_of(found, [](advice const& one) {
    return one.variable == "FERRY_CHUNK_BYTES" && one.seen == "FERRY_CHUNK_BYTES had no effect: nothing was copied.";
  }));
}

TEST(ReportAdvice, SaysSoWhenNothingIsLost) {
  run fine;
  fine.steps.assign(3, step_row{.number = 1, .step_us = 100, .recompute_us = 0, .arrival_us = 0.1, .bytes_us = 0});
  auto const found = advise(fine);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].how, urgency::good);
}

TEST(ReportAdvice, PointsAtBudgetsThatWereFull) {
  run full;
  full.steps.assign(3, step_row{.number = 1, .step_us = 100, .recompute_us = 30, .arrival_us = 0, .bytes_us = 0});
  full.reasons["dropped_pinned_full"] = 7;
  auto const found = advise(full);
  EXPECT_THAT(found.at(0).remedy, HasSubstr("FERRY_HOST_BUDGET, which had no room 7 times"));
  EXPECT_EQ(found.at(0).how, urgency::costly);
}

}  // namespace
}  // namespace ferry::command
