// What `ferry tape` prints and draws.
#include "tape/tape_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tape/tape_json.hpp"
#include "tape/tape_net.hpp"
#include "tape/tape_svg.hpp"

namespace ferry::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

tape tape_of(std::string const& policy, profile const& step, hardware const& on) {
  simulation_options how;
  how.settings.set("FERRY_POLICY", policy);
  how.settings.budget = byte_amount::share(1.0);
  how.settings.min_bytes = 0;
  how.settings.log = log_level::off;
  auto recorded = record_tape(step, on, how, 1);
  recorded.policy = policy;
  return recorded;
}
tape tape_of(std::string const& policy, std::uint32_t layers = 4) {
  plain_net net;
  net.layers = layers;
  return tape_of(policy, profile_of(net), hardware_of(net));
}

std::size_t count(std::string const& text, std::string const& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Without the spaces at the ends of lines.
std::string trimmed(std::string const& text) {
  std::string result;
  for (char const next : text) {
    while (next == '\n' && result.ends_with(' ')) result.pop_back();
    result += next;
  }
  return result;
}

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

struct svg_words {
  std::string attributes;  // as they stand between <text and >
  std::string words;

  [[nodiscard]] double number(std::string const& attribute) const {
    auto const at = attributes.find(' ' + attribute + "=\"");
    EXPECT_NE(at, std::string::npos) << attribute << " in " << attributes;
    return at != std::string::npos ? std::stod(attributes.substr(at + attribute.size() + 3)) : 0;
  }
  [[nodiscard]] bool is_faint(std::string const& anchor) const {
    return attributes.find(" text-anchor=\"" + anchor + '"') != std::string::npos &&
           attributes.ends_with(" class=\"faint\"");
  }
};

/// Every <text> of a picture, in its order.
std::vector<svg_words> words_of(std::string const& picture) {
  std::vector<svg_words> result;
  for (auto at = picture.find("<text "); at != std::string::npos; at = picture.find("<text ", at + 1)) {
    auto const begin = at + std::string_view("<text").size();
    auto const middle = picture.find('>', begin);
    auto const end = picture.find('<', middle);
    if (end == std::string::npos) break;
    result.push_back({picture.substr(begin, middle - begin), picture.substr(middle + 1, end - middle - 1)});
  }
  return result;
}

/// "F12", "B3"
bool is_label_of_step(std::string const& words) {
  return (words.starts_with('F') || words.starts_with('B')) && consists_of(words.substr(1), "0123456789");
}

/// "peak 12.0 MiB"
bool is_level(std::string const& words) {
  auto const first = words.find(' ');
  auto const second = words.rfind(' ');
  if (second == first) return false;
  auto const what = words.substr(0, first);
  auto const unit = words.substr(second + 1);
  return (what == "peak" || what == "average" || what == "host" || what == "budget") &&
         consists_of(words.substr(first + 1, second - first - 1), "0123456789.") &&
         (unit == "KiB" || unit == "MiB" || unit == "GiB");
}

TEST(TapeText, ShowsEveryStepItemByItem) {
  EXPECT_EQ(trimmed(tape_text(tape_of("every=2"))),
            R"(4 layers, each with its input x of 1.00 MiB and its inside h of 2.00 MiB
policy every=2, budget 24.0 MiB

step  x1 h1 x2 h2 x3 h3 x4 h4      most    after     host  what it does
                                    MiB      MiB      MiB
F1    D  .  D                      4.00     2.00     0.00  writes x1 h1 x2; drops h1
F2    D  .  .  .  D                4.00     2.00     0.00  writes h2 x3; drops x2 h2
F3    D  .  .  .  D  .  D          5.00     3.00     0.00  writes h3 x4; drops h3
F4    D  .  .  .  D  .  .  .       5.00     2.00     0.00  writes h4; drops x4 h4
B4    D  .  .  .  D  R  R  R       7.00     4.00     0.00  rebuilds h3 x4 h4; reads h4 x4
B3    D  .  .  .  D  D             4.00     1.00     0.00  reads h3 x3
B2    D  R  R  R                   6.00     3.00     0.00  rebuilds h1 x2 h2; reads h2 x2
B1    D  D                         3.00     0.00     0.00  reads h1 x1
D on the device, R on the device and rebuilt in this step, H on the host, > on its way out, < on its way in, . dropped
forward at its end; backward while it computes

step        29.0 ms
device      peak 7.00 MiB in B4, average 5.10 MiB
host        peak 0 B, average 0 B; 0 B out, 0 B in
recompute   6 operations beside forward's 7, 6.00 ms: 86% more forward
            h            4 x   4.00 ms
            x            2 x   2.00 ms
)");
}

TEST(TapeText, PutsPoliciesSideBySide) {
  std::vector<tape> const tapes{tape_of("keep"), tape_of("every=2"), tape_of("recompute")};
  std::vector<tape_growth> const growth{{4, "keep", 12U << 20, 0},
                                        {4, "sqrt", 7U << 20, 0.857},
                                        {16, "keep", 48U << 20, 0},
                                        {16, "sqrt", 15U << 20, 0.9}};
  auto const text = trimmed(comparison_text(tapes, growth));
  for (auto const* line : {
           "               keep                          every=2                       recompute\n",
           "step           xh xh xh xh    most   after   xh xh xh xh    most   after   xh xh xh xh    most   after\n",
           "F4             DD DD DD DD   12.00   12.00   D. .. D. ..    5.00    2.00   D. D. D. D.    6.00    4.00\n",
           "B4             DD DD DD DD   12.00    9.00   D. .. DR RR    7.00    4.00   D. D. D. DR    6.00    3.00\n",
           "peak                         12.00                          7.00                          6.00\n",
           "average                       7.43                          5.10                          4.56\n",
           "rebuilt                          0                             6                             4\n",
           "more forward                    0%                           86%                           57%\n",
           "step                       23.0 ms                       29.0 ms                       27.0 ms\n",
           "layers              keep            sqrt\n"
           "4                  12.00   +0%      7.00  +86%\n"
           "16                 48.00   +0%     15.00  +90%\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(TapeText, CountsWhatIsTooMuchToName) {
  auto const text = tape_text(tape_of("recompute", 9));
  EXPECT_THAT(text, HasSubstr("18 are too many to name; --json has each of them"));
  EXPECT_THAT(text, HasSubstr("F1           2       0       0       1     4.00     2.00     0.00  writes 3; drops 1"));
  EXPECT_THAT(text, Not(HasSubstr("x1")));
  EXPECT_THAT(text, Not(HasSubstr("left out")));
}

TEST(TapeText, LeavesOutTheMiddleOfDeepNetsButNotThePeak) {
  auto shown = tape_of("keep", 40);
  shown.peak_step = 60;
  auto const text = tape_text(shown);
  EXPECT_THAT(text, HasSubstr("... stands for steps that are left out here; --json has all"));
  EXPECT_THAT(text, HasSubstr("\nF8 "));
  EXPECT_THAT(text, Not(HasSubstr("\nF9 ")));
  EXPECT_THAT(text, HasSubstr("\nF33 "));
  EXPECT_THAT(text, HasSubstr("\nB20 ")) << "the peak's";
  EXPECT_EQ(count(text, "\n...\n"), 3U);
}

TEST(TapeJson, HasEveryItemOfEveryStep) {
  std::vector<tape> const tapes{tape_of("every=2")};
  auto const value = tape_json(tapes, {});
  EXPECT_EQ(value.at("items").size(), 8U);
  auto const& shown = value.at("tapes").at(0);
  EXPECT_EQ(shown.at("peak_bytes"), 7 << 20);
  EXPECT_EQ(shown.at("peak_step"), "B4");
  EXPECT_EQ(shown.at("recomputed").at(0).at("runs"), 4);
  auto const& b4 = shown.at("steps").at(4);
  EXPECT_EQ(b4.at("step"), "B4");
  EXPECT_EQ(b4.at("segment"), 3) << "counted from 0";
  EXPECT_EQ(b4.at("rebuilt"), (nlohmann::ordered_json{"h3", "x4", "h4"}));
  EXPECT_EQ(b4.at("places").at("x2"), "dropped");
  EXPECT_EQ(b4.at("places").at("h4"), "device");
  EXPECT_FALSE(shown.at("steps").at(0).at("places").contains("x3"));
  EXPECT_FALSE(value.contains("growth"));
}

TEST(TapeSvg, DrawsABarForEachStay) {
  auto const full = tape_svg(std::vector{tape_of("keep")});
  EXPECT_EQ(count(full, "class=\"device\""), 8U + 1) << "an item each, and the legend's";
  EXPECT_EQ(count(full, "class=\"rebuild\""), 0U);
  EXPECT_EQ(count(full, "class=\"gap\""), 0U);
  EXPECT_THAT(full, HasSubstr(">peak 12.0 MiB</text>"));
  EXPECT_THAT(full, HasSubstr(">average 7.43 MiB</text>"));

  auto const second = tape_svg(std::vector{tape_of("every=2")});
  EXPECT_EQ(count(second, "class=\"rebuild\""), 6U + 1);
  // h1 x2 h2 h3 are gone for a while; x4 and h4 are rebuilt at once.
  EXPECT_EQ(count(second, "class=\"gap\""), 4U + 1);

  auto const ferried = tape_svg(std::vector{tape_of("offload")});
  EXPECT_GT(count(ferried, "class=\"host\""), 8U);
  EXPECT_THAT(ferried, HasSubstr(">on the host</text>"));
  EXPECT_THAT(ferried, Not(HasSubstr(">dropped</text>")));
}

TEST(TapeSvg, LabelsOfStepsKeepClearOfEachOther) {
  auto const deep = tape_svg(std::vector{tape_of("keep", 150)});
  double free_from = 0;
  std::size_t labels = 0;
  for (auto const& one : words_of(deep)) {
    if (!one.is_faint("middle") || !is_label_of_step(one.words)) continue;
    double const half = static_cast<double>(one.words.length()) * 6 / 2;
    double const middle = one.number("x");
    EXPECT_GE(middle - half, free_from) << one.words;
    free_from = middle + half;
    ++labels;
  }
  EXPECT_GT(labels, 10U);
  EXPECT_LT(labels, 100U);
  EXPECT_LT(deep.rfind("class=\"lane\""), deep.find(">F1<")) << "no band covers a label";
  EXPECT_THAT(deep, HasSubstr(">layer 1<"));
  EXPECT_THAT(deep, Not(HasSubstr(">segment ")));
}

TEST(TapeSvg, WordsAtLevelsKeepClearOfEachOther) {
  auto shown = tape_of("offload");
  shown.average_bytes = static_cast<double>(shown.peak_bytes);  // all three at one height
  shown.host_peak_bytes = shown.budget_bytes = shown.peak_bytes;
  auto const picture = tape_svg(std::vector{shown});
  std::vector<double> heights;
  for (auto const& one : words_of(picture)) {
    if (one.is_faint("start") && is_level(one.words)) heights.push_back(one.number("y"));
  }
  ASSERT_EQ(heights.size(), 4U);
  std::ranges::sort(heights);
  for (std::size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 12);
}

TEST(TapeSvg, EscapesNames) {
  plain_net net;
  net.layers = 1;
  auto step = profile_of(net);
  step.name = "<script>alert(1)</script>";
  step.segments[0].items[1].name = "<b>&\"";
  step.need_order[0].name = "<b>&\"";
  auto const shown = tape_of("recompute", step, hardware_of(net));
  auto const picture = tape_svg(std::vector{shown});
  EXPECT_THAT(picture, Not(HasSubstr("<script>")));
  EXPECT_THAT(picture, Not(HasSubstr("<b>")));
  EXPECT_THAT(picture, HasSubstr("&lt;b&gt;&amp;&quot;1"));
}

}  // namespace
}  // namespace ferry::command
