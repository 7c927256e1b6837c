// The path of an activation, stage by stage: where items are after each call, and what is counted.
#include "support/session_fixture.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/gate.hpp"

namespace ferry::testing {
namespace {

class Session : public SessionTest {
 protected:
  item_state state(item_key const& key) const { return session_->state(key).value_or(item_state::released); }
  std::uint64_t count(reason why) const { return session_->stats().count(why); }

  /// Saves a chain of `segments` items, each rebuilt from the one before, then asks for them in reverse.
  void run_chain(std::uint32_t segments, std::uint32_t micro_batch = 0) {
    save_chain(segments, micro_batch);
    for (std::uint32_t s = segments; s-- > 0;) restore_and_release({micro_batch, s, "h"}, std::byte(s));
  }
  void save_chain(std::uint32_t segments, std::uint32_t micro_batch = 0) {
    for (std::uint32_t s = 0; s < segments; ++s) {
      recipe how;
      if (s > 0) how = adding(std::byte{1}, {{micro_batch, s - 1, "h"}});
      save_filled({micro_batch, s, "h"}, std::byte(s), std::move(how));
    }
  }
};

TEST_F(Session, KeepsWhatFits) {
  start(policy_kind::keep, 8);
  session_->begin_step();
  save_chain(8);
  EXPECT_EQ(state({0, 3, "h"}), item_state::resident);
  EXPECT_EQ(session_->stats().device.now_bytes, 8 * item_bytes);
  for (std::uint32_t s = 8; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
  session_->end_step();
  auto const stats = session_->stats();
  EXPECT_EQ(stats.device.now_bytes, 0);
  EXPECT_EQ(stats.device.peak_bytes, 8 * item_bytes);
  EXPECT_EQ(stats.device_to_host.bytes + stats.host_to_device.bytes, 0);
  EXPECT_EQ(stats.recomputes, 0);
}

TEST_F(Session, OffloadsAndBringsBack) {
  start(policy_kind::offload, 4);
  session_->begin_step();
  save_chain(16);
  session_->synchronize();
  for (std::uint32_t s = 0; s < 16; ++s) EXPECT_EQ(state({0, s, "h"}), item_state::hosted);
  EXPECT_EQ(session_->stats().device.now_bytes, 0);
  EXPECT_EQ(session_->stats().pinned.now_bytes, 16 * item_bytes);
  for (std::uint32_t s = 16; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
  session_->end_step();
  session_->synchronize();
  auto const stats = session_->stats();
  EXPECT_EQ(stats.pinned.now_bytes, 0);
  EXPECT_LE(stats.device.peak_bytes, 4 * item_bytes);
  EXPECT_EQ(stats.device_to_host.bytes, 16 * item_bytes);
  EXPECT_EQ(stats.device_to_host.chunks, 16 * item_bytes / (16 << 10));
  EXPECT_EQ(stats.recomputes, 0);
}

TEST_F(Session, DropsAndRebuildsAChain) {
  start(policy_kind::recompute, 4);
  drop_everything();
  session_->begin_step();
  save_chain(12);
  EXPECT_EQ(state({0, 0, "h"}), item_state::resident) << "nothing can rebuild it";
  EXPECT_EQ(state({0, 11, "h"}), item_state::dropped);
  for (std::uint32_t s = 12; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
  session_->end_step();
  EXPECT_EQ(count(reason::kept_no_recipe), 1);
  EXPECT_GE(session_->stats().recomputes, 11);
  EXPECT_LE(session_->stats().device.peak_bytes, 4 * item_bytes);
}

TEST_F(Session, RecomputeKeepsWhatItsSegmentCannotRebuild) {
  start(policy_kind::recompute, 16);
  session_->begin_step();
  save_filled({0, 0, "x"}, std::byte{1});
  save_filled({0, 0, "h"}, std::byte{2}, adding(std::byte{1}, {{0, 0, "x"}}));
  save_filled({0, 1, "x"}, std::byte{3}, adding(std::byte{1}, {{0, 0, "h"}}));
  save_filled({0, 1, "h"}, std::byte{4}, adding(std::byte{1}, {{0, 1, "x"}}));
  EXPECT_EQ(state({0, 0, "h"}), item_state::dropped);
  EXPECT_EQ(state({0, 1, "x"}), item_state::resident) << "the segment's input";
  EXPECT_EQ(state({0, 1, "h"}), item_state::dropped);
  restore_and_release({0, 1, "h"}, std::byte{4});
  session_->release({0, 1, "x"});
  restore_and_release({0, 0, "h"}, std::byte{2});
  session_->end_step();
  EXPECT_EQ(session_->stats().recomputes, 2);
}

TEST_F(Session, EveryKeepsBoundariesOfEveryNth) {
  config settings;
  settings.policy.every = 3;
  start(policy_kind::every, 16, 0, settings);
  session_->begin_step();
  save_chain(9);
  save_filled({0, 6, "inner"}, std::byte{7}, adding(std::byte{1}, {{0, 6, "h"}}));
  for (std::uint32_t s = 0; s < 9; ++s) {
    EXPECT_EQ(state({0, s, "h"}), s % 3 == 0 ? item_state::resident : item_state::dropped) << s;
  }
  EXPECT_EQ(state({0, 6, "inner"}), item_state::dropped) << "its recipe stays inside the segment";
  restore_and_release({0, 6, "inner"}, std::byte{7});
  for (std::uint32_t s = 9; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
}

TEST_F(Session, SqrtGrowsItsGapsUntilItKnowsTheLength) {
  start(policy_kind::sqrt, 32, 0);
  session_->begin_step();
  save_chain(16);
  for (std::uint32_t s = 0; s < 16; ++s) {
    bool const triangular = s == 0 || s == 1 || s == 3 || s == 6 || s == 10 || s == 15;
    EXPECT_EQ(state({0, s, "h"}), triangular ? item_state::resident : item_state::dropped) << s;
  }
  session_->end_step();
  session_->begin_step();
  save_chain(16);
  for (std::uint32_t s = 0; s < 16; ++s) {
    EXPECT_EQ(state({0, s, "h"}), s % 4 == 0 ? item_state::resident : item_state::dropped) << s;
  }
}

TEST_F(Session, SelectiveMeasuresOneStepThenFillsTheBudget) {
  start(policy_kind::selective, 6);
  auto const kept = [&] {
    session_->begin_step();
    save_chain(12);
    std::size_t const resident = session_->stats().device.now_bytes / item_bytes;
    for (std::uint32_t s = 12; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
    session_->end_step();
    return resident;
  };
  EXPECT_EQ(kept(), 1) << "only what nothing can rebuild";
  auto const chosen = kept();
  EXPECT_GT(chosen, 1);
  EXPECT_EQ(kept(), chosen);
}

TEST_F(Session, SmallItemsAreKept) {
  config settings;
  start(policy_kind::offload, 8, 64, settings);
  config small = session_->settings();
  small.min_bytes = item_bytes + 1;
  session_.emplace(*device_, small);
  session_->begin_step();
  save_chain(2);
  EXPECT_EQ(state({0, 0, "h"}), item_state::resident);
  EXPECT_EQ(count(reason::kept_below_min_bytes), 2);
}

TEST_F(Session, PlacementFunctionMixesAndKeepIsFirm) {
  start(policy_kind::offload, 6);
  session_->set_placement([](item_info const& item) {
    return std::array{placement::keep, placement::offload, placement::recompute}[item.key.segment % 3];
  });
  session_->begin_step();
  save_chain(6);
  session_->synchronize();
  EXPECT_EQ(state({0, 3, "h"}), item_state::resident);
  EXPECT_EQ(state({0, 4, "h"}), item_state::hosted);
  EXPECT_EQ(state({0, 5, "h"}), item_state::dropped);
  for (std::uint32_t s = 6; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
}

TEST_F(Session, PinnedMemoryFullFallsBackToTheRecipe) {
  start(policy_kind::offload, 4, 2);
  session_->begin_step();
  run_chain(10);
  EXPECT_GT(count(reason::dropped_pinned_full), 0);
  EXPECT_LE(session_->stats().pinned.peak_bytes, 2 * item_bytes);
}

TEST_F(Session, BytesInFlightAreBounded) {
  start(policy_kind::offload, 8);
  config settings = session_->settings();
  settings.max_in_flight = byte_amount::exactly(2 * item_bytes);
  session_.emplace(*device_, settings);
  session_->begin_step();
  run_chain(24);
  session_->end_step();
  auto const stats = session_->stats();
  EXPECT_LE(stats.in_flight.peak_bytes, 2 * item_bytes);
  EXPECT_GT(stats.count(reason::deferred_in_flight_full), 0);
}

TEST_F(Session, ALeaseKeepsItsBytes) {
  start(policy_kind::recompute, 3);
  session_->begin_step();
  auto x = save_filled({0, 0, "x"}, std::byte{1});
  {
    auto h = save_filled({0, 0, "h"}, std::byte{2}, adding(std::byte{1}, {{0, 0, "x"}}));
    EXPECT_EQ(state({0, 0, "h"}), item_state::resident) << "leased";
    expect(h.data(), std::byte{2});
  }
  EXPECT_EQ(state({0, 0, "h"}), item_state::dropped);
  auto again = session_->restore({0, 0, "h"}, *stream_);
  auto twice = session_->restore({0, 0, "h"}, *stream_);
  EXPECT_EQ(again.data(), twice.data());
  session_->release({0, 0, "h"});
  again.end();
  expect(twice.data(), std::byte{2});  // released, but leased
}

TEST_F(Session, SeveralStreamsMayRestoreOneItem) {
  start(policy_kind::offload, 4);
  stream const second(*device_, stream_kind::compute, "second");
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{5});
  session_->synchronize();
  auto a = session_->restore({0, 0, "h"}, *stream_);
  auto b = session_->restore({0, 0, "h"}, second);
  expect(a.data(), std::byte{5});
  std::array const accesses{reads(b.data(), item_bytes)};
  device_->launch(second, "read", accesses, [this, p = b.as<std::byte>()] { wrong_bytes += p[0] != std::byte{5}; });
  a.end();
  b.end();
  session_->release({0, 0, "h"});
  auto scratch = session_->allocate(4 * item_bytes, *stream_);  // reuses the bytes after both
  fill(scratch.data(), std::byte{9}, 4 * item_bytes);
}

TEST_F(Session, AdoptedMemoryIsReportedByAnEvent) {
  start(policy_kind::offload, 2);
  memory mine(*device_, memory_space::device, item_bytes);
  fill(mine.data(), std::byte{3});
  int told = 0;
  session_->begin_step();
  session_->save({0, 0, "h"}, {mine.data(), item_bytes}, *stream_, [&](event_ref done) {
    ++told;
    device_->wait(*stream_, done);
  });
  EXPECT_EQ(session_->stats().adopted_bytes + session_->stats().pinned.now_bytes >= item_bytes, true);
  session_->synchronize();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(session_->stats().adopted_bytes, 0);
  fill(mine.data(), std::byte{4});  // the trainer's again
  restore_and_release({0, 0, "h"}, std::byte{3});
  session_->end_step();
  EXPECT_EQ(told, 1);
  stream_->synchronize();
}

TEST_F(Session, MicroBatchesInterleave) {
  start(policy_kind::offload, 4);
  for (int step = 0; step < 3; ++step) {
    session_->begin_step();
    save_chain(6, 0);
    for (std::uint32_t mb = 0; mb < 4; ++mb) {  // one forward, one backward
      if (mb < 3) save_chain(6, mb + 1);
      for (std::uint32_t s = 6; s-- > 0;) restore_and_release({mb, s, "h"}, std::byte(s));
    }
    session_->end_step();
  }
  EXPECT_LE(session_->stats().device.peak_bytes, 4 * item_bytes);
}

TEST_F(Session, LearnsAnOrderThatIsNotReverse) {
  start(policy_kind::offload, 3);
  auto const step = [&] {
    session_->begin_step();
    for (std::uint32_t s = 0; s < 12; ++s) save_filled({0, s, "h"}, std::byte(s));
    session_->synchronize();
    for (std::uint32_t s = 0; s < 12; ++s) restore_and_release({0, s, "h"}, std::byte(s));
    session_->end_step();
    session_->synchronize();
  };
  step();
  auto const guessed = session_->stats().host_to_device;
  step();
  step();
  auto const learnt = session_->stats().host_to_device;
  // Guessing backwards from segment 0 finds nothing to prefetch; once learnt, nothing is fetched in vain.
  EXPECT_EQ(learnt.abandoned, guessed.abandoned);
  EXPECT_EQ(learnt.bytes, 3 * guessed.bytes);
}

TEST_F(Session, UnusedItemsAreDroppedAndCounted) {
  start(policy_kind::offload, 4);
  session_->begin_step();
  save_chain(5);
  restore_and_release({0, 4, "h"}, std::byte{4});
  session_->end_step();
  EXPECT_EQ(count(reason::unused_at_end_of_step), 4);
  session_->begin_step();
  run_chain(5);  // the keys are free again
  session_->end_step();
}

TEST_F(Session, TheHostStaysWithinItsRunAhead) {
  start(policy_kind::keep, 16);
  gate hold;
  gate second_saved;
  device_->launch(*stream_, "hold", {}, [&] { hold.wait(); });
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{0});  // one segment ahead is free
  std::thread opener([&] {
    EXPECT_FALSE(second_saved.wait_for(std::chrono::milliseconds(100))) << "the host ran two segments ahead";
    hold.open();
  });
  save_filled({0, 1, "h"}, std::byte{1});
  second_saved.open();
  opener.join();
  EXPECT_GT(session_->stats().run_ahead_us, 0);
  session_->end_step();
}

TEST_F(Session, ChecksumsOfARoundTripMatch) {
  config settings;
  settings.verify = verify_mode::checksum;
  start(policy_kind::offload, 2, 4, settings);
  session_->begin_step();
  run_chain(4);
  session_->end_step();
  EXPECT_EQ(session_->stats().device_to_host.failed + session_->stats().host_to_device.failed, 0);
}

TEST_F(Session, AFailedOffloadKeepsTheItem) {
  start(policy_kind::offload, 4);
  std::atomic<int> failures{1};
  before_operation = [&](label const& name) {
    if (name.view() == "h" && failures.fetch_sub(1) > 0) throw std::runtime_error("link down");
  };
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{7});
  session_->synchronize();
  EXPECT_EQ(state({0, 0, "h"}), item_state::resident);
  EXPECT_EQ(count(reason::kept_after_failed_offload), 1);
  restore_and_release({0, 0, "h"}, std::byte{7});
}

TEST_F(Session, AFailedPrefetchIsRepeatedOrRebuilt) {
  start(policy_kind::offload, 4);
  session_->begin_step();
  save_filled({0, 0, "h"}, std::byte{7});
  save_filled({0, 1, "h"}, std::byte{8}, adding(std::byte{8}, {}));
  session_->synchronize();
  std::atomic<int> failures{2};
  before_operation = [&](label const& name) {
    if (name.view() == "h" && failures.fetch_sub(1) > 0) throw std::runtime_error("link down");
  };
  for (std::uint32_t s : {1U, 0U}) {
    try {
      restore_and_release({0, s, "h"}, std::byte(7 + s));
      stream_->synchronize();
    } catch (error const&) {
      // The consumer was enqueued behind the copy that failed: the trainer learns of it and asks again.
      try {
        stream_->synchronize();
      } catch (stream_error const&) {
      }
      wrong_bytes = 0;
      if (session_->state({0, s, "h"})) restore_and_release({0, s, "h"}, std::byte(7 + s));
    }
  }
  EXPECT_GE(session_->stats().host_to_device.failed, 1);
}

TEST_F(Session, TakesTheRecipeWhenItIsSooner) {
  start(policy_kind::offload, 4, 64);
  // First the link and the recipe are measured, then the link slows down to a crawl.
  auto const step = [&](placement where) {
    session_->set_placement([=](item_info const& item) { return item.key.segment == 0 ? placement::keep : where; });
    session_->begin_step();
    save_chain(3);
    session_->synchronize();
    for (std::uint32_t s = 3; s-- > 0;) restore_and_release({0, s, "h"}, std::byte(s));
    stream_->synchronize();
    session_->end_step();
  };
  step(placement::recompute);
  device_->set_link(copy_direction::host_to_device, {.gbps = 0.001, .latency_us = 0});
  step(placement::offload);
  auto const before = count(reason::recomputed_sooner_than_transfer);
  step(placement::offload);
  EXPECT_GT(count(reason::recomputed_sooner_than_transfer), before);
}

TEST_F(Session, WritesItsStatisticsAsLinesOfJson) {
  auto const file = std::filesystem::temp_directory_path() / "ferry_session_stats_test.json";
  config settings;
  settings.stats_file = file.string();
  start(policy_kind::offload, 4, 16, settings);
  session_->begin_step();
  run_chain(6);
  session_->end_step();
  session_.reset();
  std::ifstream in(file);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  EXPECT_EQ(nlohmann::json::parse(line)["step"], 1);
  ASSERT_TRUE(std::getline(in, line));
  auto const json = nlohmann::json::parse(line);
  EXPECT_EQ(json["steps"], 1);
  EXPECT_EQ(json["saves"], 6);
  EXPECT_EQ(json["device"]["limit_bytes"], 4 * item_bytes);
  EXPECT_EQ(json["items"].size(), 6);
  std::filesystem::remove(file);
}

TEST_F(Session, BlocksAndLeasesMayOutliveIt) {
  start(policy_kind::offload, 4);
  session_->begin_step();
  auto scratch = session_->allocate(item_bytes, *stream_);
  auto held = save_filled({0, 0, "h"}, std::byte{1});
  session_.reset();
  fill(scratch.data(), std::byte{2});
  expect(held.data(), std::byte{1});
}

}  // namespace
}  // namespace ferry::testing
