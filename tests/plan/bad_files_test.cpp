// Files as nobody should write them: the message names the place and says what to do, and what is too large is refused
// before it is held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <istream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/error.hpp"
#include "plan/limits.hpp"
#include "support/bounded_json.hpp"
#include "support/plan_values.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace ferry::testing;
using ferry::format_error;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace limits = ferry::planning::limits;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  auto const at = text.find(from);
  EXPECT_NE(at, text.npos) << "the test looks for " << from;
  if (at != text.npos) text.replace(at, from.size(), to);
  return text;
}

struct change {
  std::string from;
  std::string to;
  std::string message;  // how it begins
};

/// So many of them, with commas between.
std::string many(std::string const& element, std::size_t count) {
  std::string text = element;
  while (--count > 0) text += "," + element;
  return text;
}

template <typename Parse>
void expect_refused(std::string const& text, std::vector<change> const& changes, Parse const& parse) {
  for (auto const& [from, to, message] : changes) {
    std::string const bad = replaced(text, from, to);
    EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(parse(bad)); }), StartsWith(message)) << to;
  }
}

TEST(BadProfile, NamesThePlaceAndTheFix) {
  auto const text = to_json(small_profile());
  // Rows: segments[0] is block 0, segments[1] the two that are alike, segments[2] the head.
  expect_refused(
      text,
      {{"\"ferry_profile\": 1", "\"ferry_profile\": 2",
        "ferry_profile: is 2; this Ferry reads version 1: write the file again with it"},
       {"\"ferry_profile\": 1", "\"ferry_profile\": \"1\"", "ferry_profile: is \"1\"; this Ferry reads version 1"},
       {"\"ferry_profile\": 1", "\"ferry_plan\": 1", "is no profile: it says 'ferry_plan'; give the file of a profile"},
       {"\"ferry_profile\": 1,", "", "has no \"ferry_profile\"; give the file of a profile"},
       {"\"name\": \"small\",", "", "has no \"name\"; add it"},
       {"\"small\"", "7", "name: is 7; give a text in quotes"},
       {"\"small\"", "\"small\", \"name\": \"small\"", "name: stands there twice; leave one of the two"},
       {"\"small\"", "\"small\", \"colour\": 1",
        "has an unknown key 'colour'; known are ferry_profile, name, segments, need_order"},
       {"10.25", "\"10\"", "segments[0].forward_us: is \"10\"; give a number"},
       {"10.25", "-1", "segments[0].forward_us: is -1; give microseconds from 0 to 1e12"},
       {"10.25", "1e13", "segments[0].forward_us: is 10000000000000; give microseconds"},
       {"10.25", "1e999", "segments[0].forward_us: is a number beyond all bounds; correct it"},
       {"10.25", "[1]", "segments[0].forward_us: is an array; give a number"},
       {"10.25", "{\"us\": 1}", "segments[0].forward_us: is an object; give a single value"},
       {"10.25", "null", "segments[0].forward_us: is null; give a number"},
       {"\"backward_us\": 20, ", "", "segments[0]: has no \"backward_us\"; add it"},
       {"512", "0.5", "segments[0].forward_scratch_bytes: is 0.5; give a whole number that is not negative"},
       {"1024", "1125899906842625",
        "segments[0].backward_scratch_bytes: is 1125899906842625; give bytes from 0 to 2^50"},
       {"\"bytes\": 4096", "\"bytes\": -4096", "segments[0].items[0].bytes: is -4096; give a whole number"},
       {"\"bytes\": 4096", "\"bytes\": 4e3", "segments[0].items[0].bytes: is 4000.0; give a whole number"},
       {"\"bytes\": 16384", "\"bytes\": 99999999999999999999", "segments[0].items[1].bytes: is 1e+20; give a whole"},
       {"\"bytes\": 16384", "\"bytes\": 16384, \"bytes\": 1", "segments[0].items[1].bytes: stands there twice"},
       {"\"bytes\": 16384", "\"byte\": 16384",
        "segments[0].items[1]: has an unknown key 'byte'; known are name, bytes, recipe_us, flops, inputs"},
       {"\"recipe_us\": 7.125", "\"recipe_us\": 7e12", "segments[0].items[1].recipe_us: is 7000000000000; give micro"},
       {"\"recipe_us\": 7.125, ", "", "segments[0].items[1].inputs: belongs to a recipe, and there is none"},
       {"\"flops\": 1000000000", "\"flops\": -1", "segments[0].items[1].flops: is -1; give FLOPs from 0 to 1e24"},
       {"\"name\": \"h\"", "\"name\": \"x\"", "segments[0].items[1].name: 'x' stands in this segment twice; rename"},
       {"\"name\": \"h\"", "\"name\": \"\"", "segments[0].items[1].name: is empty; give a name"},
       {"\"name\": \"h\"", "\"name\": \"" + std::string(64, '9') + "\"",
        "segments[0].items[1].name: '" + std::string(64, '9') + "' is too long; give at most 63 characters"},
       {"[\"x\"]", "[\"y\"]", "segments[0].items[1].inputs[0]: segment 0 has no item 'y'; name one that it has"},
       {"[\"x\"]", "[\"h\"]",
        "segments[0].items[1].inputs: 'h' needs 'h': a recipe that needs itself; break the cycle"},
       {"\"recipe_us\": 1.5}", "\"recipe_us\": 1.5, \"inputs\": [\"h\"]}",
        "segments[0].items[0].inputs: 'x' needs 'h' needs 'x': a recipe that needs itself"},
       {"[\"x\"]", "[{\"name\": \"x\", \"back\": 1}]",
        "segments[0].items[1].inputs[0].back: is 1 in segment 0; there is nothing before segment 0"},
       {"[\"x\"]", "[{\"name\": \"x\", \"back\": -1}]",
        "segments[0].items[1].inputs[0].back: is negative: a later segment; a recipe reads its own segment"},
       {"[\"x\"]", "[" + many("\"x\"", 1025) + "]",
        "segments[0].items[1].inputs: are 1025; a recipe reads at most 1024 items"},
       {"[\"x\"]", "[[\"x\"]]", "segments[0].items[1].inputs[0]: is an array; give a text in quotes"},
       {"[\"x\"]", "\"x\"", "segments[0].items[1].inputs: is \"x\"; give an array"},
       {"\"repeat\": 2", "\"repeat\": 0", "segments[1].repeat: is 0; give at least 1"},
       {"\"repeat\": 2", "\"repeat\": 100000", "segments[1].repeat: is 100000; give at least 1, and at most 100000"},
       {"\"repeat\": 2", "\"repeat\": 18446744073709551615", "segments[1].repeat: is 18446744073709551615; give"},
       {"{\"name\": \"h\", \"back\": 1}", "{\"name\": \"g\", \"back\": 1}",
        "segments[1].items[0].inputs[0]: segment 0 has no item 'g'"},
       {"{\"name\": \"h\", \"back\": 1}", "{\"name\": \"h\", \"back\": 2}",
        "segments[1].items[0].inputs[0].back: is 2 in segment 1; there is nothing before segment 0"},
       {"\"from\": 2", "\"from\": 7", "need_order: segment 7 has no item 'dropout'; name one that it has"},
       {"\"from\": 2", "\"from\": 70000", "need_order: segment 70000 has no item 'dropout'"},
       {"\"from\": 2, \"to\": 0", "\"from\": 0, \"to\": 2", "need_order[0]: goes from 0 to 2; backward goes down"},
       {"[\"dropout\", \"h\", \"x\"]", "[\"h\", \"h\", \"x\"]", "need_order: 'h' of segment 0 stands there twice"},
       {"\"segments\": [", "\"segments\": [[", "segments[0]: is an array; give an object"},
       {"\"name\": \"small\",", "\"name\": \"small\", \"segments\": 3,", "segments: stands there twice"}},
      [](std::string const& bad) { return parse_profile(bad); });
}

TEST(BadProfile, SyntaxErrorsHaveLineAndColumn) {
  auto const text = to_json(small_profile());
  auto const message = [](std::string const& bad) {
    return message_of<format_error>([&] { static_cast<void>(parse_profile(bad)); });
  };
  EXPECT_THAT(message(replaced(text, "\"name\": \"small\",", "\"name\": \"small\"")), StartsWith("line 4, column "));
  EXPECT_THAT(message(text.substr(0, 40)), StartsWith("line 3, column "));
  EXPECT_THAT(message(""), StartsWith("line 1, column 1: "));
  EXPECT_THAT(message(text + "x"), HasSubstr("no JSON"));
  EXPECT_THAT(message("nothing"), StartsWith("line 1, column 2: "));
  EXPECT_THAT(message("[]"), StartsWith("is no object; "));
  EXPECT_THAT(message("3"), StartsWith("is no object; "));
  EXPECT_THAT(message("{}"), StartsWith("has no \"ferry_profile\"; "));
}

TEST(BadProfile, PlacesInRepeatedSegmentsNameTheSegmentToo) {
  ferry::profile step = small_profile();
  step.segments[2].items[1].bytes = 1;  // segments[2] stands apart now
  auto text = to_json(step);
  text = replaced(text, R"({"forward_us": 1, "backward_us": 2)", R"({"repeat": 9, "forward_us": 1, "backward_us": 2)");
  text = replaced(
      text, R"("backward_us": 2, "items": [])",
      R"("backward_us": 2, "items": [{"name": "y", "bytes": 1, "recipe_us": 1, "inputs": [{"name": "x", "back": 1}]}])");
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(parse_profile(text)); }),
              StartsWith("segments[3].items[0].inputs[0] (segment 4): segment 3 has no item 'x'; "));
}

TEST(BadProfile, CheckNamesThePlace) {
  auto const message = [](auto const& change) {
    ferry::profile step = small_profile();
    change(step);
    std::string const text = message_of<format_error>([&] { step.check(); });
    EXPECT_EQ(message_of<format_error>([&] { static_cast<void>(to_json(step)); }), text);
    return text;
  };
  using step = ferry::profile;
  EXPECT_EQ(message([](step&) {}), "");
  EXPECT_THAT(message([](step& s) { s.segments.clear(); }), StartsWith("segments: is empty; "));
  EXPECT_THAT(message([](step& s) { s.segments[1].backward_us = std::numeric_limits<double>::quiet_NaN(); }),
              StartsWith("segments[1].backward_us: is nan; "));
  EXPECT_THAT(message([](step& s) { s.segments[1].items[0].recipe_us = std::numeric_limits<double>::infinity(); }),
              StartsWith("segments[1].items[0].recipe_us: is inf; "));
  EXPECT_THAT(message([](step& s) { s.segments[1].items[0].inputs[1].segment = 2; }),
              StartsWith("segments[1].items[0].inputs[1]: 'x' is in segment 2, after this one; "));
  EXPECT_THAT(message([](step& s) { s.need_order.push_back(s.need_order.front()); }),
              StartsWith("need_order: 'dropout' of segment 2 stands there twice; "));
  EXPECT_THAT(message([](step& s) {
                for (int i = 0; i < 9; ++i) s.segments[3].items.push_back({std::to_string(i), limits::bytes, {}, {}});
              }),
              StartsWith("segments[3].items[7].bytes: makes all items together exceed 2^53 bytes; "));
  EXPECT_THAT(message([](step& s) { s.segments.resize(limits::segments + 1); }),
              StartsWith("segments: has more than 100000"));
}

TEST(BadProfile, ANameThatIsNotUtf8IsNotWritten) {
  ferry::profile step = small_profile();
  step.segments[3].items.push_back({"\xff", 1, {}, {}});
  step.check();
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(to_json(step)); }), HasSubstr("is not UTF-8; "));
}

TEST(BadProfile, AMillionRecipesInARowAreNoCycleAndNoStackOverflow) {
  ferry::profile step{.name = "chain", .segments = {{1, 1, 0, 0, {}}}, .need_order = {}};
  auto& items = step.segments[0].items;
  for (std::size_t i = 0; i < limits::items; ++i)
    items.push_back({std::to_string(i), 1, 1.0, {{0, std::to_string(i + 1)}}});
  items.back().inputs.clear();
  step.check();
  items.back().inputs = {{0, "0"}};
  EXPECT_THAT(
      message_of<format_error>([&] { step.check(); }),
      StartsWith(
          "segments[0].items[0].inputs: '0' needs '1' needs '2' needs '3' needs '4' needs '5' needs ... itself"));
}

TEST(BadPlan, NamesThePlaceAndTheFix) {
  auto const text = to_json(small_plan());
  expect_refused(
      text,
      {{"\"ferry_plan\": 1", "\"ferry_plan\": 0", "ferry_plan: is 0; this Ferry reads version 1"},
       {"\"ferry_plan\": 1", "\"ferry_hardware\": 1", "is no plan: it says 'ferry_hardware'; give the file of a plan"},
       {"\"insured\": true", "\"insured\": 1", "insured: is 1; give true or false"},
       {"\"step_us\": 60", "\"step_us\": -1", "step_us: is -1; give microseconds from 0 to 1e15"},
       {"\"step_us\": 60,", "", "has no \"step_us\"; add it"},
       {"\"peak_bytes\": 49000", "\"peak_bytes\": -1", "device.peak_bytes: is -1; give a whole number"},
       {"\"average_bytes\": 30000.5", "\"average_bytes\": 1e20", "device.average_bytes: is 1e+20; give"},
       {"\"average_bytes\": 30000.5", "\"mean\": 1", "device: has an unknown key 'mean'; known are limit_bytes"},
       {"\"operation\": \"h\"", "\"operation\": \"\"", "recomputed[0].operation: is empty; give a name"},
       {"\"placement\": \"offload\"", "\"placement\": \"away\"",
        "items[1].placement: is 'away'; give keep, offload or recompute"},
       {"\"bytes\": 4096", "\"bytes\": 1125899906842625", "items[0].bytes: is 1125899906842625; give bytes from 0 to"},
       {"\"segment\": 0, \"name\": \"h\"", "\"segment\": 100000, \"name\": \"h\"", "items[1].segment: is 100000; give"},
       {"\"segment\": 0, \"name\": \"h\"", "\"segment\": 4294967296, \"name\": \"h\"",
        "items[1].segment: is 4294967296; give a whole number from 0 to 4294967295"},
       {"\"name\": \"h\"", "\"name\": \"x\"", "items[1]: 'x' of segment 0 stands there twice; leave one"},
       {"\"op\": \"fetch\"", "\"op\": \"bring\"",
        "operations[3].op: is 'bring'; give one of forward, backward, rebuild, offload, fetch, drop"},
       {"\"op\": \"fetch\"", "\"op\": \"forward\"", "operations[3].item: is 'h'; forward and backward name no item"},
       {"\"item\": \"h\"", "\"item\": \"g\"", "operations[1].item: 'g' of segment 0 is not among the items; name one"},
       {"\"item\": \"h\", ", "", "operations[1].item: '' of segment 0 is not among the items"},
       {"\"position\": 3", "\"position\": 5",
        "operations[5].position: is 5; there are 4 forwards, backwards and rebuilds"},
       {"\"after\": [1]", "\"after\": [2]",
        "operations[2].after[0]: is 2; name an offload or fetch that stands before"},
       {"\"after\": [1]", "\"after\": [0]",
        "operations[2].after[0]: is 0; name an offload or fetch that stands before"},
       {"\"after\": [1]", "\"after\": [-1]", "operations[2].after[0]: is -1; give a whole number"},
       {"\"after\": [1]", "\"after\": 1", "operations[2].after: is 1; give an array"},
       {"\"end_us\": 31,", "\"end_us\": 29,", "operations[2].end_us: is before start_us; correct one of them"},
       {"\"start_us\": 10.25", "\"start_us\": 1e16", "operations[1].start_us: is 1e+16; give micro"}},
      [](std::string const& bad) { return parse_plan(bad); });
}

TEST(BadHardware, NamesThePlaceAndTheFix) {
  auto const text = to_json(small_hardware());
  expect_refused(
      text,
      {{"\"ferry_hardware\": 1", "\"ferry_hardware\": 9", "ferry_hardware: is 9; this Ferry reads version 1"},
       {"\"device_bytes\": 1048576", "\"device_bytes\": 9e15", "device_bytes: is 9e+15; give a whole"},
       {"\"host_bytes\": 4194304", "\"host_bytes\": 9000000000000000", "host_bytes: is 9000000000000000; give"},
       {"\"gbps\": 1.5", "\"gbps\": -1.5", "device_to_host.gbps: is -1.5; give a number from 0 to 1e+06"},
       {"\"latency_us\": 12", "\"latency_us\": 1e13", "host_to_device.latency_us: is 10000000000000; give"},
       {"\"latency_us\": 12", "\"late\": 1", "host_to_device: has an unknown key 'late'; known are gbps"},
       {"\"out_beside_back\": 1", "\"out_beside_back\": 0",
        "contention.out_beside_back: is 0; give what is left of the speed, from 0.01 to 1"},
       {"\"compute_beside_both\": 1", "\"compute_beside_both\": 1.5", "contention.compute_beside_both: is 1.5; give"},
       {"\"compute_beside_out\": 1", "\"beside\": 1", "contention: has an unknown key 'beside'; known are out_beside"},
       {"{\"gbps\": 1.5, \"latency_us\": 10}", "5", "device_to_host: is 5; give an object"},
       {"\"tflops\": 3", "\"tflops\": true", "tflops: is true; give a number"}},
      [](std::string const& bad) { return parse_hardware(bad); });
}

TEST(BadFile, IsNamed) {
  temporary_folder const folder;
  auto const file = folder / "p.json";
  auto const message = [&](std::filesystem::path const& name) {
    return message_of<format_error>([&] { static_cast<void>(ferry::read_profile(name)); });
  };
  EXPECT_EQ(message(file), in_quotes(file) + ": cannot be opened: No such file or directory; check the path");
  EXPECT_EQ(message(folder.path()), in_quotes(folder.path()) + ": is a folder; give the file in it");
  write_file(file, replaced(to_json(small_profile()), "10.25", "-1"));
  EXPECT_EQ(message(file), in_quotes(file) + ": segments[0].forward_us: is -1; give microseconds from 0 to 1e12");
  write_file(file, to_json(small_profile()));
  EXPECT_EQ(ferry::read_profile(file), small_profile());
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(ferry::read_plan(file)); }),
              StartsWith(in_quotes(file) + ": is no plan: it says 'ferry_profile'; "));
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(ferry::read_hardware(file)); }),
              StartsWith(in_quotes(file) + ": is no hardware: it says 'ferry_profile'; "));
}

/// A beginning, then the same text again and again without an end. Counts what is taken of it.
class endless_text final : public std::streambuf {
 public:
  endless_text(std::string beginning, std::string_view again) : buffer_(std::move(beginning)) {
    while (again_.size() < 100'000) again_ += again;
    setg(buffer_.data(), buffer_.data(), buffer_.data() + buffer_.size());
    handed_out_ = buffer_.size();
  }

  [[nodiscard]] std::size_t taken_bytes() const { return handed_out_ - static_cast<std::size_t>(egptr() - gptr()); }

 private:
  int_type underflow() override {
    setg(again_.data(), again_.data(), again_.data() + again_.size());
    handed_out_ += again_.size();
    return traits_type::to_int_type(again_.front());
  }

  std::string buffer_;
  std::string again_;
  std::size_t handed_out_;
};

struct refusal {
  std::string message;
  std::size_t taken_bytes;
};

refusal refuse_profile(std::string beginning, std::string_view again) {
  endless_text text(std::move(beginning), again);
  std::istream in(&text);
  auto const message = message_of<format_error>([&] { static_cast<void>(ferry::planning::parse_profile(in)); });
  return {message, text.taken_bytes()};
}

std::string const profile_head = R"({"ferry_profile": 1, "name": "n", )";
constexpr std::size_t slack_bytes = std::size_t{1} << 17;  // what is read ahead

TEST(EndlessFile, ItemsAreCountedWhileTheyAreRead) {
  std::string_view const item = R"({"name":"a","bytes":1},)";
  auto const [message, taken] = refuse_profile(profile_head + R"("segments": [{"items": [)", item);
  EXPECT_THAT(message,
              StartsWith("segments[0].items[1000000]: is one more than the 1000000 items that a step may have"));
  EXPECT_LT(taken, limits::items * item.size() + slack_bytes);
}

TEST(EndlessFile, SegmentsAreCountedWhileTheyAreRead) {
  std::string_view const segment = R"({"forward_us":1,"backward_us":1,"items":[]},)";
  auto const [message, taken] = refuse_profile(profile_head + R"("segments": [)", segment);
  EXPECT_THAT(message,
              StartsWith("segments[100000].repeat: is 1; give at least 1, and at most 100000 segments in all"));
  EXPECT_LT(taken, limits::segments * segment.size() + slack_bytes);
}

TEST(EndlessFile, OperationsAreCountedWhileTheyAreRead) {
  std::string_view const row =
      R"({"op":"forward","segment":0,"position":0,"start_us":0,"end_us":0,"latest_start_us":0},)";
  endless_text text(R"({"ferry_plan": 1, "operations": [)", row);
  std::istream in(&text);
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(ferry::planning::parse_plan(in)); }),
              StartsWith("operations[2000000]: is one more than the 2000000 that a plan may have; "));
}

TEST(EndlessFile, RepetitionsAreCountedBeforeTheyAreMade) {
  std::string text = profile_head + R"("segments": [{"repeat": 100000, "forward_us": 1, "backward_us": 1, "items": [)";
  for (int i = 0; i < 11; ++i) text += (i > 0 ? "," : "") + (R"({"bytes": 1, "name": ")" + std::to_string(i) + "\"}");
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(parse_profile(text + "]}]}")); }),
              StartsWith("segments[0].repeat: makes more than 1000000 items; "));
  text = profile_head + R"("segments": [], "need_order": [{"from": 99999, "to": 0, "items": [)";
  for (int i = 0; i < 11; ++i) text += i > 0 ? ",\"x\"" : "\"x\"";
  EXPECT_THAT(message_of<format_error>([&] { static_cast<void>(parse_profile(text + "]}]}")); }),
              StartsWith("need_order[0]: makes more than 1000000 needs; "));
}

TEST(EndlessFile, NestingTextsAndValuesEndEarly) {
  struct endless {
    char const* beginning;
    char const* again;
    char const* message;
  };
  for (auto const& [beginning, again, message] : {
           endless{R"("segments": )", "[", "segments[0][0][0][0][0][0][0]: is nested too deeply; "},
           endless{R"("segments": )", "[{\"items\":", "segments[0].items[0]: has an unknown key 'items'; "},
           endless{R"("name": ")", "a", "has a text, a number or a gap of more than 1 MiB; "},
           endless{R"("name": 1)", "1", "has a text, a number or a gap of more than 1 MiB; "},
           endless{"", " \n", "has a text, a number or a gap of more than 1 MiB; "},
           endless{R"("need_order": [)", "0,", "need_order[0]: is 0; give an object"},
           endless{R"("need_order": [{"items": [)", "0,", "need_order[0].items[9995]: is more than the 10000 values"},
           endless{R"("need_order": [{"items": [)", "[[],[]],", "need_order[0].items"},
           endless{R"("segments": [{"items": [{"inputs": [)", "0,", "segments[0].items[0].inputs[9993]: is more than"},
       }) {
    auto const refused = refuse_profile(R"({"ferry_profile": 1, )" + std::string(beginning), again);
    EXPECT_THAT(refused.message, StartsWith(message)) << beginning << again;
    EXPECT_LT(refused.taken_bytes, ferry::support::most_token_bytes + 3 * slack_bytes);
  }
}

TEST(EndlessFile, EndsAt256MiB) {
  std::string const row(4000, ' ');
  auto const [message, taken] =
      refuse_profile(profile_head + R"("need_order": [)", R"({"from": 0, "items": [)" + row + "]}," + row);
  EXPECT_THAT(message, StartsWith("is larger than 256 MiB; "));
  EXPECT_LT(taken, limits::file_bytes + 2 * slack_bytes);
}

}  // namespace
