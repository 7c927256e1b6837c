// When the link was at work, and how much of a stretch of time that was.
#include "decide/traffic.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace ferry::decide {
namespace {

using namespace std::chrono_literals;
constexpr auto out = copy_direction::device_to_host;
constexpr auto back = copy_direction::host_to_device;

void expect(link_use const& is, double out_us, double back_us, double both_us) {
  EXPECT_DOUBLE_EQ(is.out_us, out_us);
  EXPECT_DOUBLE_EQ(is.back_us, back_us);
  EXPECT_DOUBLE_EQ(is.both_us, both_us);
}

TEST(Traffic, NoneMovesNothing) { expect(traffic().between(0us, 100us), 0, 0, 0); }

TEST(Traffic, CountsWhatFallsIntoTheStretch) {
  traffic link;
  link.moved(out, 10us, 20us);
  link.moved(out, 30us, 50us);
  expect(link.between(0us, 10us), 0, 0, 0);
  expect(link.between(0us, 100us), 30, 0, 0);
  expect(link.between(15us, 35us), 10, 0, 0);
  expect(link.between(20us, 30us), 0, 0, 0);
  expect(link.between(50us, 60us), 0, 0, 0);
}

TEST(Traffic, TellsOneWayFromBoth) {
  traffic link;
  link.moved(out, 10us, 30us);
  link.moved(back, 20us, 50us);
  link.moved(out, 45us, 60us);
  expect(link.between(0us, 100us), 20, 15, 15);
  expect(link.between(25us, 47us), 0, 15, 7);
}

TEST(Traffic, TransfersThatTookTurnsCountOnce) {
  traffic link;
  link.moved(out, 10us, 30us);
  link.moved(out, 15us, 40us);
  link.moved(out, 20us, 35us);
  link.moved(out, 40us, 45us);
  expect(link.between(0us, 100us), 35, 0, 0);
}

TEST(Traffic, ForgetsWhatIsOver) {
  traffic link;
  link.moved(back, 10us, 30us);
  link.moved(back, 40us, 50us);
  link.forget_before(30us);
  expect(link.between(0us, 100us), 0, 10, 0);
  link.forget_before(45us);  // still under way then
  expect(link.between(0us, 100us), 0, 10, 0);
}

}  // namespace
}  // namespace ferry::decide
