// Cases are read as they are written, and what is wrong with a file is said with its place and the fix.
#include "plan/chain_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "ferry/error.hpp"
#include "support/planner_cases.hpp"
#include "support/random_chains.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json small_case() {
  return json::parse(R"({"name": "two", "L": 2, "fwd_s": [1, 2], "bwd_s": [2, 4], "boundary_bytes": [5, 6, 0],
    "saved_bytes": [10, 8], "fwd_tmp_bytes": [1, 0], "bwd_tmp_bytes": null, "gpu_mem_bytes": 30, "d2h_Bps": 4,
    "h2d_Bps": 3.5, "host_bytes": null, "derived": {"floor_bytes": [[{}]]}, "reference": {"L": 7}})");
}

class CaseFile : public ::testing::Test {
 protected:
  planning::chain read(std::string const& text) {
    write_file(file_, text);
    return planning::read_chain(file_);
  }
  /// What is said about the small case with one value changed.
  std::string said(char const* key, json const& value) {
    json changed = small_case();
    changed[key] = value;
    return said(changed.dump());
  }
  std::string said(std::string const& text) {
    return message_of<format_error>([&] { (void)read(text); });
  }

  temporary_folder folder_;
  std::filesystem::path file_ = folder_ / "case.json";
};

TEST_F(CaseFile, IsReadWhole) {
  planning::chain const c = read(small_case().dump());
  EXPECT_EQ(c.name, "two");
  EXPECT_EQ(c.forward_s, (std::vector<double>{1, 2}));
  EXPECT_EQ(c.backward_s, (std::vector<double>{2, 4}));
  EXPECT_EQ(c.boundary_bytes, (std::vector<double>{5, 6, 0}));
  EXPECT_EQ(c.saved_bytes, (std::vector<double>{10, 8}));
  EXPECT_EQ(c.forward_scratch_bytes, (std::vector<double>{1, 0}));
  EXPECT_EQ(c.backward_scratch_bytes, (std::vector<double>{0, 0}));
  EXPECT_EQ(c.device_bytes, 30);
  EXPECT_EQ(c.d2h_bytes_per_s, 4);
  EXPECT_EQ(c.h2d_bytes_per_s, 3.5);
  EXPECT_EQ(c.host_bytes, planning::chain::unlimited);
}

TEST_F(CaseFile, MayLeaveOutScratchAndName) {
  json shorter = small_case();
  for (char const* key : {"fwd_tmp_bytes", "bwd_tmp_bytes", "name", "derived", "reference"}) shorter.erase(key);
  planning::chain const c = read(shorter.dump());
  EXPECT_EQ(c.name, "case");
  EXPECT_EQ(c.forward_scratch_bytes, (std::vector<double>{0, 0}));
}

TEST_F(CaseFile, KnowsNoLinkAndABoundlessOne) {
  json changed = small_case();
  changed["d2h_Bps"] = nullptr;
  changed["h2d_Bps"] = 0;
  changed["host_bytes"] = 0;
  planning::chain const none = read(changed.dump());
  EXPECT_EQ(none.d2h_bytes_per_s, 0);
  EXPECT_EQ(none.h2d_bytes_per_s, 0);
  EXPECT_EQ(none.host_bytes, 0);
  changed["d2h_Bps"] = 1e15;
  EXPECT_EQ(read(changed.dump()).d2h_bytes_per_s, 1e15);
}

TEST_F(CaseFile, OfTheStoredKindIsRead) {
  for (std::string const& name : planner_case_names()) {
    planning::chain const c = load_planner_case(name).problem;
    EXPECT_EQ(c.name, name);
    EXPECT_GE(c.stages(), 4U);
    EXPECT_EQ(c.boundary_bytes.size(), c.stages() + 1);
  }
}

TEST_F(CaseFile, NamesItselfThePlaceAndTheFix) {
  EXPECT_THAT(said("fwd_s", json::parse("[1, -2]")),
              AllOf(HasSubstr("case.json"), HasSubstr("fwd_s[1]"), HasSubstr("is -2"), HasSubstr("between 0 and")));
  EXPECT_THAT(said("fwd_s", json::parse("[1, true]")),
              AllOf(HasSubstr("fwd_s[1]"), HasSubstr("is a boolean; write a number")));
  EXPECT_THAT(said("bwd_s", json::parse("[1, null]")),
              AllOf(HasSubstr("bwd_s[1]"), HasSubstr("is null; write a number")));
  EXPECT_THAT(said("bwd_s", json::parse("[1, [2]]")), HasSubstr("bwd_s[1]: is a list or an object; write a number"));
  EXPECT_THAT(said("bwd_s", json::parse("[1, {}]")), HasSubstr("bwd_s[1]: is a list or an object; write a number"));
  EXPECT_THAT(said("bwd_s", json::parse("[1, 1e10]")), HasSubstr("bwd_s[1]: is 1e+10"));
  EXPECT_THAT(said("bwd_s", 3), HasSubstr("bwd_s: is a number; write a list of 2 numbers"));
  EXPECT_THAT(said("bwd_s", nullptr), HasSubstr("bwd_s: is null"));
  EXPECT_THAT(said("saved_bytes", json::parse("[1]")), HasSubstr("saved_bytes: has 1 entries; with L = 2 it needs 2"));
  EXPECT_THAT(said("boundary_bytes", json::parse("[1, 2]")),
              HasSubstr("boundary_bytes: has 2 entries; with L = 2 it needs 3"));
  EXPECT_THAT(said("boundary_bytes", json::parse("[1, 2, 1e19]")), HasSubstr("boundary_bytes[2]: is 1e+19"));
  EXPECT_THAT(said("fwd_tmp_bytes", json::parse("[-1, 0]")), HasSubstr("fwd_tmp_bytes[0]: is -1"));
  EXPECT_THAT(said("gpu_mem_bytes", "31 GB"), HasSubstr("gpu_mem_bytes: is a string; write a number"));
  EXPECT_THAT(said("gpu_mem_bytes", nullptr), HasSubstr("gpu_mem_bytes: is null"));
  EXPECT_THAT(said("host_bytes", -1), HasSubstr("host_bytes: is -1"));
  EXPECT_THAT(said("d2h_Bps", -1), HasSubstr("d2h_Bps: is -1"));
  EXPECT_THAT(said("h2d_Bps", 1e25), HasSubstr("h2d_Bps: is 1e+25"));
  EXPECT_THAT(said("name", 5), HasSubstr("name: is a number; write a string"));
  EXPECT_THAT(said("name", std::string(1000, 'n')), HasSubstr("name: is longer than"));
}

TEST_F(CaseFile, NeedsAWholeNumberOfStages) {
  EXPECT_THAT(said("L", 0), HasSubstr("L: is 0; it must be a whole number"));
  EXPECT_THAT(said("L", 1.5), HasSubstr("L: is 1.5; it must be a whole number"));
  EXPECT_THAT(said("L", -1), HasSubstr("L: is -1"));
  EXPECT_THAT(said("L", 10'000'000), HasSubstr("L: is 1e+07; it must be between 0 and 100000"));
  EXPECT_THAT(said("L", 3), HasSubstr("fwd_s: has 2 entries; with L = 3 it needs 3"));
}

TEST_F(CaseFile, NeedsEveryKeyOnce) {
  for (char const* key :
       {"L", "fwd_s", "bwd_s", "boundary_bytes", "saved_bytes", "gpu_mem_bytes", "d2h_Bps", "h2d_Bps", "host_bytes"}) {
    json without = small_case();
    without.erase(key);
    EXPECT_THAT(said(without.dump()), HasSubstr(std::string(key) + ": is missing; add it"));
  }
  std::string const text = small_case().dump();
  EXPECT_THAT(said(R"({"L": 2, )" + text.substr(1)), HasSubstr("L: appears twice; keep one"));
}

TEST_F(CaseFile, MustBeJsonOfItsForm) {
  for (char const* text : {"", "{", "[]", "null", "3", "[1, 2, [3]]", "{\"L\": NaN}", "{\"L\": Infinity}",
                           "{\"L\": 1e999}", "\xff\xfe", "{\"L\": 2} x"}) {
    EXPECT_THAT(said(text), AllOf(HasSubstr("case.json"), HasSubstr("the text"))) << text;
  }
  EXPECT_THAT(said("{\n\"L\": 2,\n\"fwd_s\": [1,, 2]}"), HasSubstr("line 3"));
}

TEST_F(CaseFile, CutAnywhereIsRefused) {
  std::string const text = small_case().dump();
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_NE(said(text.substr(0, length)), "") << length;
  }
}

TEST_F(CaseFile, DamagedAnywhereIsReadOrRefused) {
  random_source roll(7);
  std::string const text = small_case().dump();
  for (int i = 0; i < 600; ++i) {
    std::string damaged = text;
    for (std::size_t n = roll.count(1, 3); n > 0; --n) {
      damaged[roll.count(0, damaged.size() - 1)] = static_cast<char>(roll.whole(0, 255));
    }
    (void)said(damaged);  // no other exception, no crash
  }
}

TEST_F(CaseFile, OfManyEntriesOrDepthsIsRefusedWithoutKeepingThem) {
  std::string many = "{\"fwd_s\": [0";
  for (int i = 0; i < 300'000; ++i) many += ",0";
  EXPECT_THAT(said(many + "]}"), HasSubstr("fwd_s: has too many entries; a case has at most 100000 stages"));
  std::string const deep(1'000'000, '[');
  EXPECT_THAT(said("{\"fwd_s\": " + deep), HasSubstr("fwd_s[0]: is a list"));
  EXPECT_THAT(said("{\"other\": " + deep), HasSubstr("is not JSON"));
  EXPECT_THAT(said(deep), HasSubstr("is not JSON"));
}

TEST_F(CaseFile, OfTheMostStagesIsRead) {
  std::size_t const stages = planning::max_case_stages;
  json large = small_case();
  large["L"] = stages;
  for (char const* key : {"fwd_s", "bwd_s", "saved_bytes"}) large[key] = std::vector<double>(stages, 1.5);
  large["boundary_bytes"] = std::vector<double>(stages + 1, 1);
  large["fwd_tmp_bytes"] = nullptr;
  EXPECT_EQ(read(large.dump()).stages(), stages);
}

TEST_F(CaseFile, ThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(message_of<format_error>([&] { (void)planning::read_chain(folder_ / "absent.json"); }),
              AllOf(HasSubstr("absent.json"), HasSubstr("name a file that can be read")));
  EXPECT_THAT(message_of<format_error>([&] { (void)planning::read_chain(folder_.path()); }),
              HasSubstr("name a file that can be read"));
}

}  // namespace
}  // namespace ferry::testing
