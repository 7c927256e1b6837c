// What else the runtime decides: what to drop in forward, which planned fetches to begin, what to do while idle.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"
#include "support/runtime_fixture.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

/// Three items that leave, and a fourth one that needs bytes: the link is at the first one for another 1400 us.
class ShortOfBytes : public Runtime {
 protected:
  static constexpr auto forward_time = 100us;
  static constexpr auto until_free = item_time - 200us;

  void learn(nanoseconds recipe) {
    begin([](item_info const& item) { return item.has_recipe ? placement::recompute : placement::offload; });
    for (std::uint32_t s = 0; s < 4; ++s) save(key(s), forward_time, s == 0 ? ferry::recipe{} : rebuilding(recipe));
    settle();
    for (std::uint32_t s = 4; s-- > 0;) use(key(s), "use " + std::to_string(s));
    end();
  }
  /// How long the fourth one had to wait for bytes.
  nanoseconds wait_of_the_fourth(nanoseconds recipe) {
    begin([](item_info const&) { return placement::offload; });
    for (std::uint32_t s = 0; s < 3; ++s) save(key(s), forward_time, s == 0 ? ferry::recipe{} : rebuilding(recipe));
    compute_->synchronize();
    auto const from = device_->now();
    save(key(3), forward_time, rebuilding(recipe));
    auto const waited = device_->now() - from;
    settle();
    for (std::uint32_t s = 4; s-- > 0;) use(key(s), "use " + std::to_string(s));
    end();
    return waited;
  }
};

TEST_F(ShortOfBytes, AnItemInTheQueueIsDroppedIfItsRecipeIsCheaperThanTheWait) {
  constexpr auto recipe = until_free - tolerance - 1us;
  start(3);
  learn(recipe);
  EXPECT_EQ(wait_of_the_fourth(recipe), 0us);
  EXPECT_EQ(count(reason::dropped_instead_of_waiting), 1U);
  EXPECT_EQ(session_->stats().host_waited_us, 0);
  for (std::uint32_t s = 0; s < 4; ++s)
    EXPECT_NE(seen_["use " + std::to_string(s)].find_first_of("mr"), std::string::npos);
}

TEST_F(ShortOfBytes, NotIfWaitingIsCheaper) {
  constexpr auto recipe = until_free - tolerance + 1us;
  start(3);
  learn(recipe);
  EXPECT_EQ(wait_of_the_fourth(recipe), until_free);
  EXPECT_EQ(count(reason::dropped_instead_of_waiting), 0U);
  EXPECT_EQ(session_->stats().host_waited_us, 1400);
  EXPECT_EQ(nanoseconds(std::llround(1e3 * session_->stats().waited_for_bytes_us)), until_free);
}

TEST_F(ShortOfBytes, NorWhatNothingCanRebuild) {
  start(3);
  begin([](item_info const&) { return placement::offload; });
  for (std::uint32_t s = 0; s < 4; ++s) save(key(s), forward_time);
  settle();
  EXPECT_EQ(count(reason::dropped_instead_of_waiting), 0U);
  EXPECT_EQ(session_->stats().host_waited_us, 1400 + 100);
  end();
}

TEST_F(ShortOfBytes, TheCheapestThatIsEnoughGoes) {
  start(3);
  auto const recipe_of = [](std::uint32_t s) { return s == 1 ? 900us : 200us; };
  for (bool const learning : {true, false}) {
    begin(
        [=](item_info const& item) { return learning && item.has_recipe ? placement::recompute : placement::offload; });
    for (std::uint32_t s = 0; s < 3; ++s) save(key(s), forward_time, s == 0 ? recipe{} : rebuilding(recipe_of(s)));
    compute_->synchronize();
    if (!learning) {
      auto const more = session_->allocate(item_bytes, *compute_);
      EXPECT_EQ(count(reason::dropped_instead_of_waiting), 1U);
      EXPECT_EQ(session_->state(key(2)), item_state::dropped);
      EXPECT_EQ(session_->state(key(1)), item_state::offloading);
    }
    settle();
    for (std::uint32_t s = 3; s-- > 0;) use(key(s), "use");
    end();
  }
}

TEST_F(ShortOfBytes, AsManyGoAsItTakes) {
  constexpr auto recipe = 200us;
  start(3);
  learn(recipe);
  begin([](item_info const&) { return placement::offload; });
  for (std::uint32_t s = 0; s < 3; ++s) save(key(s), forward_time, s == 0 ? ferry::recipe{} : rebuilding(recipe));
  compute_->synchronize();
  auto const from = device_->now();
  {
    auto const large = session_->allocate(2 * item_bytes, *compute_);
    EXPECT_EQ(device_->now(), from);
    EXPECT_EQ(count(reason::dropped_instead_of_waiting), 2U);
    EXPECT_EQ(session_->stats().device.now_bytes, 3 * item_bytes);
  }
  settle();
  for (std::uint32_t s = 3; s-- > 0;) use(key(s), "use");
  end();
}

/// A plan by hand. Only what the session looks at is in it.
class PlannedRuntime : public Runtime {
 protected:
  struct planned {
    placement where;
    double rebuild_us;
  };
  /// One item for each segment; backward takes `backward_us`. Before the backward named first, what is named second is
  /// fetched.
  static plan plan_of(std::vector<planned> const& items, double backward_us,
                      std::map<std::uint32_t, std::uint32_t> const& fetches = {}) {
    plan result;
    result.profile_name = "by hand";
    auto const segments = static_cast<std::uint32_t>(items.size());
    double at_us = 0;
    auto const add = [&](plan_operation::kind what, std::uint32_t segment, double us, std::string const& item = "") {
      plan_operation op;
      op.what = what;
      op.segment = segment;
      op.item = item;
      op.start_us = at_us;
      op.end_us = at_us += us;
      result.operations.push_back(op);
    };
    for (std::uint32_t s = 0; s < segments; ++s) {
      std::optional<double> rebuild_us;
      if (items[s].rebuild_us > 0) rebuild_us = items[s].rebuild_us;
      result.items.push_back({{s, "h"}, item_bytes, items[s].where, rebuild_us, ""});
      add(plan_operation::kind::forward, s, 0);
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      if (auto const found = fetches.find(s); found != fetches.end()) {
        add(plan_operation::kind::fetch, found->second, 0, "h");
      }
      add(plan_operation::kind::backward, s, backward_us);
    }
    return result;
  }
  void run(std::vector<planned> const& items, nanoseconds backward) {
    session_->begin_step();
    for (std::uint32_t s = 0; s < items.size(); ++s) {
      auto const us = std::chrono::duration<double, std::micro>(items[s].rebuild_us);
      auto const cost = std::chrono::duration_cast<nanoseconds>(us);
      save(key(s), 0us, items[s].rebuild_us > 0 ? rebuilding(cost) : recipe{});
    }
    settle();
    for (auto s = static_cast<std::uint32_t>(items.size()); s-- > 0;) {
      use(key(s), "use " + std::to_string(s), backward);
    }
    end();
  }
};

TEST_F(PlannedRuntime, AKeptItemIsDroppedWhenTheLinkStandsStill) {
  std::vector<planned> const items{{placement::offload, 0}, {placement::keep, 300}, {placement::keep, 0}};
  start(3);
  session_->follow(plan_of(items, 100, {{1, 0}}));
  run(items, 100us);  // shows the link's speed
  session_->begin_step();
  save(key(0));
  save(key(1), 0us, rebuilding(300us));
  auto const stalled = device_->now();
  stall(sim_engine::device_to_host, stalled, stalled + 20ms);
  save(key(2));
  auto const from = device_->now();
  auto const more = session_->allocate(item_bytes, *compute_);
  auto const waited = device_->now() - from;
  EXPECT_EQ(count(reason::dropped_instead_of_waiting), 1U);
  EXPECT_EQ(session_->state(key(1)), item_state::dropped);
  EXPECT_EQ(session_->state(key(2)), item_state::resident) << "nothing could rebuild it";
  // The wait for the whole item, 1600 us, is longer than the recipe from the first look on.
  EXPECT_EQ(waited, 0us);
  compute_->synchronize();
  session_->end_step();
}

TEST_F(PlannedRuntime, AKeptItemStaysWhileTheLinkIsSoonEnough) {
  std::vector<planned> const items{{placement::offload, 0}, {placement::keep, 2000}, {placement::keep, 0}};
  start(3);
  session_->follow(plan_of(items, 100, {{1, 0}}));
  run(items, 100us);
  session_->begin_step();
  save(key(0));
  save(key(1), 0us, rebuilding(2000us));
  save(key(2));
  auto const from = device_->now();
  {
    auto const more = session_->allocate(item_bytes, *compute_);
    EXPECT_EQ(device_->now() - from, item_time);
  }
  EXPECT_EQ(count(reason::dropped_instead_of_waiting), 0U);
  EXPECT_EQ(session_->state(key(1)), item_state::resident);
  compute_->synchronize();
  session_->end_step();
}

TEST_F(PlannedRuntime, AKeptItemGoesOnceTheLinkHasStoodStillForLongEnough) {
  std::vector<planned> const items{{placement::offload, 0}, {placement::keep, 2000}, {placement::keep, 0}};
  start(3);
  session_->follow(plan_of(items, 100, {{1, 0}}));
  run(items, 100us);
  session_->begin_step();
  save(key(0));
  auto const stalled = device_->now();
  stall(sim_engine::device_to_host, stalled);  // for ever
  save(key(1), 0us, rebuilding(2000us));
  save(key(2));
  auto const more = session_->allocate(item_bytes, *compute_);
  EXPECT_EQ(count(reason::dropped_instead_of_waiting), 1U);
  // 1500 us for the other chunks, and as long again as it has stood still beyond twice a chunk's time: more than 2050
  // us when that is 550 us.
  EXPECT_GT(device_->now() - stalled, 750us);
  EXPECT_LE(device_->now() - stalled, 750us + tolerance + 1us);
}

TEST_F(PlannedRuntime, AFetchThatWouldBeLateIsNotStarted) {
  // Planned to be back 100 us after it is sent for; on this link that takes 1600 us, its recipe 300.
  std::vector<planned> const items{{placement::offload, 300}, {placement::keep, 0}, {placement::offload, 0}};
  start(8);
  session_->follow(plan_of(items, 100, {{1, 0}}));
  run(items, 100us);  // the link is not known yet
  auto const before = session_->stats();
  asked_.clear();
  run(items, 100us);
  auto const after = session_->stats();
  EXPECT_EQ(
      after.count(reason::recomputed_sooner_than_transfer) - before.count(reason::recomputed_sooner_than_transfer), 1U);
  EXPECT_EQ(after.host_to_device.abandoned, before.host_to_device.abandoned) << "nothing was begun";
  EXPECT_EQ(after.host_to_device.bytes - before.host_to_device.bytes, item_bytes) << "of the item without a recipe";
  EXPECT_EQ(seen_["use 0"], all('r'));
  EXPECT_EQ(began("use 0") - began("use 1"), 100us + 300us);
}

TEST_F(PlannedRuntime, AFetchThatWillBeLateByLessThanTheRecipeTakesIsStarted) {
  // Late by 1400 us and more; the recipe takes 1500.
  std::vector<planned> const items{{placement::offload, 1500}, {placement::keep, 0}, {placement::offload, 0}};
  start(8);
  session_->follow(plan_of(items, 100, {{1, 0}}));
  run(items, 100us);
  auto const before = session_->stats();
  run(items, 100us);
  auto const after = session_->stats();
  EXPECT_EQ(after.host_to_device.bytes - before.host_to_device.bytes, 2 * item_bytes);
  EXPECT_EQ(seen_["use 0"], all('m'));
  EXPECT_EQ(began("use 0") - began("use 1"), item_time);
}

/// Of three items the last one is waited for, and the one that is needed after it was dropped.
class Idle : public Runtime {
 protected:
  static placement choose(item_info const& item) {
    return item.key.segment == 1 ? placement::recompute : item.key.segment == 2 ? placement::offload : placement::keep;
  }
  void forward(nanoseconds recipe) {
    begin(choose);
    save(key(0));
    save(key(1), 0us, rebuilding(recipe));
    save(key(2));
    save(key(3));
    settle();
  }
  void backward() {
    use(key(3), "use 3");
    use(key(2), "use 2");
    use(key(1), "use 1");
    use(key(0), "use 0");
    end();
  }
  void learn(nanoseconds recipe) {
    forward(recipe);
    backward();
    asked_.clear();
  }
};

TEST_F(Idle, ARecipeThatIsNeededNextRunsDuringAWait) {
  constexpr auto recipe = 300us;
  start(8);
  learn(recipe);
  forward(recipe);
  auto const from = device_->now();
  backward();
  EXPECT_EQ(count(reason::recomputed_ahead), 1U);
  EXPECT_EQ(session_->stats().recomputed_ahead_us, 300);
  EXPECT_EQ(asked_.size(), 1U) << "once, and not again when it is needed";
  EXPECT_EQ(seen_["use 1"], all('r'));
  EXPECT_EQ(began("use 2") - from, item_time) << "nobody waits for it";
  EXPECT_EQ(began("use 1") - began("use 2"), 10us);
}

TEST_F(Idle, OneThatWouldOutlastTheWaitDoesNot) {
  constexpr auto recipe = item_time;
  start(8);
  learn(recipe);
  forward(recipe);
  backward();
  EXPECT_EQ(count(reason::recomputed_ahead), 0U);
  EXPECT_EQ(session_->stats().recomputed_ahead_us, 0);
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(Idle, NorOneForWhichNoBytesAreFree) {
  constexpr auto recipe = 300us;
  start(4);
  learn(recipe);
  forward(recipe);
  auto const others = session_->allocate(2 * item_bytes, *compute_);
  auto const few = session_->stats().device;
  ASSERT_EQ(few.limit_bytes, few.now_bytes);
  backward();
  EXPECT_EQ(count(reason::recomputed_ahead), 0U);
  EXPECT_LE(session_->stats().device.peak_bytes, 4 * item_bytes);
}

TEST_F(Idle, AHintIsAsGoodAsAWait) {
  constexpr auto recipe = 300us;
  start(8);
  learn(recipe);
  forward(recipe);
  session_->idle_hint(1e6);
  EXPECT_EQ(count(reason::recomputed_ahead), 0U) << "in forward there is nothing to rebuild";
  use(key(3), "use 3");
  for (double const too_short_us : {0.0, 299.0, 349.0}) session_->idle_hint(too_short_us);
  EXPECT_EQ(count(reason::recomputed_ahead), 0U);
  session_->idle_hint(351);
  EXPECT_EQ(count(reason::recomputed_ahead), 1U);
  EXPECT_EQ(session_->state(key(1)), item_state::resident);
  session_->idle_hint(std::numeric_limits<double>::infinity());
  EXPECT_EQ(count(reason::recomputed_ahead), 1U) << "nothing else is left";
  use(key(2), "use 2");
  use(key(1), "use 1");
  use(key(0), "use 0");
  end();
  EXPECT_EQ(session_->stats().recomputed_ahead_us, 300);
  EXPECT_EQ(asked_.size(), 1U);
}

/// Item 0, which the recipe of another one reads, is written by a kernel that fails. In the order of need: 3 stays, 2
/// comes over the link, 1 was dropped or stays, 0 is lost.
class LostInput : public Runtime {
 protected:
  void start() {
    config settings;
    settings.run_ahead = 16;  // a host that waits for a segment's mark is told of what failed before it
    Runtime::start(8, settings);
  }

  /// `reader` has a recipe that reads item 0.
  void forward(std::uint32_t reader, placement_function choose) {
    begin(std::move(choose));
    save(key(3));
    for (std::uint32_t const s : {2U, 1U}) save_reader(s, reader);
    settle();
    save(key(0));
  }
  void save_reader(std::uint32_t segment, std::uint32_t reader) {
    save(key(segment), 0us, segment == reader ? rebuilding(recipe_time_, {key(0)}) : ferry::recipe{});
  }
  void learn(std::uint32_t reader) {
    forward(reader, [=](item_info const& item) {
      return item.key.segment == reader ? placement::recompute
             : item.key.segment == 2    ? placement::offload
                                        : placement::keep;
    });
    for (std::uint32_t s = 4; s-- > 0;) use(key(s), "use " + std::to_string(s));
    end();
    asked_.clear();
  }
  void lose_input() {
    EXPECT_THROW(compute_->synchronize(), stream_error);
    session_->release(key(3));
  }
  void expect_lost(std::uint32_t segment) {
    expect_error<stream_error>([&] { static_cast<void>(session_->restore(key(segment), *compute_)); }, "'make'");
  }

  nanoseconds recipe_time_ = 300us;
};

TEST_F(LostInput, NothingIsRebuiltAheadFromIt) {
  start();
  learn(1);
  device_->fail({.name = "make", .nth = 4});
  forward(1, [](item_info const& item) {
    return item.key.segment == 1 ? placement::recompute : item.key.segment == 2 ? placement::offload : placement::keep;
  });
  ASSERT_EQ(session_->state(key(1)), item_state::dropped);
  ASSERT_EQ(session_->state(key(2)), item_state::hosted);
  lose_input();
  use(key(2), "use 2");  // who waits for it has nothing to do with what was lost
  compute_->synchronize();
  session_->idle_hint(1e6);
  EXPECT_EQ(seen_["use 2"], all('m'));
  EXPECT_TRUE(asked_.empty());
  expect_lost(1);
  expect_lost(0);
}

TEST_F(LostInput, WhatIsOnTheHostComesFromThere) {
  start();
  learn(2);
  device_->fail({.name = "make", .nth = 4});
  forward(2, [](item_info const& item) { return item.key.segment == 2 ? placement::offload : placement::keep; });
  ASSERT_EQ(session_->state(key(2)), item_state::hosted);
  lose_input();
  use(key(2), "use 2");  // its recipe would be sooner
  compute_->synchronize();
  EXPECT_EQ(seen_["use 2"], all('m'));
  EXPECT_TRUE(asked_.empty());
  expect_lost(0);
}

TEST_F(LostInput, WhatTheLinkIsBringingIsReadWhereTheLinkWritesIt) {
  recipe_time_ = item_time;
  start();
  learn(2);
  device_->fail({.name = "make", .nth = 4});
  forward(2, [](item_info const& item) { return item.key.segment == 2 ? placement::offload : placement::keep; });
  ASSERT_EQ(session_->state(key(2)), item_state::hosted);
  lose_input();
  // The link gets stuck in the last chunks, which cannot be called off: its recipe would now be sooner, into other
  // bytes.
  stall(sim_engine::host_to_device, device_->now() + item_time - 150us, device_->now() + 20ms);
  use(key(2), "use 2");
  compute_->synchronize();
  EXPECT_EQ(seen_["use 2"], all('m'));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(Idle, AHintThatMakesNoSenseIsRefused) {
  start(8);
  expect_error<error>([&] { session_->idle_hint(10); }, "idle_hint", "begin_step");
  learn(300us);
  forward(300us);
  use(key(3), "use 3");
  for (double const us : {-1.0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    expect_error<invalid_argument>([&] { session_->idle_hint(us); }, "idle_hint", "microseconds");
  }
  EXPECT_EQ(count(reason::recomputed_ahead), 0U);
  use(key(2), "use 2");
  end();
}

TEST_F(Idle, AHintBeforeAnythingWasCalledDoesNothing) {
  start(8);
  begin(choose);
  session_->idle_hint(1000);
  end();
}

}  // namespace
}  // namespace ferry::testing
