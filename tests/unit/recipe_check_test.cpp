// FERRY_VERIFY=recipes: recipes run beside their items, on every device that holds bytes, and what differs is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/session_fixture.hpp"
#include "support/test_devices.hpp"

namespace ferry::testing {
namespace {

constexpr std::size_t checked_bytes = 64 << 10;
constexpr std::uint64_t round_steps = 4;  // that give every item its turn

item_key key(std::uint32_t segment, label const& name = "h") { return {0, segment, name}; }
std::byte value(std::uint32_t segment) { return static_cast<std::byte>(0x10 + segment); }

std::vector<device_factory> devices_with_bytes() {
  std::vector<device_factory> some;
  for (auto const& each : all_devices()) {
    if (each.name != "sim") some.push_back(each);
  }
  return some;
}

class RecipeChecks : public ::testing::TestWithParam<device_factory> {
 protected:
  void start(policy_kind policy, std::size_t budget_items, verify_mode verify = verify_mode::recipes,
             std::size_t pinned_items = 32) {
    session_.reset();
    stream_.reset();
    device_ = GetParam().make(4 << 20, 8 << 20);
    config settings;
    settings.policy.kind = policy;
    settings.budget = byte_amount::exactly(budget_items * checked_bytes);
    settings.host_budget = byte_amount::exactly(pinned_items * checked_bytes);
    settings.min_bytes = 0;
    settings.verify = verify;
    settings.log = log_;
    session_.emplace(*device_, settings);
    stream_.emplace(*device_, stream_kind::compute, "compute");
  }
  void TearDown() override {
    session_.reset();
    stream_.reset();
    if (auto* const host = dynamic_cast<host_device*>(device_.get())) {
      EXPECT_TRUE(order_violations(*host).empty()) << order_violations(*host).front();
    }
  }

  void fill(void* address, std::byte with, std::size_t bytes) {
    std::array const touched{writes(address, bytes)};
    device_->launch(*stream_, "fill", touched, [=] { std::fill_n(static_cast<std::byte*>(address), bytes, with); });
  }
  lease save(item_key const& named, std::byte with, recipe how = {}) {
    auto memory = session_->allocate(checked_bytes, *stream_);
    fill(memory.data(), with, checked_bytes);
    return session_->save(named, std::move(memory), *stream_, std::move(how));
  }
  /// Fills the item, and then does what else it is told to.
  recipe filling(
      std::byte with, item_list inputs = {}, std::function<void(recipe_context const&)> then = [](auto const&) {}) {
    recipe how;
    how.inputs = std::move(inputs);
    how.enqueue = [this, with, then](recipe_context const& to) {
      ++runs_;
      fill(to.output, with, to.bytes);
      then(to);
    };
    return how;
  }
  /// A recipe with one byte that is another.
  recipe wrong_at(std::size_t at, std::byte with) {
    return filling(with, {},
                   [this, at](recipe_context const& to) { fill(to.output_as<std::byte>() + at, std::byte{0xee}, 1); });
  }
  bool holds(void const* address, std::byte with, std::size_t bytes = checked_bytes) {
    bool same = false;
    std::array const touched{reads(address, bytes)};
    device_->launch(*stream_, "look", touched, [&, address, with, bytes] {
      auto const* const from = static_cast<std::byte const*>(address);
      same = std::all_of(from, from + bytes, [=](std::byte b) { return b == with; });
    });
    stream_->synchronize();
    return same;
  }
  void use(item_key const& named, std::byte with) {
    {
      auto const back = session_->restore(named, *stream_);
      EXPECT_TRUE(holds(back.data(), with)) << to_string(named);
    }
    session_->release(named);
  }
  /// A chain, each item made from the one before.
  void step(std::uint32_t segments) {
    session::step_scope step(*session_);
    for (std::uint32_t s = 0; s < segments; ++s) {
      save(key(s), value(s), filling(value(s), s > 0 ? item_list{key(s - 1)} : item_list{}));
    }
    for (std::uint32_t s = segments; s-- > 0;) use(key(s), value(s));
    step.end();
  }
  [[nodiscard]] recipe_check_stats checks() const {
    auto const found = session_->stats().recipe_checks;
    EXPECT_TRUE(found);
    return found.value_or(recipe_check_stats{});
  }
  [[nodiscard]] std::uint64_t left_out() const {
    auto const now = checks();
    return now.inputs_away + now.no_room + now.not_comparable;
  }

  int runs_ = 0;
  log_level log_ = log_level::off;
  std::unique_ptr<device> device_;
  std::optional<stream> stream_;
  std::optional<session> session_;
};

TEST_P(RecipeChecks, EveryItemHasItsTurn) {
  start(policy_kind::keep, 10);
  for (std::uint64_t const checked : {2, 4, 5, 6, 8}) {
    step(6);
    EXPECT_EQ(checks().checked, checked);
  }
  EXPECT_EQ(left_out(), 0U);
  EXPECT_EQ(runs_, 8);
  EXPECT_NE(session_->explain().find("FERRY_VERIFY=recipes: 8 times a recipe ran again and gave its item's bits\n"),
            std::string::npos)
      << session_->explain();
  EXPECT_EQ(session_->stats().recomputes, 0U);
}

TEST_P(RecipeChecks, OffRunsNothing) {
  for (auto const mode : {verify_mode::off, verify_mode::checksum}) {
    start(policy_kind::keep, 10, mode);
    for (int i = 0; i < 4; ++i) step(6);
    EXPECT_EQ(runs_, 0);
    EXPECT_FALSE(session_->stats().recipe_checks);
    EXPECT_EQ(session_->explain().find("FERRY_VERIFY"), std::string::npos);
  }
}

TEST_P(RecipeChecks, ItemsStayWhatTheyAreUnderEveryPolicy) {
  for (auto const policy : {policy_kind::offload, policy_kind::recompute, policy_kind::automatic, policy_kind::sqrt}) {
    for (auto const mode : {verify_mode::recipes, verify_mode::checksum_and_recipes}) {
      start(policy, 4, mode);
      for (int i = 0; i < 6; ++i) step(6);
      EXPECT_GT(checks().checked, 0U);
      EXPECT_LE(session_->stats().device.peak_bytes, 4 * checked_bytes);
    }
  }
}

TEST_P(RecipeChecks, ADifferenceIsNamed) {
  start(policy_kind::keep, 10);
  session_->begin_step();
  auto memory = session_->allocate(checked_bytes, *stream_);
  fill(memory.data(), value(3), checked_bytes);
  expect_error<recipe_error>([&] { session_->save(key(3), std::move(memory), *stream_, wrong_at(4097, value(3))); },
                             "the recipe of h (segment 3, micro-batch 0)",
                             "byte 4097 of 65536 is 0xee, the item has 0x13", "FERRY_VERIFY=recipes");
  EXPECT_TRUE(memory) << "a save that throws leaves the block to the caller";
  EXPECT_EQ(session_->state(key(3)), std::nullopt);
  session_->save(key(3), std::move(memory), *stream_, filling(value(3)));  // the session goes on
  use(key(3), value(3));
  session_->end_step();
  EXPECT_EQ(checks().checked, 1U);
}

TEST_P(RecipeChecks, WhicheverItemIsWrongIsFoundWithinARound) {
  for (std::uint32_t wrong = 0; wrong < 6; ++wrong) {
    start(policy_kind::keep, 10);
    std::string found;
    for (std::uint64_t i = 0; i < round_steps && found.empty(); ++i) {
      session::step_scope step(*session_);
      try {
        for (std::uint32_t s = 0; s < 6; ++s) {
          save(key(s), value(s), s == wrong ? wrong_at(7, value(s)) : filling(value(s)));
        }
        for (std::uint32_t s = 6; s-- > 0;) use(key(s), value(s));
        step.end();
      } catch (recipe_error const& problem) {
        found = problem.what();
      }
    }
    EXPECT_NE(found.find(to_string(key(wrong))), std::string::npos) << found;
  }
}

TEST_P(RecipeChecks, BytesThatARecipeLeavesOutAreFound) {
  start(policy_kind::keep, 10);
  session_->begin_step();
  recipe half;
  half.enqueue = [this](recipe_context const& to) { fill(to.output, value(0), to.bytes / 2); };
  expect_error<recipe_error>([&] { save(key(0), value(0), std::move(half)); }, "byte 32768 of 65536");
}

TEST_P(RecipeChecks, BytesThatNobodyWritesAreNoMistake) {
  start(policy_kind::keep, 10);
  session_->begin_step();
  // Two outputs of one operation in one block, with a gap between them.
  auto const write = [this](void* at) {
    fill(at, value(1), 1000);
    fill(static_cast<std::byte*>(at) + 1024, value(2), 500);
  };
  auto memory = session_->allocate(2000, *stream_);
  write(memory.data());
  recipe how;
  how.enqueue = [&](recipe_context const& to) { write(to.output); };
  session_->save(key(0), std::move(memory), *stream_, std::move(how));
  EXPECT_EQ(checks().checked, 1U);
}

TEST_P(RecipeChecks, ARecipeWithAStateOfItsOwnIsFound) {
  start(policy_kind::keep, 10);
  int runs = 0;
  auto const dropout = [&](recipe_context const& to) { fill(to.output, static_cast<std::byte>(++runs), to.bytes); };
  std::string found;
  for (int i = 0; i < 2 && found.empty(); ++i) {
    session::step_scope step(*session_);
    try {
      auto memory = session_->allocate(checked_bytes, *stream_);
      dropout({*stream_, memory.data(), checked_bytes, {}, 0, 1, nullptr});
      recipe how;
      how.enqueue = dropout;
      session_->save(key(1, "drop"), std::move(memory), *stream_, std::move(how));
    } catch (recipe_error const& problem) {
      found = problem.what();
    }
  }
  EXPECT_NE(found.find("drop (segment 1, micro-batch 0)"), std::string::npos);
  EXPECT_NE(found.find("byte 0 of 65536 is 0x02, the item has 0x01"), std::string::npos) << found;
}

TEST_P(RecipeChecks, RowsAreCheckedAloneToo) {
  start(policy_kind::keep, 10);
  std::vector<std::size_t> asked;
  enum class mistake : std::uint8_t { none, all_rows, wrong_row };
  auto const of_rows = [&](mistake made) {
    recipe how;
    how.rows = 16;
    how.enqueue = [&, made](recipe_context const& to) {
      asked.push_back(to.first_row);
      std::size_t const row = to.bytes / 16;
      std::size_t const first = made == mistake::all_rows ? 0 : to.first_row;
      fill(to.output_as<std::byte>() + first * row, value(0), (16 - first) * row);
      if (made == mistake::wrong_row && to.first_row > 0) fill(to.output_as<std::byte>() + 9 * row, std::byte{1}, 1);
    };
    return how;
  };
  session_->begin_step();
  save(key(0), value(0), of_rows(mistake::none));
  EXPECT_EQ(asked, (std::vector<std::size_t>{8, 0}));
  EXPECT_EQ(checks().checked, 1U);
  session_->abandon_step();
  for (std::uint32_t s = 1; s < 4; ++s) {  // those have their turn later
    session_->begin_step();
    session_->abandon_step();
  }
  session_->begin_step();
  expect_error<recipe_error>([&] { save(key(0), value(0), of_rows(mistake::all_rows)); }, "byte 0 of 65536",
                             "before row 8 of 16");
  expect_error<recipe_error>([&] { save(key(0), value(0), of_rows(mistake::wrong_row)); }, "byte 36864 of 65536",
                             "rows from 8 on");
}

TEST_P(RecipeChecks, RecipesHaveTheirScratchMemory) {
  start(policy_kind::keep, 4);
  recipe how;
  how.scratch_bytes = checked_bytes;
  how.enqueue = [this](recipe_context const& to) {
    ++runs_;
    ASSERT_NE(to.scratch, nullptr);
    fill(to.scratch, std::byte{1}, checked_bytes);
    fill(to.output, value(0), to.bytes);
  };
  session_->begin_step();
  save(key(0), value(0), std::move(how));
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(checks().checked, 1U);
  use(key(0), value(0));
  session_->end_step();
}

TEST_P(RecipeChecks, WhereThereIsNoRoomAtSaveThereMayBeAtRestore) {
  start(policy_kind::keep, 3);
  session_->begin_step();
  save(key(0), value(0));
  save(key(1), value(1));
  save(key(2), value(2), filling(value(2), {key(1)}));
  EXPECT_EQ(runs_, 0);
  use(key(0), value(0));
  use(key(2), value(2));
  EXPECT_EQ(runs_, 1);
  session_->end_step();
  EXPECT_EQ(checks().checked, 1U);
  EXPECT_EQ(left_out(), 0U);
}

TEST_P(RecipeChecks, ADifferenceIsFoundAtRestoreToo) {
  start(policy_kind::keep, 3);
  session_->begin_step();
  save(key(0), value(0));
  save(key(1), value(1));
  save(key(2), value(2), wrong_at(1, value(2)));
  EXPECT_EQ(runs_, 0) << "no room";
  session_->release(key(0));
  expect_error<recipe_error>([&] { static_cast<void>(session_->restore(key(2), *stream_)); }, to_string(key(2)),
                             "byte 1 of 65536");
  EXPECT_EQ(session_->state(key(2)), item_state::resident) << "nothing was lost";
  session_->abandon_step();
  EXPECT_EQ(session_->stats().device.now_bytes, 0U);
}

TEST_P(RecipeChecks, WhatCouldNotBeCheckedIsCounted) {
  log_ = log_level::warning;
  start(policy_kind::offload, 3);
  auto const no_room = [&] {
    session::step_scope step(*session_);
    auto memory = session_->allocate(2 * checked_bytes, *stream_);
    fill(memory.data(), value(0), 2 * checked_bytes);
    auto const held = session_->save(key(0), std::move(memory), *stream_, wrong_at(0, value(0)));
    EXPECT_TRUE(holds(held.data(), value(0), 2 * checked_bytes));
    { auto const back = session_->restore(key(0), *stream_); }
    session_->release(key(0));
    step.end();
  };
  no_room();
  EXPECT_EQ(checks().no_room, 1U);
  no_room();
  EXPECT_EQ(checks().no_room, 2U) << "its turn lasts until it could be checked";
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(checks().checked, 0U);
  auto const said = "FERRY_VERIFY=recipes has checked no recipe: 2 times there was no room beside its item";
  EXPECT_NE(session_->explain().find(said), std::string::npos) << session_->explain();
  ::testing::internal::CaptureStderr();
  session_.reset();
  auto const logged = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find(said), std::string::npos) << logged;
}

TEST_P(RecipeChecks, AnItemIsNotComparedWithWhatItsRecipeMade) {
  start(policy_kind::keep, 8);
  session_->set_placement(
      [](item_info const& item) { return item.key.segment == 0 ? placement::offload : placement::recompute; });
  session_->begin_step();
  save(key(0), value(0));
  session_->synchronize();
  ASSERT_EQ(session_->state(key(0)), item_state::hosted);
  save(key(1), value(1), filling(value(1), {key(0)}));
  ASSERT_EQ(session_->state(key(1)), item_state::dropped);
  use(key(1), value(1));
  use(key(0), value(0));
  session_->end_step();
  EXPECT_EQ(runs_, 1) << "the one that was needed";
  EXPECT_EQ(checks().checked, 0U);
  EXPECT_EQ(checks().inputs_away, 1U);
}

TEST_P(RecipeChecks, AdoptedMemoryIsCheckedBesideItself) {
  start(policy_kind::keep, 6);
  memory const own(*device_, memory_space::device, checked_bytes);
  fill(own.data(), value(0), checked_bytes);
  session_->begin_step();
  device_view const view{own.data(), checked_bytes};
  EXPECT_THROW(session_->save(key(0), view, *stream_, {}, wrong_at(9, value(0))), recipe_error);
  EXPECT_TRUE(holds(own.data(), value(0)));
  EXPECT_EQ(session_->stats().adopted_bytes, 0U);
  session_->save(key(0), view, *stream_, {}, filling(value(0)));
  EXPECT_EQ(checks().checked, 1U);
  use(key(0), value(0));
  session_->end_step();
  session_.reset();
}

/// An item in two pieces, whose recipe writes both where they are.
class ChecksInPlace : public RecipeChecks {
 protected:
  void start_in_place(policy_kind policy, std::size_t budget_items) {
    session_.reset();
    own_ = {};
    start(policy, budget_items);
    own_ = memory(*device_, memory_space::device, 4 * part);
  }
  void TearDown() override {
    session_.reset();
    own_ = {};
    RecipeChecks::TearDown();
  }
  std::array<device_view, 2> pieces() {
    return {device_view{own_.data(), part}, device_view{own_.as<std::byte>() + 2 * part, part}};
  }
  /// Of the two outputs of one operation, the second one with another byte if asked.
  recipe writing_both(bool wrong) {
    recipe how;
    how.enqueue = [this, wrong](recipe_context const& to) {
      ++runs_;
      EXPECT_EQ(to.output, pieces()[0].address);
      EXPECT_EQ(to.bytes, 2 * part);
      fill(pieces()[0].address, value(1), part);
      fill(pieces()[1].address, value(2), part);
      if (wrong) fill(static_cast<std::byte*>(pieces()[1].address) + 20, std::byte{0xee}, 1);
    };
    return how;
  }
  void save_both(recipe how) {
    auto const at = pieces();
    auto both = session_->allocate_at(at, *stream_);
    fill(at[0].address, value(1), part);
    fill(at[1].address, value(2), part);
    session_->save(key(0), std::move(both), *stream_, std::move(how));
  }
  bool hold_both() { return holds(pieces()[0].address, value(1), part) && holds(pieces()[1].address, value(2), part); }
  static constexpr std::size_t part = 10'000;
  memory own_;
};

TEST_P(ChecksInPlace, TwoOutputsOfOneRecipeAreCheckedWhereTheyAre) {
  for (auto const policy : {policy_kind::keep, policy_kind::offload, policy_kind::recompute}) {
    start_in_place(policy, 1);
    runs_ = 0;
    session_->begin_step();
    save_both(writing_both(false));
    EXPECT_EQ(runs_, 1);
    EXPECT_EQ(checks().checked, 1U) << "nothing has to be free beside it";
    {
      auto const back = session_->restore(key(0), *stream_);
      EXPECT_TRUE(hold_both());
    }
    session_->release(key(0));
    session_->end_step();
    TearDown();
  }
}

TEST_P(ChecksInPlace, ADifferenceNamesThePieceAndLeavesTheItemAsItWas) {
  start_in_place(policy_kind::keep, 1);
  session_->begin_step();
  expect_error<recipe_error>([&] { save_both(writing_both(true)); }, "h (segment 0, micro-batch 0)",
                             "byte 10020 of 20000 (byte 20 of its piece 2) is 0xee, the item has 0x12");
  EXPECT_TRUE(hold_both());
  save_both(writing_both(false));
  session_->abandon_step();
}

TEST_P(ChecksInPlace, ARecipeThatThrowsHalfwayLeavesTheItemAsItWas) {
  start_in_place(policy_kind::keep, 1);
  session_->begin_step();
  recipe how;
  how.enqueue = [this](recipe_context const&) {
    fill(pieces()[0].address, std::byte{0xee}, part);
    throw std::runtime_error("no random state");
  };
  expect_error<recipe_error>([&] { save_both(std::move(how)); }, "h (segment 0", "no random state");
  EXPECT_TRUE(hold_both());
  session_->abandon_step();
}

TEST_P(ChecksInPlace, AtRestoreIfTheInputWasAwayBefore) {
  for (bool const wrong : {false, true}) {
    start_in_place(policy_kind::keep, 4);
    session_->set_placement([](item_info const&) { return placement::offload; });
    session_->begin_step();
    save(key(1), value(1));
    session_->synchronize();
    ASSERT_EQ(session_->state(key(1)), item_state::hosted);
    recipe how = writing_both(wrong);
    how.inputs = {key(1)};
    runs_ = 0;
    save_both(std::move(how));
    session_->synchronize();
    EXPECT_EQ(runs_, 0);
    auto const input = session_->restore(key(1), *stream_);
    auto const get = [&] { auto const back = session_->restore(key(0), *stream_); };
    if (wrong) {
      EXPECT_THROW(get(), recipe_error);
    } else {
      get();
      EXPECT_EQ(checks().checked, 1U);
    }
    EXPECT_EQ(runs_, 1);
    EXPECT_TRUE(hold_both());
    session_->abandon_step();
  }
}

TEST_P(RecipeChecks, AKernelThatFailsInARecipeIsTheRecipesFailure) {
  start(policy_kind::keep, 4);
  session_->begin_step();
  recipe how;
  how.enqueue = [this](recipe_context const& to) {
    device_->launch(to.stream, "layer norm", {}, [] { throw std::runtime_error("not a number"); });
  };
  expect_error<recipe_error>([&] { save(key(0), value(0), std::move(how)); }, "h (segment 0", "layer norm",
                             "not a number");
  save(key(0), value(0), filling(value(0)));
  use(key(0), value(0));
  session_->end_step();
}

TEST_P(RecipeChecks, EvaluationsAreNotChecked) {
  start(policy_kind::keep, 4);
  session::step_scope step(*session_, step_kind::evaluate);
  save(key(0), value(0), wrong_at(0, value(0)));
  step.end();
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(left_out(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Devices, RecipeChecks, ::testing::ValuesIn(devices_with_bytes()),
                         [](auto const& with) { return with.param.name; });
INSTANTIATE_TEST_SUITE_P(Devices, ChecksInPlace, ::testing::ValuesIn(devices_with_bytes()),
                         [](auto const& with) { return with.param.name; });

TEST(RecipeChecksWithoutBytes, SaySo) {
  auto const device = make_sim_device({.device_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  config settings;
  settings.budget = byte_amount::exactly(4 * checked_bytes);
  settings.host_budget = byte_amount::exactly(4 * checked_bytes);
  settings.policy.kind = policy_kind::keep;
  settings.log = log_level::off;
  settings.set("FERRY_VERIFY", "recipes");
  session on(*device, settings);
  stream const compute(*device, stream_kind::compute, "compute");
  on.begin_step();
  recipe how;
  how.enqueue = [](recipe_context const&) { ADD_FAILURE() << "there is nothing to compare"; };
  on.save(key(0), on.allocate(checked_bytes, compute), compute, std::move(how));
  on.restore(key(0), compute).end();
  on.end_step();
  EXPECT_EQ(on.stats().recipe_checks->not_comparable, 1U);
  EXPECT_NE(on.explain().find("FERRY_VERIFY had no effect: no recipe could be checked"), std::string::npos)
      << on.explain();
}

}  // namespace
}  // namespace ferry::testing
