// The link's schedule as arithmetic, and its copies as bytes; nothing here looks at the clock.
#include "device/link.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "ferry/error.hpp"

namespace ferry {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr link_speed one_gbps{.gbps = 1, .latency_us = 10};

link_clock::time_point at(nanoseconds since) { return link_clock::time_point(since); }

TEST(LinkSchedule, AnIdleLinkAddsItsLatency) {
  auto const slot = schedule_copy(one_gbps, at(microseconds(100)), at(microseconds(50)), 1'000'000);
  EXPECT_EQ(slot.start, at(microseconds(100)));
  EXPECT_EQ(slot.end, at(microseconds(100 + 10 + 1000)));
}

TEST(LinkSchedule, BackToBackCopiesHideTheLatency) {
  auto const queued = schedule_copy(one_gbps, at(microseconds(20)), at(microseconds(50)), 1'000'000);
  EXPECT_EQ(queued.start, at(microseconds(50)));
  EXPECT_EQ(queued.end, at(microseconds(1050)));
  auto const just_in_time = schedule_copy(one_gbps, at(microseconds(50)), at(microseconds(50)), 1'000'000);
  EXPECT_EQ(just_in_time.end, queued.end);
}

TEST(LinkSchedule, ALongQueueRunsAtTheSetBandwidthExactly) {
  link_clock::time_point next_free = at(microseconds(0));
  for (int i = 0; i < 1000; ++i) {
    auto const slot = schedule_copy({.gbps = 0.5, .latency_us = 10}, at(nanoseconds(0)), next_free, 65'536);
    next_free = settle_copy(slot, microseconds(20));
  }
  EXPECT_EQ(next_free, at(nanoseconds(1000 * 2 * 65'536)));
}

TEST(LinkSchedule, BandwidthZeroIsUnpaced) {
  auto const slot = schedule_copy({.gbps = 0, .latency_us = 10}, at(microseconds(7)), at(microseconds(3)), 1 << 30);
  EXPECT_EQ(slot.start, at(microseconds(7)));
  EXPECT_EQ(slot.end, slot.start);
  EXPECT_EQ(settle_copy(slot, microseconds(5)), at(microseconds(12)));
}

TEST(LinkSchedule, ACopySlowerThanItsPaceCollectsNoCredit) {
  link_slot const slot{at(microseconds(100)), at(microseconds(200))};
  EXPECT_EQ(settle_copy(slot, microseconds(60)), at(microseconds(200)));
  EXPECT_EQ(settle_copy(slot, microseconds(140)), at(microseconds(240)));
}

link_slot const alone{at(microseconds(100)), at(microseconds(200))};

link_slot busy(int from_us, int until_us) { return {at(microseconds(from_us)), at(microseconds(until_us))}; }

TEST(LinkSchedule, ACopyTakesLongerForAsLongAsTheOtherDirectionIsAtWork) {
  auto const end_us = [](std::vector<link_slot> const& other, double share) {
    return std::chrono::duration<double, std::micro>(end_beside(alone, other, share).time_since_epoch()).count();
  };
  EXPECT_EQ(end_us({}, 0.5), 200);
  EXPECT_EQ(end_us({busy(0, 1000)}, 0.5), 300) << "all of it";
  EXPECT_EQ(end_us({busy(0, 150)}, 0.5), 225) << "its beginning: half of 50 us is done when it ends";
  EXPECT_EQ(end_us({busy(160, 1000)}, 0.5), 240) << "its end";
  EXPECT_EQ(end_us({busy(120, 160)}, 0.5), 220) << "its middle";
  EXPECT_EQ(end_us({busy(120, 160), busy(200, 210)}, 0.5), 225) << "what was beyond its end no longer is";
  EXPECT_EQ(end_us({busy(0, 100), busy(200, 300)}, 0.5), 200) << "nothing";
  EXPECT_EQ(end_us({busy(0, 1000)}, 0.25), 500);
  EXPECT_EQ(end_us({busy(0, 1000)}, 1), 200);
}

TEST(LinkSchedule, WorkWithoutGapsIsOne) {
  work_times times;
  EXPECT_EQ(times.end_beside(alone, 0.5), alone.end);
  times.begin(at(microseconds(0)));
  times.last_until(at(microseconds(120)));
  times.begin(at(microseconds(120)));
  times.last_until(at(microseconds(140)));
  times.last_until(at(microseconds(130)));  // no less than was said before
  EXPECT_EQ(times.end_beside(alone, 0.5), at(microseconds(220)));
  for (int i = 0; i < 1000; ++i) {  // old gaps are forgotten, and the latest remembered
    times.begin(at(microseconds(1000 + 10 * i)));
    times.last_until(at(microseconds(1005 + 10 * i)));
  }
  auto const late = busy(10'985, 11'005);  // from 10990 to 10995 the other is at work
  EXPECT_EQ(times.end_beside(late, 0.5), at(nanoseconds(11'007'500)));
}

TEST(LinkSchedule, AnAbsurdlySlowLinkDoesNotOverflow) {
  auto const slot = schedule_copy({.gbps = 1e-300, .latency_us = 0}, at(microseconds(1)), at(microseconds(1)),
                                  std::numeric_limits<std::size_t>::max());
  EXPECT_GT(slot.end, slot.start);
}

TEST(Link, RejectsImpossibleSpeeds) {
  EXPECT_THROW(paced_link({.gbps = -1, .latency_us = 0}), invalid_argument);
  EXPECT_THROW(paced_link({.gbps = 1, .latency_us = -1}), invalid_argument);
  paced_link link({.gbps = 2, .latency_us = 1});
  EXPECT_THROW(link.set_speed({.gbps = std::nan(""), .latency_us = 0}), invalid_argument);
  EXPECT_EQ(link.speed().gbps, 2);
}

TEST(Link, CopyBytesCopiesEverySizeAndAlignmentExactly) {
  constexpr std::size_t largest = (std::size_t{128} << 10) + 200;
  std::vector<unsigned char> source(largest + 64);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 131 % 253);
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, std::size_t{127} << 10, std::size_t{128} << 10,
                                  (std::size_t{128} << 10) + 1, largest}) {
    for (std::size_t const shift : {0, 1, 15, 16, 63}) {
      std::vector<unsigned char> target(largest + 128, 0xee);
      copy_bytes(target.data() + shift, source.data() + 64 - shift, bytes);
      std::vector<unsigned char> expected(largest + 128, 0xee);
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(64 - shift), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(shift));
      EXPECT_EQ(target, expected) << bytes << " bytes shifted by " << shift;
    }
  }
}

}  // namespace
}  // namespace ferry
