// Recipes that can rebuild some of an item's rows: what a save accepts, and what the recipe is told.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

class RowRecipe : public SessionTest {
 protected:
  /// Rebuilds the rows that it is asked for as `value`, and notes which.
  recipe of_rows(std::size_t rows, std::byte value) {
    return {.enqueue =
                [this, rows, value](recipe_context const& c) {
                  asked_.push_back({c.first_row, c.rows});
                  std::size_t const row_bytes = c.bytes / rows;
                  fill(c.output_as<std::byte>() + c.first_row * row_bytes, value, c.rows * row_bytes);
                },
            .inputs = {},
            .rows = rows};
  }

  std::vector<std::pair<std::size_t, std::size_t>> asked_;
};

TEST_F(RowRecipe, MustDivideTheItem) {
  start(policy_kind::keep, 8);
  session_->begin_step();
  for (std::size_t const rows : {std::size_t{0}, std::size_t{3}, item_bytes + 1, 2 * item_bytes}) {
    auto memory = session_->allocate(item_bytes, *stream_);
    expect_error<invalid_argument>(
        [&] {
          session_->save({0, 4, "odd"}, std::move(memory), *stream_, of_rows(rows, std::byte{1}));
        },
        "odd (segment 4, micro-batch 0)", "65536 bytes", std::to_string(rows) + " equal rows");
    EXPECT_TRUE(memory) << "a refused block stays the caller's";
    device_view const view{memory.data(), item_bytes};
    EXPECT_THROW(session_->save({0, 4, "odd"}, view, *stream_, {}, of_rows(rows, std::byte{1})), invalid_argument);
    EXPECT_EQ(session_->state({0, 4, "odd"}), std::nullopt);
  }
  for (std::size_t const rows : {std::size_t{1}, std::size_t{64}, item_bytes}) {
    save_filled({0, 0, label(std::to_string(rows))}, std::byte{1}, of_rows(rows, std::byte{1})).end();
  }
  recipe none;
  none.rows = 3;  // of nothing
  save_filled({0, 0, "none"}, std::byte{1}, std::move(none)).end();
  session_->end_step();
}

TEST_F(RowRecipe, OfADroppedItemIsAskedForAllRows) {
  start(policy_kind::recompute, 4);
  drop_everything();
  for (std::size_t const rows : {1, 64}) {
    session_->begin_step();
    save_filled({0, 0, "h"}, std::byte{5}, of_rows(rows, std::byte{5})).end();
    restore_and_release({0, 0, "h"}, std::byte{5});
    session_->end_step();
    ASSERT_EQ(asked_.size(), 1U);
    EXPECT_EQ(asked_[0], std::pair(std::size_t{0}, rows));
    asked_.clear();
  }
}

}  // namespace
}  // namespace ferry::testing
