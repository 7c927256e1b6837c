// The picture of a step: which one is drawn, what is in it, and that any viewer shows it.
#include "report/step_svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "common/svg.hpp"
#include "ferry/error.hpp"
#include "report_samples.hpp"

namespace ferry::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;

run traced(int steps, std::string const& item = "h") { return read_text(trace_of(steps, item)).runs.at(0); }

std::string picture_of(run const& of, double number = unknown, std::string const& title = {}) {
  return step_svg(of, step_to_draw(of, number), title);
}

std::string refusal_of(run const& of, double number) {
  try {
    (void)step_to_draw(of, number);
  } catch (setting_error const& problem) {
    return problem.what();
  }
  return "taken";
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(StepSvg, ShowsLanesCopiesRecipesAndWaits) {
  auto const text = picture_of(traced(2), 2);
  for (char const* lane : {">compute<", ">out<", ">in<"}) EXPECT_THAT(text, HasSubstr(lane));
  EXPECT_THAT(text, Not(HasSubstr(">host<"))) << "nothing was waited for there";
  for (char const* label : {">F0<", ">F1<", ">B1<", ">B0<", ">h1<"}) EXPECT_THAT(text, HasSubstr(label));
  EXPECT_EQ(count(text, "class=\"forward edged\""), 2U);
  EXPECT_EQ(count(text, "class=\"backward edged\""), 2U);
  for (char const* kind : {"rebuild", "wait", "short", "offload"}) {
    EXPECT_EQ(count(text, fmt::format("class=\"{} edged\"", kind)), 1U) << kind;
  }
  EXPECT_THAT(text, HasSubstr("step 2: 0.60 ms"));
  EXPECT_THAT(text, HasSubstr("device bytes, at most 0.0 MiB"));
  EXPECT_THAT(text, HasSubstr("pinned bytes, at most 0.0 MiB"));
}

TEST(StepSvg, NoCurveCrossesTheNamesOfTheTiers) {
  auto const text = picture_of(traced(2), 2);
  auto const number_before = [&](char const* what, char const* attribute) {
    auto const at = text.rfind(attribute, text.find(what));
    return std::stod(text.substr(at + std::string_view(attribute).size()));
  };
  double const names = number_before("device bytes, at most", " y=\"");
  auto const area = text.rfind("<rect", text.find("class=\"device-line\""));
  double const curves = std::stod(text.substr(text.find(" y=\"", area) + 4));
  EXPECT_LT(names, curves);
}

TEST(StepSvg, HatchesWhatWasGivenUp) {
  auto const text = picture_of(traced(1));
  EXPECT_EQ(count(text, "class=\"fetch given-up\""), 1U);
  EXPECT_THAT(text, HasSubstr("; abandoned after 0.0 MiB"));
  EXPECT_EQ(count(text, "<pattern id=\"given-up\""), 1U);
}

TEST(StepSvg, MarksWhereATransferStoodAgainstARecipe) {
  auto text = trace_of(1);
  EXPECT_EQ(count(picture_of(traced(1)), "class=\"axis dashed\""), 0U);
  auto const at = text.find(R"("transfer_us":0,"recipe_us":0)");
  text.replace(at, 29, R"("transfer_us":9,"recipe_us":3)");
  auto const drawn = picture_of(read_text(text).runs.at(0));
  EXPECT_EQ(count(drawn, "class=\"axis dashed\""), 1U);
  auto const number_after = [&](std::size_t from, std::string_view what) {
    return std::stod(drawn.substr(drawn.find(what, from) + what.size()));
  };
  double const mark = number_after(drawn.rfind("<line", drawn.find("class=\"axis dashed\"")), "x1=\"");
  for (char const* label : {">F0<", ">F1<"}) {
    double const middle = number_after(drawn.rfind("<text", drawn.find(label)), "x=\"");
    EXPECT_GT(std::abs(middle - mark), 8) << label << " is not crossed";
  }
  EXPECT_THAT(drawn, HasSubstr("1  0.11 ms  h (segment 1, micro-batch 0): offloaded: 4.00 KiB"));
}

TEST(StepSvg, ColoursAreLiteralAndTheDarkOnesOnTop) {
  auto const text = picture_of(traced(1));
  EXPECT_THAT(text, Not(HasSubstr("var(")));
  EXPECT_THAT(text, HasSubstr(R"(fill="#9db8d9" stroke="#ffffff" stroke-width="0.6" class="forward edged")"));
  auto const dark = text.substr(text.find("@media (prefers-color-scheme: dark)"), text.find("</style>"));
  EXPECT_THAT(dark, HasSubstr(".forward { fill: #4d6f99; }"));
  EXPECT_GT(dark.find(".given-up { fill: url(#given-up); }"), dark.find(".fetch { fill: "))
      << "the colour would hide the hatching";
}

TEST(StepSvg, TheLastStepUnlessAnotherIsAskedFor) {
  auto const run = traced(3);
  EXPECT_EQ(step_to_draw(run, unknown).number, 3);
  EXPECT_EQ(step_to_draw(run, 1).number, 1);
  EXPECT_EQ(refusal_of(run, 9), "--step 9: the trace has steps 1 to 3");
}

TEST(StepSvg, OfALongTraceAnyStepIsHeld) {
  std::istringstream in(trace_of(700));
  auto const run = read_runs(in, "file", 523).runs.at(0);
  EXPECT_LE(run.trace->steps.size(), 66U);
  EXPECT_EQ(step_to_draw(run, 523).number, 523);
}

TEST(StepSvg, AStepWithoutComputationIsRefused) {
  auto const text = trace_head() + step_events(1) +
                    R"({"name":"step 2","ph":"X","ts":30000,"pid":1,"tid":4,"cat":"step","dur":650,"args":{}}])";
  auto const run = read_text(text).runs.at(0);
  EXPECT_EQ(step_to_draw(run, unknown).number, 1);
  EXPECT_EQ(refusal_of(run, 2), "--step 2: that step was not measured to its end");
  auto const none =
      read_text(trace_head() + R"({"name":"step 2","ph":"X","ts":30000,"pid":1,"tid":4,"cat":"step","dur":650}])")
          .runs.at(0);
  EXPECT_EQ(refusal_of(none, unknown), "--svg: no step of 'file' was measured to its end");
}

TEST(StepSvg, AStepWithoutNumbersIsDrawnToo) {
  auto const text = picture_of(read_text(simulate_trace()).runs.at(0));
  EXPECT_THAT(text, HasSubstr("step 1: 0.10 ms"));
  EXPECT_THAT(text, HasSubstr("class=\"forward edged\""));
}

TEST(StepSvg, NamesAreInert) {
  auto const text = picture_of(traced(1, "<script>alert(1)</script>"), unknown, "</title><script>");
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_THAT(text, HasSubstr("&lt;/title&gt;&lt;script&gt;"));
}

}  // namespace
}  // namespace ferry::command
