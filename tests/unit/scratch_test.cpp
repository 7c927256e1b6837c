// Blocks that are not saved: their bytes, and how many of them are to be expected.
#include "path/scratch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <utility>

namespace ferry::path {
namespace {

class Scratch : public ::testing::Test {
 protected:
  [[nodiscard]] static store::device_region region(std::size_t bytes) {
    static std::array<std::byte, 1> somewhere;
    store::device_region made;
    made.piece = store::slab_piece(somewhere.data(), bytes, {});
    return made;
  }
  scratch blocks_;
};

TEST_F(Scratch, CountsWhatIsHeld) {
  auto const a = blocks_.hold(region(100));
  auto const b = blocks_.hold(region(20));
  EXPECT_EQ(blocks_.bytes(), 120U);
  EXPECT_EQ(blocks_.take_out(a).bytes(), 100U);
  EXPECT_EQ(blocks_.bytes(), 20U);
  EXPECT_EQ(blocks_.take_out(b).bytes(), 20U);
  EXPECT_EQ(blocks_.bytes(), 0U);
}

TEST_F(Scratch, SlotsAreUsedAgain) {
  auto const a = blocks_.hold(region(1));
  auto const b = blocks_.hold(region(2));
  EXPECT_NE(a, b);
  EXPECT_EQ(blocks_.take_out(a).bytes(), 1U);
  EXPECT_EQ(blocks_.hold(region(3)), a);
}

TEST_F(Scratch, KnowsTheNewest) {
  auto const a = blocks_.hold(region(1));
  EXPECT_TRUE(blocks_.is_newest(a));
  auto const b = blocks_.hold(region(2));
  EXPECT_FALSE(blocks_.is_newest(a));
  EXPECT_TRUE(blocks_.is_newest(b));
}

TEST_F(Scratch, ExpectsWhatTheLastStepHeldAtMost) {
  EXPECT_EQ(blocks_.still_to_come_bytes(), 0U);
  blocks_.begin_step();
  auto const a = blocks_.hold(region(100));
  static_cast<void>(blocks_.take_out(a));
  auto const b = blocks_.hold(region(60));
  static_cast<void>(blocks_.take_out(b));
  blocks_.end_step();
  EXPECT_EQ(blocks_.last_peak_bytes(), 100U);
  EXPECT_EQ(blocks_.still_to_come_bytes(), 100U);
  blocks_.begin_step();
  auto const c = blocks_.hold(region(30));
  EXPECT_EQ(blocks_.still_to_come_bytes(), 70U);
  auto const d = blocks_.hold(region(90));
  EXPECT_EQ(blocks_.still_to_come_bytes(), 0U);
  static_cast<void>(blocks_.take_out(c));
  static_cast<void>(blocks_.take_out(d));
}

TEST_F(Scratch, WhatIsHeldWhenAStepBeginsCounts) {
  auto const a = blocks_.hold(region(50));
  blocks_.begin_step();
  static_cast<void>(blocks_.take_out(a));
  blocks_.end_step();
  EXPECT_EQ(blocks_.last_peak_bytes(), 50U);
}

}  // namespace
}  // namespace ferry::path
