// Properties of the planner's files: whatever is valid survives the way through JSON, and no bytes whatever do anything
// but become a value or a `format_error`.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "ferry/error.hpp"
#include "ferry/model_profile.hpp"
#include "support/plan_values.hpp"

namespace {

using namespace ferry::testing;

RC_GTEST_PROP(PlannerFiles, ProfilesSurviveTheWayThroughJson, ()) {
  ferry::profile const step = any_profile();
  RC_ASSERT(parse_profile(to_json(step)) == step);
}

RC_GTEST_PROP(PlannerFiles, PlansSurviveTheWayThroughJson, ()) {
  ferry::plan const planned = any_plan();
  RC_ASSERT(parse_plan(to_json(planned)) == planned);
}

RC_GTEST_PROP(PlannerFiles, HardwareSurvivesTheWayThroughJson, ()) {
  ferry::hardware const on{.name = any_name(),
                           .device_bytes = any_bytes(),
                           .host_bytes = any_bytes(),
                           .device_to_host = {any_us() / 10, any_us()},
                           .host_to_device = {any_us() / 10, any_us()},
                           .beside = any_contention(),
                           .tflops = any_us() / 10,
                           .memory_gbps = any_us() / 10};
  RC_ASSERT(parse_hardware(to_json(on)) == on);
}

/// Damage of the kinds that happen, and of the kinds that are done: bytes changed, lost, doubled, swapped; the end cut
/// off; pieces of other values put in.
class damage {
 public:
  explicit damage(std::uint32_t seed) : random_(seed) {}

  std::string to(std::string text) {
    auto const times = 1 + below(4);
    for (std::size_t i = 0; i < times && !text.empty(); ++i) once(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void once(std::string& text) {
    static std::string const pieces[] = {"-1",
                                         "1e999",
                                         "null",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "\"",
                                         ",",
                                         ":",
                                         "0",
                                         "1.5",
                                         "true",
                                         "[]",
                                         "{}",
                                         "\"x\"",
                                         "\xff",
                                         "\\u00",
                                         "-0",
                                         "1e15",
                                         "4294967296",
                                         "\n",
                                         "\"\"",
                                         "99999",
                                         "1e-5",
                                         "\"h\"",
                                         "nan",
                                         "[[[[[[",
                                         "\"repeat\"",
                                         "-",
                                         "\xEF\xBB\xBF",
                                         "18446744073709551616"};
    std::size_t const at = below(text.size());
    std::size_t const length = below(std::min<std::size_t>(text.size() - at, 40)) + 1;
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 4:
        text.insert(at, pieces[below(std::size(pieces))]);
        break;
      case 5:
        replace_number(text, at);
        break;
      default:
        replace_line(text, at);
    }
  }

  void replace_number(std::string& text, std::size_t at) {
    static std::string const numbers[] = {"-1",     "1e13",    "0",   "7",    "1125899906842625",
                                          "100000", "1000001", "3.5", "1e308"};
    auto const from = text.find_first_of("0123456789", at);
    if (from == text.npos) return;
    auto const to = text.find_first_not_of("0123456789.", from);
    text.replace(from, to == text.npos ? to : to - from, numbers[below(std::size(numbers))]);
  }

  /// With another line of the file.
  void replace_line(std::string& text, std::size_t at) {
    auto const from = text.rfind('\n', at);
    auto const other = text.rfind('\n', below(text.size()));
    if (from == text.npos || other == text.npos) return;
    std::string const line = text.substr(other, text.find('\n', other + 1) - other);
    text.replace(from, text.find('\n', from + 1) - from, line);
  }

  std::mt19937 random_;
};

/// Returns how many of the damaged files were still valid.
int feed_damaged(std::string const& text, int times, std::function<void(std::string const&)> const& parse) {
  int valid = 0;
  for (int i = 0; i < times; ++i) {
    std::string const bad = damage(static_cast<std::uint32_t>(i)).to(text);
    try {
      parse(bad);
      ++valid;
    } catch (ferry::format_error const& problem) {
      std::string const message = problem.what();
      EXPECT_EQ(message.find('\n'), message.npos) << message;
      EXPECT_NE(message.find("; "), message.npos) << message << " lacks what to do";
      EXPECT_LT(message.size(), 600U);
    }
  }
  return valid;
}

TEST(PlannerFiles, DamagedProfilesAreReadOrRefused) {
  auto const gpt = to_json(ferry::gpt_profile({}, ferry::named_hardware("a100-80")));
  for (auto const& text : {to_json(small_profile()), gpt}) {
    // Whatever is taken is valid: it can be written and read again.
    int const valid = feed_damaged(text, 4000, [](std::string const& bad) {
      ferry::profile const step = parse_profile(bad);
      if (step.segments.size() > 1000) return;  // repetitions: right, but slow
      EXPECT_EQ(parse_profile(to_json(step)), step);
    });
    EXPECT_GT(valid, 20);
    EXPECT_LT(valid, 2000);
  }
}

TEST(PlannerFiles, DamagedPlansAreReadOrRefused) {
  int const valid = feed_damaged(to_json(small_plan()), 4000, [](std::string const& bad) {
    ferry::plan const planned = parse_plan(bad);
    EXPECT_EQ(parse_plan(to_json(planned)), planned);
  });
  EXPECT_GT(valid, 20);
  EXPECT_LT(valid, 2000);
}

TEST(PlannerFiles, DamagedHardwareIsReadOrRefused) {
  int const valid = feed_damaged(to_json(small_hardware()), 2000, [](std::string const& bad) {
    ferry::hardware const on = parse_hardware(bad);
    EXPECT_EQ(parse_hardware(to_json(on)), on);
  });
  EXPECT_GT(valid, 20);
  EXPECT_LT(valid, 1000);
}

TEST(PlannerFiles, EveryTruncationIsRefused) {
  std::string const text = to_json(small_profile());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {  // the last two are "}" and a newline
    EXPECT_THROW(static_cast<void>(parse_profile(text.substr(0, length))), ferry::format_error) << length;
  }
}

}  // namespace
