#include "device/arena.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "ferry/error.hpp"

namespace ferry {
namespace {

TEST(Arena, HandsOutExactSizesAtItsAlignment) {
  arena slab(64 * 1024);
  auto const small = slab.allocate(1);
  auto const odd = slab.allocate(257);
  ASSERT_TRUE(small && odd);
  EXPECT_EQ(small->bytes, 256U);
  EXPECT_EQ(odd->bytes, 512U);
  EXPECT_EQ(small->offset % arena::alignment, 0U);
  EXPECT_EQ(odd->offset % arena::alignment, 0U);
  EXPECT_EQ(slab.used_bytes(), 768U);
  EXPECT_EQ(slab.free_bytes(), 64U * 1024 - 768);
}

TEST(Arena, TheWholeSlabCanBeOneBlock) {
  arena slab(1'000'000);
  EXPECT_EQ(slab.capacity_bytes(), 999'936U);  // rounded down
  auto const all = slab.allocate(slab.capacity_bytes());
  ASSERT_TRUE(all);
  EXPECT_EQ(slab.free_bytes(), 0U);
  EXPECT_EQ(slab.largest_free_bytes(), 0U);
  EXPECT_EQ(slab.fragmentation(), 0.0);
  EXPECT_FALSE(slab.allocate(1));
  slab.free(*all);
  EXPECT_EQ(slab.largest_free_bytes(), slab.capacity_bytes());
}

TEST(Arena, SizesThatCannotFitAreRefused) {
  arena slab(4096);
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{4097}, std::numeric_limits<std::size_t>::max() - 1,
                                  std::numeric_limits<std::size_t>::max()}) {
    EXPECT_FALSE(slab.allocate(bytes)) << bytes;
  }
  EXPECT_EQ(slab.used_bytes(), 0U);
}

TEST(Arena, ASlabSmallerThanOneUnitIsEmpty) {
  arena slab(255);
  EXPECT_EQ(slab.capacity_bytes(), 0U);
  EXPECT_FALSE(slab.allocate(1));
  EXPECT_EQ(slab.fragmentation(), 0.0);
}

TEST(Arena, TheLargestSlabWorks) {
  arena slab(std::numeric_limits<std::size_t>::max());
  auto const low = slab.allocate(std::size_t{1} << 63U);
  ASSERT_TRUE(low);
  auto const high = slab.allocate(slab.free_bytes());
  ASSERT_TRUE(high);
  slab.free(*low);
  slab.free(*high);
  EXPECT_EQ(slab.largest_free_bytes(), slab.capacity_bytes());
}

TEST(Arena, FreedNeighboursBecomeOneBlockInAnyOrder) {
  for (std::vector<std::size_t> const& order :
       {std::vector<std::size_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    arena slab(3 * 1024);
    std::vector<arena::block> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(slab.allocate(1024).value());
    for (std::size_t const which : order) slab.free(blocks[which]);
    EXPECT_EQ(slab.largest_free_bytes(), 3U * 1024);
  }
}

TEST(Arena, ReportsFragmentation) {
  arena slab(4 * 1024);
  std::vector<arena::block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(slab.allocate(1024).value());
  slab.free(blocks[0]);
  slab.free(blocks[2]);
  EXPECT_EQ(slab.largest_free_bytes(), 1024U);
  EXPECT_DOUBLE_EQ(slab.fragmentation(), 0.5);
  EXPECT_FALSE(slab.allocate(2048)) << "2048 bytes are free, but not in one piece";
  slab.free(blocks[1]);
  EXPECT_DOUBLE_EQ(slab.fragmentation(), 0.0);
}

TEST(Arena, TakesTheTightestHoleOfItsBin) {
  arena slab(1024 * 1024);
  auto const wide = slab.allocate(255 * 256).value();
  auto const fence = slab.allocate(256).value();
  auto const tight = slab.allocate(254 * 256).value();
  auto const rest = slab.allocate(slab.free_bytes()).value();
  slab.free(tight);
  slab.free(wide);
  EXPECT_EQ(slab.allocate(254 * 256)->offset, tight.offset);
  EXPECT_EQ(slab.used_bytes(), fence.bytes + tight.bytes + rest.bytes);
}

TEST(Arena, FreeingWhatIsNotLiveIsAnInternalError) {
  arena slab(64 * 1024);
  auto const block = slab.allocate(1024).value();
  auto const neighbour = slab.allocate(1024).value();

  arena::block forged = block;
  forged.node = 1000;
  EXPECT_THROW(slab.free(forged), internal_error);
  forged = block;
  forged.bytes += 256;
  EXPECT_THROW(slab.free(forged), internal_error);

  slab.free(block);
  EXPECT_THROW(slab.free(block), internal_error);
  auto const reused = slab.allocate(1024).value();
  ASSERT_EQ(reused.offset, block.offset);
  EXPECT_THROW(slab.free(block), internal_error) << "the place is taken again, by another block";

  slab.free(neighbour);
  slab.free(reused);
  EXPECT_THROW(slab.free(neighbour), internal_error);
  EXPECT_EQ(slab.largest_free_bytes(), slab.capacity_bytes());
}

TEST(Arena, GrowsBeyondTheExpectedBlocks) {
  arena slab(1024 * arena::alignment, 2);
  std::vector<arena::block> blocks;
  while (auto const block = slab.allocate(1)) blocks.push_back(*block);
  EXPECT_EQ(blocks.size(), 1024U);
  for (arena::block const& block : blocks) slab.free(block);
  EXPECT_EQ(slab.largest_free_bytes(), slab.capacity_bytes());
}

}  // namespace
}  // namespace ferry
