// Waiting for an item on its way back, or recomputing it; and links that stop for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/runtime_fixture.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Pair;

/// Segment 2 has 400 us of backward, during which the item of segment 1 comes back.
class LateItem : public Runtime {
 protected:
  static constexpr auto busy = 400us;

  /// One step in which recipes, link and computation are measured.
  void learn(nanoseconds recipe, std::size_t rows = 1) {
    step(recipe, rows, [](item_info const& item) {
      return item.key.segment == 2   ? placement::keep
             : item.key.segment == 1 ? placement::recompute
                                     : placement::offload;
    });
    ASSERT_EQ(count(reason::recomputed_by_plan), 1U);
    asked_.clear();
  }
  void forward(nanoseconds recipe, std::size_t rows = 1) {
    save(key(0));
    save(key(1), 0us, rebuilding(recipe, {}, rows));
    save(key(2));
    settle();
  }
  void step(nanoseconds recipe, std::size_t rows, placement_function choose) {
    begin(std::move(choose));
    forward(recipe, rows);
    backward();
    end();
  }
  void backward() {
    auto held = session_->restore(key(2), *compute_);
    t0_ = device_->now();
    read(held, "use 2", busy);
    held.end();
    session_->release(key(2));
    use(key(1), "use 1");
    use(key(0), "use 0");
  }
  /// The step in which the item is on the host; `before_backward` may arrange something.
  void ferried_step(
      nanoseconds recipe, std::size_t rows = 1, std::function<void()> const& before_backward = [] {}) {
    begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
    forward(recipe, rows);
    before_backward();
    backward();
    end();
  }
  /// The beginning of such a step, up to where the item is needed; the link stands still from `after` on, until what is
  /// returned.
  nanoseconds begin_and_get_stuck(nanoseconds recipe, nanoseconds after) {
    begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
    forward(recipe);
    auto const until = device_->now() + 20ms;
    stall(sim_engine::host_to_device, device_->now() + after, until);
    use(key(2), "use 2", busy);
    return until;
  }
  [[nodiscard]] nanoseconds waited_until() const { return began("use 1") - t0_; }

  nanoseconds t0_{0};
};

TEST_F(LateItem, IsRebuiltIfThatIsSoonerByMoreThanTheTolerance) {
  // The transfer takes 1600 us, of which compute is busy for 400: it would stand still for 1200.
  constexpr auto recipe = item_time - busy - tolerance - 1us;
  start(8);
  learn(recipe);
  ferried_step(recipe);
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 1U);
  EXPECT_EQ(waited_until(), busy + recipe);
  EXPECT_EQ(seen_["use 1"], all('r'));
  EXPECT_EQ(session_->stats().host_to_device.abandoned, 1U);
}

TEST_F(LateItem, IsWaitedForIfItArrivesWithinTheTolerance) {
  constexpr auto recipe = item_time - busy - tolerance + 1us;
  start(8);
  learn(recipe);
  double const exposed_us = session_->stats().exposed_us;
  ferried_step(recipe);
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 0U);
  EXPECT_EQ(count(reason::restored_from_host), 3U);  // and the item of segment 0, in both steps
  EXPECT_EQ(waited_until(), item_time);
  EXPECT_EQ(seen_["use 1"], all('m'));
  EXPECT_EQ(session_->stats().host_to_device.abandoned, 0U);
  // And 1590 us for the item of segment 0, whose transfer follows.
  EXPECT_NEAR(session_->stats().exposed_us - exposed_us, 1200 + 1590, 1e-6);
}

TEST_F(LateItem, TheToleranceIsASetting) {
  constexpr auto recipe = 100us;
  config settings;
  start(8, settings);
  auto const with_tolerance = [&](double us) {
    config another = session_->settings();
    another.stall_tolerance_us = us;
    session_.reset();
    session_.emplace(*device_, another);
    learn(recipe);
    ferried_step(recipe);
    return count(reason::recomputed_sooner_than_transfer);
  };
  EXPECT_EQ(with_tolerance(1099), 1U);
  EXPECT_EQ(with_tolerance(1101), 0U);
  EXPECT_EQ(with_tolerance(1e9), 0U);
  EXPECT_EQ(with_tolerance(0), 1U);
}

TEST_F(LateItem, ThatNobodyHasSentForIsWeighedTheSame) {
  // No bytes are free before segment 2 is through, so nothing is fetched ahead.
  for (bool const sooner : {true, false}) {
    constexpr auto limit = item_time - tolerance;
    auto const recipe = sooner ? limit - 1us : limit + 1us;
    start(8);
    learn(recipe);
    begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
    forward(recipe);
    t0_ = device_->now();
    use(key(1), "use 1");  // the first of backward
    EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), sooner ? 1U : 0U);
    use(key(2), "use 2");
    use(key(0), "use 0");
    end();
    EXPECT_EQ(waited_until(), sooner ? recipe : item_time);
    TearDown();
  }
}

TEST_F(LateItem, WithoutATimeForItsRecipeIsWaitedFor) {
  start(8);
  // The recipe never ran: nothing is known of it.
  for (int i = 0; i < 2; ++i) ferried_step(1us);
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 0U);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LateItem, IsDecidedAnewWhenTheLinkStandsStill) {
  constexpr auto recipe = 1300us;
  start(8);
  learn(recipe);
  nanoseconds stalled{0};
  ferried_step(recipe, 1, [&] {
    stalled = device_->now() + 500us;
    stall(sim_engine::host_to_device, stalled, stalled + 20ms);
  });
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 1U);
  EXPECT_EQ(seen_["use 1"], all('r'));
  // Five chunks have arrived when it stops, ten more would take 1000 us. By 550 us later it has stood still for 350
  // more than twice a chunk's time, and so is expected to for as long again: 1350 us, the recipe and the tolerance.
  // Then it is a matter of the next look.
  constexpr auto decided = 500us + 550us;
  EXPECT_GT(waited_until(), decided + recipe);
  EXPECT_LE(waited_until(), decided + recipe + recipe / 20 + 1us);
}

TEST_F(LateItem, AStallThatEndsBeforeTheRecipeWouldIsWaitedFor) {
  constexpr auto recipe = 1300us;
  start(8);
  learn(recipe);
  ferried_step(recipe, 1, [&] {
    auto const from = device_->now() + 500us;
    stall(sim_engine::host_to_device, from, from + 400us);
  });
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 0U);
  EXPECT_EQ(waited_until(), item_time + 400us);
}

TEST_F(LateItem, IsWrittenElsewhereWhileAStuckChunkMayStillWriteItsBytes) {
  constexpr auto recipe = 300us;
  start(8);
  learn(recipe);
  auto const stalled_until = begin_and_get_stuck(recipe, 50us);
  auto held = session_->restore(key(1), *compute_);
  read(held, "use 1", 10us);
  compute_->synchronize();
  EXPECT_LT(device_->now(), stalled_until);
  EXPECT_EQ(seen_["use 1"], all('r'));
  // The chunks that were under way end after all, and have written nothing of it.
  let_pass(stalled_until - device_->now() + 1ms);
  read(held, "use 1 again", 10us);
  compute_->synchronize();
  EXPECT_EQ(seen_["use 1 again"], all('r'));
  held.end();
  session_->release(key(1));
  use(key(0), "use 0");
  end();
  EXPECT_EQ(seen_["use 0"], all('m'));
  EXPECT_EQ(session_->stats().device.now_bytes, 0U) << "the bytes that were left behind are back";
}

TEST_F(LateItem, WhoNeedsTheBytesThatItLeftBehindWaitsForThem) {
  constexpr auto recipe = 1300us;
  constexpr std::size_t budget_items = 8;
  start(budget_items);
  learn(recipe);
  // All chunks are with the link by then, so nothing is left to call off.
  auto const stalled_until = begin_and_get_stuck(recipe, item_time - 150us);
  auto held = session_->restore(key(1), *compute_);
  ASSERT_EQ(count(reason::recomputed_sooner_than_transfer), 1U);
  std::vector<block> others;
  for (std::size_t i = 1; i < budget_items; ++i) others.push_back(session_->allocate(item_bytes, *compute_));
  EXPECT_GE(device_->now(), stalled_until);
  EXPECT_EQ(session_->stats().device.now_bytes, budget_items * item_bytes);
  others.clear();
  held.end();
  session_->release(key(1));
  use(key(0), "use 0");
  end();
}

TEST_F(LateItem, ComesByTheLinkAfterAllIfTheRecipeThatWasToReplaceItRefuses) {
  constexpr auto recipe_time = 1300us;
  start(8);
  learn(recipe_time);
  begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
  save(key(0));
  save(key(1), 0us, {.enqueue = [](recipe_context const&) { throw std::runtime_error("not today"); }, .inputs = {}});
  save(key(2));
  settle();
  // All chunks are with the link when it gets stuck: nothing of the transfer can be called off.
  stall(sim_engine::host_to_device, device_->now() + item_time - 150us, device_->now() + 20ms);
  use(key(2), "use 2", busy);
  use(key(1), "use 1");
  use(key(0), "use 0");
  end();
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 0U);
  EXPECT_EQ(seen_["use 1"], all('m'));
  EXPECT_EQ(session_->stats().device.now_bytes, 0U);
}

TEST_F(LateItem, StaysWhereItIsForALeaseThatIsStillHeld) {
  constexpr auto recipe = 300us;
  config settings;
  settings.run_ahead = 8;  // the host does not wait for the lease's reader
  start(8, settings);
  learn(recipe);
  begin([](item_info const& item) { return item.key.segment < 2 ? placement::offload : placement::keep; });
  save(key(0));
  save(key(1), 0us, rebuilding(recipe, {key(5)}));
  save(key(2));
  settle();
  auto const until = device_->now() + 20ms;
  stall(sim_engine::host_to_device, device_->now() + item_time - 150us, until);
  use(key(2), "use 2", busy);
  // The recipe's input is not there, so this lease is for what the link will bring.
  auto const first = session_->restore(key(1), *compute_);
  read(first, "first", 10us);
  save(key(5));
  // Now the recipe would be sooner, but the address has been told.
  stream const other(*device_, stream_kind::compute, "other");
  auto second = session_->restore(key(1), other);
  EXPECT_EQ(first.data(), second.data());
  second.end();
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 0U);
  settle();
  EXPECT_EQ(seen_["first"], all('m'));
  EXPECT_GE(device_->now(), until);
}

TEST_F(LateItem, AStallOfTheLastChunkIsNotWaitedOut) {
  constexpr auto recipe = 1300us;
  start(8);
  learn(recipe);
  ferried_step(recipe, 1, [&] {
    auto const from = device_->now() + item_time - chunk_time / 2;
    stall(sim_engine::host_to_device, from, from + 100ms);
  });
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 1U);
  EXPECT_LE(waited_until(), item_time + 2 * (recipe + tolerance) + 2 * chunk_time);
}

TEST_F(LateItem, WithoutOtherBytesIsRebuiltBehindTheStuckChunk) {
  constexpr auto recipe = 300us;
  start(4);
  learn(recipe);
  auto const stalled_until = begin_and_get_stuck(recipe, 50us);
  auto const others = session_->allocate(3 * item_bytes - session_->stats().device.now_bytes + item_bytes, *compute_);
  EXPECT_EQ(session_->stats().device.now_bytes, 4 * item_bytes);
  auto held = session_->restore(key(1), *compute_);
  read(held, "use 1", 10us);
  compute_->synchronize();
  EXPECT_GT(device_->now(), stalled_until);
  EXPECT_EQ(seen_["use 1"], all('r')) << "what the chunks have written is written over";
  held.end();
  session_->release(key(1));
  use(key(0), "use 0");
  end();
}

TEST_F(LateItem, RowsThatHaveArrivedAreNotRebuilt) {
  // As many rows as chunks. Asked for at once: two chunks are under way, fourteen rows are missing.
  constexpr auto recipe = 1120us;
  start(8);
  learn(recipe, chunks);
  ferried_step(recipe, chunks);
  EXPECT_EQ(count(reason::recomputed_rows_still_missing), 1U);
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 0U);
  EXPECT_THAT(asked_, ElementsAre(Pair(2, 14)));
  EXPECT_EQ(seen_["use 1"], "mm" + std::string(14, 'r'));
  EXPECT_EQ(waited_until(), busy + recipe * 14 / 16);
}

TEST_F(LateItem, ARowThatArrivesInPartIsRebuilt) {
  // Four rows of four chunks each: the chunks under way are half of the first one.
  constexpr auto recipe = 1000us;
  start(8);
  learn(recipe, 4);
  ferried_step(recipe, 4);
  EXPECT_EQ(count(reason::recomputed_rows_still_missing), 0U);
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 1U);
  EXPECT_THAT(asked_, ElementsAre(Pair(0, 4)));
  EXPECT_EQ(seen_["use 1"], all('r'));
}

TEST_F(LateItem, TheRowsThatAreMissingAreWhatTheRecipeCosts) {
  // After 850 us eight chunks have arrived and two are under way for 150 us more. The whole recipe would take longer
  // than the link, the six missing rows do not: 150 + 450 us against 750.
  constexpr auto recipe = 1200us;
  start(8);
  learn(recipe, chunks);
  begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
  forward(recipe, chunks);
  use(key(2), "use 2", busy);
  auto const from = device_->now();
  let_pass(850us);
  use(key(1), "use 1");
  use(key(0), "use 0");
  end();
  EXPECT_THAT(asked_, ElementsAre(Pair(10, 6)));
  EXPECT_EQ(seen_["use 1"], std::string(10, 'm') + std::string(6, 'r'));
  EXPECT_EQ(began("use 1") - from, 1000us + 450us);
}

TEST_F(LateItem, ChunksThatAreStillComingAreWaitedForAndCount) {
  // As above, but with the two chunks the missing rows would be over no sooner than the link.
  constexpr auto recipe = 1500us;  // 150 + 562 us against 750, less the tolerance
  start(8);
  learn(recipe, chunks);
  begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
  forward(recipe, chunks);
  use(key(2), "use 2", busy);
  auto const from = device_->now();
  let_pass(850us);
  use(key(1), "use 1");
  use(key(0), "use 0");
  end();
  EXPECT_EQ(seen_["use 1"], all('m'));
  EXPECT_EQ(began("use 1") - from, item_time);
}

TEST_F(LateItem, WithChecksumsAPartIsNotTrusted) {
  constexpr auto recipe = 1120us;
  config settings;
  settings.verify = verify_mode::checksum;
  start(8, settings);
  learn(recipe, chunks);
  ferried_step(recipe, chunks);
  EXPECT_EQ(count(reason::recomputed_rows_still_missing), 0U);
  EXPECT_THAT(asked_, ElementsAre(Pair(0, chunks)));
  EXPECT_EQ(seen_["use 1"], all('r'));
}

TEST_F(Runtime, AnInputThatIsLateItselfCountsByItsOwnRecipe) {
  // Both are on the host. By the link the input would come after the item; by its own recipe it takes 50 us.
  constexpr auto recipe = 300us;
  constexpr auto input = 50us;
  constexpr auto busy = 400us;
  start(8);
  for (bool const learning : {true, false}) {
    begin([=](item_info const& item) {
      if (item.key.segment == 2) return placement::keep;
      return learning && item.has_recipe ? placement::recompute : placement::offload;
    });
    save(key(0, "probe"));
    save(key(0), 0us, rebuilding(input));
    save(key(1), 0us, rebuilding(recipe, {key(0)}));
    save(key(2));
    settle();
    use(key(2), "use 2", busy);
    use(key(1), "use 1");
    use(key(0), "use 0");
    use(key(0, "probe"), "use probe");
    end();
  }
  EXPECT_EQ(count(reason::recomputed_sooner_than_transfer), 2U);
  EXPECT_EQ(began("use 1") - began("use 2"), busy + input + recipe);
  EXPECT_EQ(began("use 0") - began("use 1"), 10us);
}

/// A link that stops for ever.
class DeadLink : public LateItem {};

TEST_F(DeadLink, WhatHasARecipeIsRebuilt) {
  start(8);
  learn(300us);
  for (int i = 0; i < 3; ++i) {
    begin([](item_info const& item) { return item.key.segment == 1 ? placement::offload : placement::keep; });
    save(key(0));
    save(key(1), 0us, rebuilding(300us));
    save(key(2));
    compute_->synchronize();
    let_pass(2ms);
    session_->idle_hint(0);  // takes in what has ended
    ASSERT_EQ(session_->state(key(1)), item_state::hosted);
    if (i == 0) stall(sim_engine::host_to_device, device_->now());
    backward();
    compute_->synchronize();
    EXPECT_EQ(seen_["use 1"], all('r'));
    EXPECT_EQ(waited_until(), busy + 300us) << "the link has not come back, and nobody waits for it";
    session_->end_step();
  }
}

TEST_F(DeadLink, WhatHasNoneIsADeadlockThatSaysSo) {
  start(8);
  learn(300us);
  begin([](item_info const& item) { return item.key.segment == 2 ? placement::keep : placement::offload; });
  forward(300us);
  stall(sim_engine::host_to_device, device_->now());
  use(key(2), "use 2", busy);
  use(key(1), "use 1");
  expect_error<deadlock_error>(
      [&] {
        use(key(0), "use 0");
        compute_->synchronize();
      },
      "stands still in the copy 'h' from host to device");
}

TEST_F(DeadLink, InForwardRecipesThatDoNotMakeRoomEnoughAreADeadlockToo) {
  start(4);
  begin([](item_info const& item) { return item.has_recipe ? placement::recompute : placement::offload; });
  save(key(0));
  save(key(1), 0us, rebuilding(300us));
  settle();
  for (std::uint32_t s = 2; s-- > 0;) use(key(s), "use " + std::to_string(s));
  end();
  begin([](item_info const& item) { return item.has_recipe ? placement::keep : placement::offload; });
  stall(sim_engine::device_to_host, device_->now());
  for (std::uint32_t s = 0; s < 3; ++s) save(key(s), 0us, s == 1 ? rebuilding(300us) : recipe{});
  // The recipe's item would free half of it.
  expect_error<deadlock_error>([&] { static_cast<void>(session_->allocate(3 * item_bytes, *compute_)); },
                               "stands still in the copy 'h' from device to host");
}

TEST_F(DeadLink, InForwardWhatHasARecipeIsDropped) {
  start(3);
  for (bool const dead : {false, true}) {
    begin([=](item_info const& item) { return !dead && item.has_recipe ? placement::recompute : placement::offload; });
    if (dead) stall(sim_engine::device_to_host, device_->now());
    for (std::uint32_t s = 0; s < 6; ++s) save(key(s), 100us, s == 0 ? recipe{} : rebuilding(300us));
    compute_->synchronize();
    for (std::uint32_t s = 6; s-- > 0;) use(key(s), "use " + std::to_string(s));
    compute_->synchronize();
    session_->end_step();
  }
  EXPECT_GT(count(reason::dropped_instead_of_waiting), 0U);
  for (std::uint32_t s = 1; s < 6; ++s) EXPECT_NE(seen_["use " + std::to_string(s)], "");
  EXPECT_EQ(seen_["use 0"], all('m')) << "its copy was called off, it had never left";
  EXPECT_LE(session_->stats().device.peak_bytes, 3 * item_bytes);
}

TEST_F(DeadLink, InForwardWithoutRecipesItIsADeadlock) {
  start(3);
  learn(300us);
  begin([](item_info const&) { return placement::offload; });
  stall(sim_engine::device_to_host, device_->now());
  expect_error<deadlock_error>(
      [&] {
        for (std::uint32_t s = 0; s < 6; ++s) save(key(s), 100us);
      },
      "stands still in the copy 'h' from device to host");
}

}  // namespace
}  // namespace ferry::testing
