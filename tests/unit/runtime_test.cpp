// Waiting or recomputing, decided on the sim device: every time is known to the nanosecond, so each decision can be put
// on either side of the rule. Memory is real here: what a consumer reads says how it came back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr std::size_t chunks = 16;
constexpr std::size_t chunk_bytes = 64 << 10;
constexpr std::size_t item_bytes = chunks * chunk_bytes;
constexpr auto chunk_time = 100us;
constexpr auto item_time = chunks * chunk_time;
constexpr auto tolerance = 50us;
constexpr nanoseconds never = sim_slow_down::never;

constexpr auto made = std::byte{0x11};
constexpr auto rebuilt = std::byte{0x22};

item_key key(std::uint32_t segment, label const& name = "h") { return {0, segment, name}; }

/// A session whose items take 1600 us over the link in 16 chunks, without latency.
class Runtime : public ::testing::Test {
 protected:
  void start(std::size_t budget_items, config settings = {}) {
    sim_device_options options;
    options.device_bytes = options.pinned_bytes = std::size_t{64} << 20;
    options.backed = true;
    double const gbps = static_cast<double>(chunk_bytes) / static_cast<double>(nanoseconds(chunk_time).count());
    options.device_to_host = options.host_to_device = {.gbps = gbps, .latency_us = 0};
    options.kernel_cost = [this](label const&, auto) { return cost_; };
    options.observe = [this](sim_operation const& over) {
      if (over.where == sim_engine::compute) began_[over.name.str()] = over.start;
    };
    device_ = make_sim_device(std::move(options));
    compute_.emplace(*device_, stream_kind::compute, "compute");
    settings.policy.kind = policy_kind::offload;
    settings.budget = byte_amount::exactly(budget_items * item_bytes);
    settings.host_budget = byte_amount::exactly(32 * item_bytes);
    settings.chunk_bytes = chunk_bytes;
    settings.stall_tolerance_us = std::chrono::duration<double, std::micro>(tolerance).count();
    settings.log = log_level::off;
    session_.emplace(*device_, settings);
  }
  void TearDown() override {
    session_.reset();
    compute_.reset();
  }

  void launch(
      label const& name, nanoseconds cost, unique_function<void()> what = [] {}) {
    cost_ = cost;
    device_->launch(*compute_, name, {}, std::move(what));
  }

  void save(item_key const& which, nanoseconds cost = 0us, recipe how = {}) {
    auto memory = session_->allocate(item_bytes, *compute_);
    launch("make", cost, [at = memory.as<std::byte>()] { std::fill_n(at, item_bytes, made); });
    session_->save(which, std::move(memory), *compute_, std::move(how)).end();
  }

  /// Takes its share of `cost` for the rows that it is asked for, and marks them.
  recipe rebuilding(nanoseconds cost, item_list inputs = {}, std::size_t rows = 1) {
    return {.enqueue =
                [this, cost, rows](recipe_context const& to) {
                  asked_.emplace_back(to.first_row, to.rows);
                  auto* const from = to.output_as<std::byte>() + to.first_row * (to.bytes / rows);
                  std::size_t const bytes = to.rows * (to.bytes / rows);
                  launch("rebuild", cost * to.rows / rows, [=] { std::fill_n(from, bytes, rebuilt); });
                },
            .inputs = inputs,
            .rows = rows};
  }

  /// A kernel that reads the item, and notes for each chunk of it where it came from.
  void read(lease const& held, std::string const& name, nanoseconds cost) {
    launch(label(name), cost, [this, name, at = held.as<std::byte>()] {
      std::string& seen = seen_[name];
      seen.clear();
      for (std::size_t c = 0; c < chunks; ++c) {
        auto const* const from = at + c * chunk_bytes;
        bool const whole = std::all_of(from, from + chunk_bytes, [=](std::byte b) { return b == *from; });
        seen += !whole ? '?' : *from == made ? 'm' : *from == rebuilt ? 'r' : '?';
      }
    });
  }
  /// Restores, reads and releases.
  void use(item_key const& which, std::string const& name, nanoseconds cost = 10us) {
    auto const held = session_->restore(which, *compute_);
    read(held, name, cost);
    session_->release(which);
  }

  void let_pass(nanoseconds span) {
    auto const until = device_->now() + span;
    while (device_->now() < until) device_->pass_time(until - device_->now());
  }
  void begin(placement_function choose = nullptr) {
    if (choose) session_->set_placement(std::move(choose));
    session_->begin_step();
  }
  void end() {
    compute_->synchronize();
    session_->synchronize();
    session_->end_step();
    ++steps_;
  }
  /// Everything is where it is to be, and the device idle.
  void settle() {
    compute_->synchronize();
    session_->synchronize();
  }
  void stall(sim_engine what, nanoseconds from, nanoseconds until = never) {
    device_->slow_down({.what = what, .from = from, .until = until});
  }

  [[nodiscard]] std::uint64_t count(reason why) const { return session_->stats().count(why); }
  [[nodiscard]] nanoseconds began(std::string const& kernel) const { return began_.at(kernel); }

  std::vector<std::pair<std::size_t, std::size_t>> asked_;  // of recipes: the first row, and how many
  std::map<std::string, std::string> seen_;                 // by kernel: "mm...rr"
  std::map<std::string, nanoseconds> began_;
  nanoseconds cost_{0};
  int steps_ = 0;
  std::unique_ptr<sim_device> device_;
  std::optional<stream> compute_;
  std::optional<session> session_;
};

std::string all(char how) { return std::string(chunks, how); }

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
    static_cast<void>(session_->stats());  // takes in what has ended
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
