// A plan fits the step that it was made for, and the first difference to any other is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ferry/error.hpp"
#include "support/plan_values.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace ferry::testing;

template <typename Change>
std::string mismatch(Change const& change) {
  ferry::profile step = small_profile();
  ferry::plan planned = small_plan();
  change(planned, step);
  return message_of<ferry::plan_mismatch>([&] { require_match(planned, step); });
}

std::string told(std::string const& difference) {
  return "the plan, made for 'small', does not fit the step 'small': " + difference + "; plan again for this step";
}

TEST(PlanMatch, AcceptsTheStepItWasMadeFor) {
  EXPECT_EQ(mismatch([](auto&, auto&) {}), "");
}

TEST(PlanMatch, NamesTheFirstDifference) {
  EXPECT_EQ(mismatch([](auto&, auto& step) { step.segments.emplace_back(); }), told("it has 4 segments, the step 5"));
  EXPECT_EQ(mismatch([](auto&, auto& step) { step.segments[1].items[1].bytes = 5; }),
            told("'h' of segment 1 has 16384 bytes in it, 5 in the step"));
  EXPECT_EQ(mismatch([](auto&, auto& step) {
              step.segments[3].items.push_back({"new", 1, {}, {}});
            }),
            told("it has no 'new' of segment 3"));
  EXPECT_EQ(mismatch([](auto& planned, auto&) { planned.items.erase(planned.items.begin() + 4); }),
            told("it has no 'h' of segment 1"));
  EXPECT_EQ(mismatch([](auto&, auto& step) { step.segments[2].items.pop_back(); }),
            told("the step has no 'dropout' of segment 2"));
}

}  // namespace
