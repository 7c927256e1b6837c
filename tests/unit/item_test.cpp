// The words of the path: keys, placements, states, and lists of keys.
#include "ferry/item.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferry/error.hpp"

namespace {

using ferry::item_key;
using ferry::item_list;
using ferry::item_state;
using ferry::placement;

TEST(ItemKey, ReadsLikeASentence) {
  EXPECT_EQ(to_string(item_key{.micro_batch = 0, .segment = 3, .name = "h"}), "h (segment 3, micro-batch 0)");
}

TEST(ItemKey, HashTellsMicroBatchSegmentAndNameApart) {
  std::set<std::size_t> hashes;
  for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch) {
    for (std::uint32_t segment = 0; segment < 32; ++segment) {
      for (char const* name : {"h", "q", "attention.output"}) {
        hashes.insert(std::hash<item_key>{}({micro_batch, segment, name}));
      }
    }
  }
  EXPECT_EQ(hashes.size(), 4u * 32u * 3u);
}

TEST(Placement, HasWords) {
  EXPECT_EQ(to_string(placement::keep), "keep");
  EXPECT_EQ(to_string(placement::offload), "offload");
  EXPECT_EQ(to_string(placement::recompute), "recompute");
}

TEST(ItemState, HasOneWordEach) {
  std::set<std::string_view> words;
  for (int i = 0; i <= static_cast<int>(item_state::released); ++i) words.insert(to_string(static_cast<item_state>(i)));
  EXPECT_EQ(words.size(), 7u);
  EXPECT_EQ(words.count("unknown"), 0u);
  EXPECT_EQ(to_string(item_state::prefetching), "prefetching");
}

TEST(ItemList, KeepsKeysInOrder) {
  item_list const list{{0, 1, "a"}, {0, 2, "b"}};
  ASSERT_EQ(list.keys().size(), 2u);
  EXPECT_EQ(list.keys()[0].name.view(), "a");
  EXPECT_EQ(list.keys()[1].segment, 2u);
  EXPECT_FALSE(list.empty());
  EXPECT_TRUE(item_list{}.empty());
}

TEST(ItemList, HoldsAnyNumber) {
  std::vector<item_key> keys;
  for (std::uint32_t i = 0; i < 100; ++i) {
    keys.push_back({0, i, "a"});
    item_list list{std::span<item_key const>(keys)};
    item_list const moved(std::move(list));
    ASSERT_EQ(moved.keys().size(), keys.size());
    EXPECT_EQ(moved.keys().front(), keys.front());
    EXPECT_EQ(moved.keys().back(), keys.back());
  }
}

TEST(Recipe, IsTrueOnlyWithAFunction) {
  ferry::recipe how;
  EXPECT_FALSE(how);
  how.enqueue = [](ferry::recipe_context const&) {};
  EXPECT_TRUE(how);
}

}  // namespace
