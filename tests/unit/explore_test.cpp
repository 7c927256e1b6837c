// The parts of exploring: fibers, chance, what is possible, making programs smaller. That it finds what it should is
// shown by scripts/mutate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "explore/chance.hpp"
#include "explore/possible.hpp"
#include "explore/shrink.hpp"
#include "support/fiber.hpp"

namespace ferry::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(Fiber, GoesOnWhereItPaused) {
  std::vector<int> order;
  fiber* self = nullptr;
  fiber line([&] {
    order.push_back(1);
    self->pause();
    order.push_back(3);
  });
  self = &line;
  line.resume();
  EXPECT_FALSE(line.is_over());
  order.push_back(2);
  line.resume();
  EXPECT_TRUE(line.is_over());
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(Fiber, WhatItsBodyThrowsIsThrownWhereItWasResumed) {
  fiber line([] { throw std::runtime_error("from within"); });
  EXPECT_THROW(line.resume(), std::runtime_error);
  EXPECT_TRUE(line.is_over());
}

TEST(Fiber, EachLineHandlesItsOwnExceptions) {
  std::string seen;
  fiber* self = nullptr;
  fiber line([&] {
    try {
      throw std::runtime_error("inner");
    } catch (std::exception const& inner) {
      self->pause();  // while it is being handled
      seen += inner.what();
      try {
        throw;
      } catch (std::runtime_error const& again) {
        seen += std::string(" ") + again.what();
      }
    }
  });
  self = &line;
  line.resume();
  try {
    throw std::logic_error("outer");
  } catch (std::exception const& outer) {
    line.resume();
    EXPECT_STREQ(outer.what(), "outer");
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    EXPECT_TRUE(std::current_exception() != nullptr);
  }
  EXPECT_EQ(seen, "inner inner");
  EXPECT_TRUE(std::current_exception() == nullptr);
}

TEST(Fiber, MayGoWithoutHavingBegun) {
  bool ran = false;
  {
    fiber const line([&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(Chance, GivesTheSameForTheSameNumber) {
  chance one(7);
  chance other(7);
  chance another(8);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(one.draw(), other.draw());
  EXPECT_NE(one.draw(), another.draw());
}

TEST(Chance, StaysWithinItsBounds) {
  chance draw(1);
  std::set<std::uint64_t> small;
  for (int i = 0; i < 1000; ++i) {
    auto const value = draw.up_to(64);
    EXPECT_GE(value, 1U);
    EXPECT_LE(value, 64U);
    if (value < 4) small.insert(value);
    EXPECT_LT(draw.below(5), 5U);
    EXPECT_FALSE(draw.per_mille(0));
    EXPECT_TRUE(draw.per_mille(1000));
  }
  EXPECT_THAT(small, SizeIs(3));
}

TEST(Possible, EveryRuleRulesSomethingOut) {
  std::set<std::string> reasons;
  std::size_t possible = 0;
  for (auto const& each : all_happenings()) {
    auto const* const why = why_impossible(each);
    if (why == nullptr) {
      ++possible;
    } else {
      reasons.insert(why);
    }
  }
  EXPECT_EQ(reasons.size(), reasons_of_impossibility().size());
  EXPECT_GT(possible, 100U);
}

TEST(Possible, ALifeIsPossible) {
  for (happening const each :
       {happening{"item", "released", "saved", "no bytes"}, happening{"item", "resident", "offload begun", "by work"},
        happening{"offload", "queued", "accepted", "nothing in flight"},
        happening{"item", "offloading", "offload completed", "by work"},
        happening{"item", "hosted", "fetch begun", "host copy"},
        happening{"item", "prefetching", "fetch completed", "by link, host copy"},
        happening{"item", "resident", "needed", "arrived, host copy"},
        happening{"item", "resident", "release asked", "arrived, host copy"}}) {
    EXPECT_EQ(why_impossible(each), nullptr) << each.text();
  }
  EXPECT_NE(why_impossible({"item", "released", "needed", "no bytes"}), nullptr);
  EXPECT_NE(why_impossible({"item", "prefetching", "needed", "unwritten, host copy"}), nullptr);
}

operation numbered(std::uint32_t which) {
  operation op;
  op.which = which;
  op.hold = op.adopted = true;
  return op;
}

TEST(Shrinker, LeavesWhatItTakesToFail) {
  program p;
  p.verify = true;
  p.explored.stalls = 3;
  p.bodies = {{}};
  for (std::uint32_t i = 0; i < 40; ++i) p.bodies[0].push_back(numbered(i));
  p.steps = {0, 0, 0};
  auto const fails = [](program const& tried) {
    bool three = false;
    bool seventeen = false;
    for (auto const& op : tried.bodies[0]) {
      three |= op.which == 3 && op.hold;
      seventeen |= op.which == 17;
    }
    return three && seventeen && tried.steps.size() >= 2;
  };
  program const small = shrinker(p, fails, 10'000).shrink();
  ASSERT_THAT(small.bodies[0], SizeIs(2));
  EXPECT_TRUE(small.bodies[0][0].hold);
  EXPECT_FALSE(small.bodies[0][0].adopted);
  EXPECT_FALSE(small.bodies[0][1].hold);
  EXPECT_THAT(small.steps, SizeIs(2));
  EXPECT_FALSE(small.verify);
  EXPECT_EQ(small.explored.stalls, 0U);
}

TEST(Shrinker, RunsNoMoreThanItMay) {
  program p;
  p.bodies.emplace_back(20, numbered(1));
  p.steps = {0};
  int runs = 0;
  static_cast<void>(shrinker(
                        p,
                        [&](program const&) {
                          ++runs;
                          return false;
                        },
                        5)
                        .shrink());
  EXPECT_EQ(runs, 5);
}

}  // namespace
}  // namespace ferry::testing
