// The reader of `ferry report`: every kind of file, files that end anywhere, files that somebody made up.
#include "report/run_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ferry/error.hpp"
#include "report_samples.hpp"

namespace ferry::command {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace testing;

TEST(ReportReader, TakesATraceApartIntoSteps) {
  auto const data = read_text(trace_of(3));
  ASSERT_THAT(data.runs, SizeIs(1));
  auto const& run = data.runs[0];
  EXPECT_EQ(run.title, "ferry on host");
  EXPECT_THAT(run.notes, IsEmpty());
  ASSERT_THAT(run.steps, SizeIs(3));
  auto const& step = run.steps[0];
  EXPECT_EQ(step.number, 1);
  EXPECT_NEAR(step.step_us, 600, 1e-6);
  EXPECT_NEAR(step.forward_us, 190, 1e-6);  // without the 10 us that it stood still
  EXPECT_NEAR(step.backward_us, 310, 1e-6);
  EXPECT_NEAR(step.recompute_us, 50, 1e-6);
  EXPECT_NEAR(step.arrival_us, 40, 1e-6);
  EXPECT_NEAR(step.bytes_us, 10, 1e-6);
  EXPECT_NEAR(step.host_us, 650, 1e-6);
  EXPECT_EQ(step.planned_us, 500.5);
  EXPECT_EQ(step.out_bytes, 4096);
  EXPECT_EQ(step.in_bytes, 1024);
  EXPECT_EQ(step.abandoned, 1);
  EXPECT_EQ(step.peak_bytes[0], 3000);
  EXPECT_NEAR(run.steps[2].step_us, 1200, 1e-6);
}

TEST(ReportReader, KnowsItemsSettingsAndLanesFromATrace) {
  auto const run = read_text(trace_of(3)).runs.at(0);
  ASSERT_THAT(run.items, SizeIs(1));
  EXPECT_EQ(run.items[0].name, "h");
  EXPECT_EQ(run.items[0].segment, 1);
  EXPECT_EQ(run.items[0].offloads, 3);
  EXPECT_EQ(run.items[0].recomputes, 3);
  EXPECT_EQ(run.items[0].reasons.at("offloaded_by_policy"), 3);
  EXPECT_EQ(run.items[0].words, "offloaded: 4.00 KiB");
  EXPECT_EQ(run.limit_bytes[0], 5000);
  EXPECT_EQ(run.settings.at(0).variable, "FERRY_BUDGET");
  ASSERT_TRUE(run.trace);
  EXPECT_THAT(run.trace->lanes, SizeIs(4));
  ASSERT_THAT(run.trace->steps, SizeIs(3));
  EXPECT_THAT(run.trace->steps[0].slices, SizeIs(10));
  EXPECT_THAT(run.trace->steps[0].decisions, SizeIs(1));
  EXPECT_THAT(run.trace->steps[0].bytes, SizeIs(5));
}

TEST(ReportReader, AKilledRunLeavesAnOpenTrace) {
  auto text = trace_of(2);
  text.resize(text.size() - 3);
  auto const run = read_text(text).runs.at(0);
  EXPECT_THAT(run.steps, SizeIs(2));
  ASSERT_THAT(run.notes, SizeIs(1));
  EXPECT_THAT(run.notes[0], HasSubstr("killed"));
}

TEST(ReportReader, ReadsStatisticsLineByLine) {
  auto const run = read_text(stats_of(3)).runs.at(0);
  ASSERT_THAT(run.steps, SizeIs(3));
  EXPECT_EQ(run.steps[0].step_us, 600);
  EXPECT_EQ(run.steps[0].arrival_us, 40);
  EXPECT_EQ(run.steps[0].bytes_us, 10);
  EXPECT_EQ(run.steps[0].out_gbps, 0.51);
  EXPECT_EQ(run.limit_bytes[0], 5000);
  EXPECT_EQ(run.average_bytes[0], 2000.5);
  EXPECT_EQ(run.reasons.at("offloaded_by_policy"), 3);
  EXPECT_EQ(run.policy, "offload");
  ASSERT_THAT(run.items, SizeIs(1));
  EXPECT_EQ(run.items[0].saves, 3);
  EXPECT_EQ(run.items[0].words, "offloaded: 4.00 KiB");
  EXPECT_EQ(run.items[0].last, "offloaded_by_policy");
  EXPECT_THAT(run.notes, IsEmpty());
  auto const idle = std::ranges::find(run.settings, "FERRY_CHUNK_BYTES", &setting_row::variable);
  ASSERT_NE(idle, run.settings.end());
  EXPECT_EQ(idle->no_effect, "nothing was copied");
}

TEST(ReportReader, StatisticsWithoutTotalsHaveANote) {
  auto const run = read_text(stats_line(1) + stats_line(2)).runs.at(0);
  EXPECT_THAT(run.steps, SizeIs(2));
  EXPECT_EQ(run.reasons.at("offloaded_by_policy"), 2);
  EXPECT_THAT(run.notes.at(0), HasSubstr("no line of totals"));
}

TEST(ReportReader, ReadsTrainSimulateCompareAndBench) {
  auto const train = read_text(train_of(3)).runs.at(0);
  ASSERT_THAT(train.steps, SizeIs(3));
  EXPECT_NEAR(train.steps[2].loss, 4.7, 1e-9);
  EXPECT_NEAR(train.steps[0].wall_us, 1000, 1e-9);
  EXPECT_EQ(train.keep_all_bytes, 20000);
  EXPECT_EQ(train.limit_bytes[0], 5000);
  EXPECT_THAT(train.items, SizeIs(1));

  auto const simulated = read_text(simulate_json()).runs.at(0);
  EXPECT_THAT(simulated.steps, SizeIs(2));
  EXPECT_EQ(simulated.steps[1].recompute_us, 10);
  EXPECT_EQ(simulated.title, "a profile");

  auto const compared = read_text(compare_json()).comparisons.at(0);
  ASSERT_THAT(compared.rows, SizeIs(2));
  EXPECT_FALSE(compared.rows[1].fits);
  EXPECT_EQ(compared.rows[1].failure, "out of device memory");
  auto several = compare_json();
  several.insert(several.rfind('}'),
                 R"(,"other_budgets":[{"budget_bytes":7,"policies":[{"policy":"auto","fits":true}]},3])");
  auto const all = read_text(several).comparisons;
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(all[1].budget_bytes, 7);
  EXPECT_EQ(all[1].keep_all_bytes, all[0].keep_all_bytes);
  ASSERT_THAT(all[1].rows, SizeIs(1));

  auto const bench = read_text(bench_json()).benches.at(0);
  ASSERT_THAT(bench.curves, SizeIs(2));
  EXPECT_EQ(bench.curves[1].kind, "peer");
  EXPECT_FALSE(bench.curves[1].points.at(0).fits);
}

TEST(ReportReader, ASimulatedTraceIsOneStep) {
  auto const run = read_text(simulate_trace()).runs.at(0);
  ASSERT_THAT(run.steps, SizeIs(1));
  EXPECT_EQ(run.steps[0].step_us, 100);
  EXPECT_EQ(run.steps[0].recompute_us, 10);
  EXPECT_EQ(run.steps[0].arrival_us, 5);  // between 30 and 35 nothing was computed
}

TEST(ReportReader, OtherBenchesBecomeTables) {
  auto const data = read_text(
      R"({"ferry_bench":1,"what":"link","sizes":[{"bytes":4096,"gbps":1.5,"pinned":true},{"bytes":8192,"gbps":2,"note":"x"}],
          "items":[{"item":"h","keep":1}]})");
  ASSERT_THAT(data.tables, SizeIs(2));
  EXPECT_THAT(data.runs, IsEmpty());
  auto const& sizes = data.tables[1];
  EXPECT_THAT(sizes.columns, ::testing::ElementsAre("bytes", "gbps", "pinned", "note"));
  EXPECT_THAT(sizes.rows.at(0), ::testing::ElementsAre("4.00 KiB", "1.5", "yes", ""));
}

TEST(ReportReader, ABenchOfEverythingHasItsParts) {
  auto const data = read_text(R"({"ferry_bench":1,"what":"all","link":{"what":"link","sizes":[{"bytes":4096}]},
"breakeven":{"items":[{"name":"h","bytes":1}],"sweeps":[]},"policies":)" +
                              bench_json() + R"(,"recommended":[{"variable":"FERRY_BUDGET","value":"1GiB"}]})");
  EXPECT_THAT(data.tables, SizeIs(2));
  ASSERT_THAT(data.benches, SizeIs(1));
  EXPECT_THAT(data.benches[0].curves, SizeIs(2));
  EXPECT_EQ(data.benches[0].recommended.at(0).variable, "FERRY_BUDGET");
}

TEST(ReportReader, ABenchsNoiseIsNoOverhead) {
  auto const data = read_text(
      R"({"ferry_bench":1,"what":"policies","curves":[{"name":"keep","points":[{"budget_bytes":1,"fits":true,"overhead":-0.02}]}]})");
  EXPECT_EQ(data.benches.at(0).curves.at(0).points.at(0).overhead, 0);
}

TEST(ReportReader, PutsFilesOfOneRunTogether) {
  for (bool const reversed : {false, true}) {
    std::vector<run_data> files;
    files.push_back(read_text(trace_of(4), "trace.json"));
    files.push_back(read_text(stats_of(4), "stats.jsonl"));
    files.push_back(read_text(train_of(4), "run.json"));
    if (reversed) std::ranges::reverse(files);
    auto const data = join(std::move(files));
    ASSERT_THAT(data.runs, SizeIs(1));
    auto const& run = data.runs[0];
    EXPECT_THAT(run.files, SizeIs(3));
    ASSERT_THAT(run.steps, SizeIs(4));
    EXPECT_EQ(run.steps[0].step_us, 600);             // of the statistics
    EXPECT_NEAR(run.steps[0].forward_us, 190, 1e-6);  // of the trace
    EXPECT_NEAR(run.steps[0].loss, 4.9, 1e-9);        // of the trainer
    ASSERT_THAT(run.items, SizeIs(1));
    EXPECT_EQ(run.items[0].saves, 4);
    EXPECT_EQ(run.items[0].reasons.at("offloaded_by_policy"), 4);
    EXPECT_EQ(run.title, "GPT of 2 layers, 64 features, context 32, batch 4");
    EXPECT_GE(run.settings.size(), 4U);
  }
}

TEST(ReportReader, KeepsRunsApartThatOnlyLookAlike) {
  std::vector<run_data> files;
  files.push_back(read_text(trace_of(3)));
  files.push_back(read_text(stats_line(1, 700) + stats_line(2, 701) + stats_line(3, 702)));
  files.push_back(read_text(trace_of(3)));
  EXPECT_THAT(join(std::move(files)).runs, SizeIs(3));
}

TEST(ReportReader, ASimulationBelongsToItsTrace) {
  std::vector<run_data> files;
  files.push_back(read_text(simulate_trace()));
  files.push_back(read_text(simulate_json()));
  auto const data = join(std::move(files));
  ASSERT_THAT(data.runs, SizeIs(1));
  ASSERT_THAT(data.runs[0].steps, SizeIs(2));
  EXPECT_EQ(data.runs[0].steps[1].forward_us, 30);
  EXPECT_EQ(data.runs[0].trace->steps.at(0).number, 2);
}

TEST(ReportReader, ALongTraceHoldsAFewStepsInFull) {
  constexpr int steps = 700;
  auto const run = read_text(trace_of(steps)).runs.at(0);
  EXPECT_THAT(run.steps, SizeIs(steps));
  EXPECT_EQ(run.trace->all_steps, steps);
  EXPECT_LE(run.trace->steps.size(), 64U);
  EXPECT_EQ(run.trace->steps.front().number, 1);
  EXPECT_EQ(run.trace->steps.back().number, steps);
  EXPECT_TRUE(std::ranges::any_of(run.trace->steps, [](traced_step const& step) { return step.number == 3; }))
      << "the slowest is held";
  EXPECT_LE(run.trace->curves[0].most.size(), 2048U);
  EXPECT_EQ(std::ranges::max(run.trace->curves[0].most, [](double a, double b) { return !(a >= b); }), 3000);
}

/// A file that ends anywhere gives what it has, or one line that says what is wrong.
void expect_no_trouble(std::string const& text) {
  try {
    auto const data = join({read_text(text)});
    EXPECT_FALSE(data.runs.empty() && data.benches.empty() && data.comparisons.empty() && data.tables.empty());
  } catch (format_error const& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("'file': "));
    EXPECT_EQ(std::string_view(problem.what()).find('\n'), std::string_view::npos);
  }
}

TEST(ReportReader, FilesMayEndAnywhere) {
  for (auto const& text :
       {trace_of(2), stats_of(2), train_of(2), simulate_json(), simulate_trace(), compare_json(), bench_json()}) {
    for (std::size_t length = 0; length < text.size(); ++length) expect_no_trouble(text.substr(0, length));
  }
}

TEST(ReportReader, FilesMayHoldAnything) {
  std::mt19937 random(7);
  for (auto const& text : {trace_of(1), stats_of(1), train_of(1), simulate_json(), compare_json(), bench_json()}) {
    for (int i = 0; i < 1500; ++i) {
      auto changed = text;
      for (unsigned n = 1 + random() % 4; n > 0; --n) {
        constexpr std::string_view letters = "0123456789eE-+.\"\\{}[],:ntrue\x01\xff\xc3 ";
        changed[random() % changed.size()] = letters[random() % letters.size()];
      }
      expect_no_trouble(changed);
    }
  }
}

TEST(ReportReader, NumbersThatCannotBeAreUnknown) {
  auto const run =
      read_text(
          R"({"step":1,"step_us":-5,"host_us":1e300,"exposed_us":"x","waited_for_bytes_us":null,"device_peak_bytes":1e30,"device_to_host":7,"reasons":[1],"items":{}})"
          "\n")
          .runs.at(0);
  EXPECT_FALSE(is_known(run.steps.at(0).step_us));
  EXPECT_FALSE(is_known(run.steps.at(0).host_us));
  EXPECT_FALSE(is_known(run.steps.at(0).arrival_us));
  EXPECT_FALSE(is_known(run.steps.at(0).peak_bytes[0]));
  EXPECT_FALSE(is_known(run.steps.at(0).out_bytes));
}

TEST(ReportReader, TimesBeyondAllBoundsArePassedOver) {
  auto const run = read_text("[" + step_events(1) +
                             R"({"name":"x","ph":"X","ts":1e300,"dur":1,"cat":"rebuild","tid":1},
{"name":"device bytes","ph":"C","ts":9e14,"args":{"bytes":5}},{"name":"device bytes","ph":"C","ts":-1,"args":{"bytes":5}},
{"name":"x","ph":"X","ts":"soon","dur":1,"cat":"rebuild","tid":-99999999999}])")
                       .runs.at(0);
  EXPECT_THAT(run.steps, SizeIs(1));
  EXPECT_NEAR(run.steps[0].recompute_us, 50, 1e-6);
  EXPECT_THAT(run.notes.at(0), HasSubstr("2 events"));
  EXPECT_LE(run.trace->curves[0].most.size(), 2048U);
}

TEST(ReportReader, NamesAreCleanedAndCut) {
  auto const run = read_text(trace_of(1, "<b>\\u0000\\u001b[31m\\u2028" + std::string(5000, 'n'))).runs.at(0);
  auto const& label = run.items.at(0).label;
  EXPECT_LE(label.size(), 220U);
  for (char const c : label) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(ReportReader, RefusesWhatIsTooDeepOrTooLarge) {
  EXPECT_THROW(read_text(std::string(100'000, '[')), format_error);
  EXPECT_THROW(read_text(R"({"a":)" + std::string(100, '[')), format_error);
  EXPECT_THROW(read_text("[\"" + std::string(3 << 20, 'a')), format_error);
  EXPECT_THROW(read_text(std::string(3 << 20, ' ')), format_error);
  std::string many = R"({"ferry_bench":1,"curves":[)";
  for (int i = 0; i < 1'100'000; ++i) many += "1,";
  EXPECT_THROW(read_text(many), format_error);
}

TEST(ReportReader, SaysWhatIsWrongWithOtherFiles) {
  auto const refusal = [](std::string const& text) -> std::string {
    try {
      (void)read_text(text, "a.json");
    } catch (format_error const& problem) {
      return problem.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(""), HasSubstr("'a.json': it is empty"));
  EXPECT_THAT(refusal("hello"), HasSubstr("'a.json': "));
  EXPECT_THAT(refusal("{}"), HasSubstr("none of the files"));
  EXPECT_THAT(refusal(R"({"ferry_plan":1})"), HasSubstr("it is a plan, not a run"));
  EXPECT_THAT(refusal("[1,2]"), HasSubstr("no trace events"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no events"));
  EXPECT_THAT(refusal("[{\"ph\":\"M\"}]"), HasSubstr("no step"));
  EXPECT_THAT(refusal("7"), HasSubstr("no file of Ferry's"));
}

}  // namespace
}  // namespace ferry::command
