// Items in memory of the trainer's own that keep their place, in several pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/gate.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class InPlace : public SessionTest {
 protected:
  static constexpr std::size_t part = item_bytes / 2;
  static constexpr std::uint32_t segments = 6;

  /// Of an item, apart from one another.
  std::array<device_view, 2> pieces(std::uint32_t segment, std::size_t bytes = part) {
    return {device_view{own_.data() + segment * part, bytes},
            device_view{own_.data() + (segments + segment) * part, bytes}};
  }
  static std::byte value(std::uint32_t segment) { return static_cast<std::byte>(segment + 1); }

  void save(std::uint32_t segment, recipe how = {}, std::size_t bytes = part) {
    auto const at = pieces(segment, bytes);
    auto memory = session_->allocate_at(at, *stream_);
    EXPECT_EQ(memory.data(), at[0].address);
    EXPECT_EQ(memory.bytes(), 2 * bytes);
    for (auto const& piece : at) fill(piece.address, value(segment), bytes);
    session_->save({0, segment, "h"}, std::move(memory), *stream_, std::move(how));
  }
  recipe filling(std::uint32_t segment) {
    recipe how;
    how.enqueue = [this, segment](recipe_context const& to) {
      EXPECT_EQ(to.output, pieces(segment)[0].address);
      for (auto const& piece : pieces(segment)) fill(piece.address, value(segment), part);
    };
    return how;
  }
  void check(std::uint32_t segment, std::size_t bytes = part) {
    auto const back = session_->restore({0, segment, "h"}, *stream_);
    EXPECT_EQ(back.data(), pieces(segment)[0].address) << "where it was";
    for (auto const& piece : pieces(segment, bytes)) expect(piece.address, value(segment), bytes);
  }
  void step(bool with_recipes, std::size_t bytes = part) {
    session::step_scope step(*session_);
    for (std::uint32_t s = 0; s < segments; ++s) save(s, with_recipes ? filling(s) : recipe(), bytes);
    for (std::uint32_t s = segments; s-- > 0;) {
      check(s, bytes);
      session_->release({0, s, "h"});
    }
    step.end();
  }

  std::vector<std::byte> own_ = std::vector<std::byte>(2 * segments * part);
};

TEST_F(InPlace, ItemsComeBackToWhereTheyWere) {
  for (auto const policy : {policy_kind::keep, policy_kind::offload, policy_kind::recompute, policy_kind::automatic}) {
    bool const all = policy == policy_kind::keep;
    config settings;
    settings.verify = verify_mode::checksum;
    start(policy, all ? segments : 3, 64, settings);
    for (int i = 0; i < 4; ++i) step(policy != policy_kind::offload);
    stream_->synchronize();
    auto const stats = session_->stats();
    EXPECT_LE(stats.device.peak_bytes, (all ? segments : 3) * item_bytes);
    EXPECT_EQ(stats.device.now_bytes, 0U);
    EXPECT_EQ(stats.adopted_bytes, 0U);
    if (policy == policy_kind::offload) {
      EXPECT_GT(stats.host_to_device.bytes, 0U);
    }
    TearDown();
  }
}

TEST_F(InPlace, ASmallerBatchRightBehindALargerOne) {
  start(policy_kind::offload, 3);
  for (int i = 0; i < 6; ++i) step(false, i % 2 == 0 ? part : part / 4);
  stream_->synchronize();
}

TEST_F(InPlace, WorkThatIsPendingStillFindsItsBytes) {
  start(policy_kind::keep, segments);
  gate open;
  {
    session::step_scope step(*session_);
    save(0);
    device_->launch(*stream_, "hold", {}, [&] { open.wait(); });
    check(0);
    session_->release({0, 0, "h"});
    step.end();
  }
  session::step_scope step(*session_);
  auto const at = pieces(0, part / 4);
  auto memory = session_->allocate_at(at, *stream_);  // in other pieces, while the comparison above waits
  open.open();
  fill(at[0].address, ones, part / 4);
  stream_->synchronize();
}

TEST_F(InPlace, MemoryThatIsInUseIsRefused) {
  start(policy_kind::offload, 4);
  session::step_scope step(*session_);
  save(0);
  session_->synchronize();
  ASSERT_EQ(session_->state({0, 0, "h"}), item_state::hosted);
  auto const at = pieces(0);
  expect_error<invalid_argument>([&] { (void)session_->allocate_at(at, *stream_); }, "is that of h (segment 0");
  std::array const within{device_view{own_.data() + 100, 100}};
  expect_error<invalid_argument>([&] { (void)session_->allocate_at(within, *stream_); }, "is that of h (segment 0");
  auto const other = pieces(1);
  auto const held = session_->allocate_at(other, *stream_);
  expect_error<invalid_argument>([&] { (void)session_->allocate_at(other, *stream_); }, "a block that lives still");
  EXPECT_THROW((void)session_->allocate_at({}, *stream_), invalid_argument);
  check(0);
  session_->release({0, 0, "h"});
  EXPECT_NO_THROW((void)session_->allocate_at(within, *stream_)) << "it is free now";
}

TEST_F(InPlace, ASmallerBudgetIsKeptToo) {
  start(policy_kind::recompute, segments);
  step(true);
  stream_->synchronize();
  session_->set_budget(byte_amount::exactly(2 * item_bytes));
  for (int i = 0; i < 2; ++i) step(true);
  EXPECT_LE(session_->stats().device.limit_bytes, 2 * item_bytes);
}

TEST_F(InPlace, MemoryIsTheTrainersAgainOnceTheSessionWasSynchronised) {
  start(policy_kind::keep, segments);
  step(false);
  stream_->synchronize();
  session_->synchronize();
  std::ranges::fill(own_, std::byte{42});  // freed, and somebody else's now
  auto const kept = own_;
  std::vector<std::byte> others(segments * item_bytes);
  session::step_scope step(*session_);
  std::array const at{device_view{others.data(), others.size()}};
  auto const all_of_it = session_->allocate_at(at, *stream_);
  stream_->synchronize();
  EXPECT_EQ(own_, kept) << "nothing of it is given back behind their back";
}

}  // namespace
}  // namespace ferry::testing
