// The link's speed from its chunks, and the middle of a few values.
#include "decide/link_estimate.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "support/recent.hpp"

namespace ferry::decide {
namespace {

constexpr std::size_t chunk = 1'000'000;
constexpr double speed = 1000;  // bytes per microsecond
constexpr double chunk_us = chunk / speed;

class LinkEstimate : public ::testing::Test {
 protected:
  /// So many chunks that follow each other, each so many times as long as usual.
  void arrive(int chunks, double times = 1) {
    for (int i = 0; i < chunks; ++i) link_.arrived(chunk, times * chunk_us, false);
  }

  link_estimate link_;
};

TEST_F(LinkEstimate, NothingIsKnownBeforeTheFirstChunk) {
  EXPECT_FALSE(link_.known());
  arrive(1);
  EXPECT_TRUE(link_.known());
}

TEST_F(LinkEstimate, AChunkThatTookNoTimeShowsAVeryFastLink) {
  link_.arrived(chunk, 0, false);
  EXPECT_GT(link_.bytes_per_us(), 1e5 * speed);
}

TEST_F(LinkEstimate, ChunksThatFollowEachOtherShowTheBandwidth) {
  arrive(1);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed);
  for (std::size_t const bytes : {chunk / 10, chunk, 7 * chunk}) {
    link_.arrived(bytes, static_cast<double>(bytes) / speed, false);
    EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed);
  }
  EXPECT_EQ(link_.latency_us(), 0);
}

TEST_F(LinkEstimate, ChunksThatMeetAnIdleLinkShowTheLatency) {
  arrive(3);
  link_.arrived(chunk, chunk_us + 10, true);
  EXPECT_DOUBLE_EQ(link_.latency_us(), 10);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed);
  // Small ones too, of which the latency is most.
  for (int i = 0; i < 20; ++i) link_.arrived(1000, 1 + 10, true);
  EXPECT_NEAR(link_.latency_us(), 10, 1e-9);
  EXPECT_NEAR(link_.bytes_per_us(), speed, 1e-6 * speed);
}

TEST_F(LinkEstimate, TheLatencyFollowsDownAtOnceAndUpSlowly) {
  arrive(3);
  link_.arrived(chunk, chunk_us + 40, true);
  link_.arrived(chunk, chunk_us + 10, true);
  double const low = link_.latency_us();
  EXPECT_LE(low, 10 + 1e-9);
  link_.arrived(chunk, chunk_us + 500, true);  // somebody looked late
  EXPECT_LT(link_.latency_us(), low + 0.06 * 500);
}

TEST_F(LinkEstimate, OneSlowChunkDoesNothing) {
  arrive(8);
  for (double const times : {5.0, 50.0, 50'000.0}) {
    arrive(1, times);
    EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed) << times;
    arrive(7);
  }
}

TEST_F(LinkEstimate, TheFirstChunksMayBeSlowToo) {
  arrive(1, 100);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed / 100) << "there is nothing to compare it with";
  arrive(3);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed);
}

TEST_F(LinkEstimate, FollowsADropToAThirdWithinAFewChunks) {
  arrive(20);
  double before = speed;
  for (int i = 1; i <= 8; ++i) {
    arrive(1, 3);
    EXPECT_LT(link_.bytes_per_us(), before) << "each chunk tells more";
    before = link_.bytes_per_us();
    if (i == 4) {
      EXPECT_LE(before, speed / 2 * (1 + 1e-12));
    }
  }
  EXPECT_DOUBLE_EQ(before, speed / 3);
  arrive(8);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed) << "and back";
}

TEST_F(LinkEstimate, ALinkThatStaysSlowIsBelievedByTheFourthChunk) {
  arrive(8);
  arrive(3, 10);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed) << "it may be standing still for a moment";
  arrive(1, 10);
  EXPECT_LT(link_.bytes_per_us(), speed / 5);
  arrive(4, 10);
  EXPECT_DOUBLE_EQ(link_.bytes_per_us(), speed / 10);
}

TEST(RecentValues, AreTheNewestWhileTheyAreFew) {
  support::recent_values values;
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(values.middle(), 0);
  values.add(5);
  EXPECT_FALSE(values.empty());
  EXPECT_EQ(values.middle(), 5);
  values.add(9);
  EXPECT_EQ(values.middle(), 9);
}

TEST(RecentValues, IgnoreOneOutlierAndFollowTwo) {
  support::recent_values values;
  for (int i = 0; i < 3; ++i) values.add(10);
  values.add(1000);
  EXPECT_EQ(values.middle(), 10);
  values.add(10);
  values.add(0);
  EXPECT_EQ(values.middle(), 10);
  values.add(30);
  values.add(30);
  EXPECT_EQ(values.middle(), 30);
}

TEST(RecentValues, TheMiddleIsTheMiddleInAnyOrder) {
  for (auto const& [a, b, c] : {std::tuple(1, 2, 3), std::tuple(1, 3, 2), std::tuple(2, 1, 3), std::tuple(2, 3, 1),
                                std::tuple(3, 1, 2), std::tuple(3, 2, 1)}) {
    support::recent_values values;
    for (int const value : {7, a, b, c}) values.add(value);
    EXPECT_EQ(values.middle(), 2);
  }
}

TEST_F(LinkEstimate, TheOtherDirectionsChunksCostWhatTheyCost) {
  arrive(8);
  EXPECT_EQ(link_.share_beside(), 1);
  for (int i = 0; i < 8; ++i) {
    link_.arrived(chunk, 3 * chunk_us, false, 1);
    EXPECT_NEAR(link_.bytes_per_us(), speed, 1e-6 * speed) << "it is no slower a link";
  }
  EXPECT_NEAR(link_.share_beside(), 1.0 / 3, 1e-9);
  // Then the speed is what it would be alone, whatever went on beside the last chunks.
  for (int i = 0; i < 8; ++i) link_.arrived(chunk, 3 * chunk_us, false, 1);
  EXPECT_NEAR(link_.bytes_per_us(), speed, 1e-6 * speed);
  for (int i = 0; i < 8; ++i) link_.arrived(chunk, 2 * chunk_us, false, 0.75);
  EXPECT_NEAR(link_.bytes_per_us(), speed, 1e-6 * speed);
  arrive(8);
  EXPECT_NEAR(link_.bytes_per_us(), speed, 1e-6 * speed);
}

TEST_F(LinkEstimate, AnExpectedShareCountsUntilThereIsABetterOne) {
  link_.expect(speed);
  link_.expect_share(0.5);
  EXPECT_EQ(link_.share_beside(), 0.5);
  // The first chunks show the speed of the direction alone, though none of them was.
  for (int i = 0; i < 8; ++i) link_.arrived(chunk, 2 * chunk_us, false, 1);
  EXPECT_NEAR(link_.bytes_per_us(), speed, 1e-6 * speed);
  EXPECT_EQ(link_.share_beside(), 0.5) << "nothing to compare them with";
  arrive(8, 1.6);
  EXPECT_NEAR(link_.share_beside(), 0.8, 1e-9);
}

TEST_F(LinkEstimate, ALinkThatGetsSlowerWhileItIsNeverAloneIsFoundOut) {
  arrive(8);
  for (int i = 0; i < 40; ++i) link_.arrived(chunk, 4 * chunk_us, false, 0.5);
  EXPECT_NEAR(link_.bytes_per_us(), speed / 4, 1e-6 * speed);
}

TEST_F(LinkEstimate, ALinkThatIsSlowerAltogetherDisturbsNothing) {
  arrive(8);
  arrive(8, 2);
  for (int i = 0; i < 16; ++i) link_.arrived(chunk, 2 * chunk_us, false, 1);
  EXPECT_EQ(link_.share_beside(), 1);
  EXPECT_NEAR(link_.bytes_per_us(), speed / 2, 1e-6 * speed);
}

}  // namespace
}  // namespace ferry::decide
