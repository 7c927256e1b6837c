// Tables of text: what stands in them, and how they fold where the terminal is narrow.
#include "common/table.hpp"

#include <gtest/gtest.h>

namespace ferry::command {
namespace {

table made_table() {
  table made({{.width = 6, .at = table::side::left},
              {.width = 4},
              {.width = 5},
              {.width = 5, .at = table::side::left, .gap = 2}});
  made.row({"name", "a", "b", "c"});
  made.heading("more");
  made.row({"one", "1", "22"});
  made.remark("two", "has words instead");
  made.row({"three", "1", "2", "three"});
  return made;
}

TEST(Table, StandsInOnePieceWhereThereIsRoom) {
  char const* const whole =
      "name      a     b  c\n"
      "more\n"
      "one       1    22\n"
      "two    has words instead\n"
      "three     1     2  three\n";
  EXPECT_EQ(made_table().text(1000), whole);
  EXPECT_EQ(made_table().text(24), whole) << "just enough";
}

TEST(Table, ColumnsWithoutRoomFollowBelow) {
  EXPECT_EQ(made_table().text(23),
            "name      a     b\n"
            "more\n"
            "one       1    22\n"
            "two    has words instead\n"
            "three     1     2\n"
            "\n"
            "name    c\n"
            "more\n"
            "one\n"
            "three   three\n");
}

TEST(Table, ABlockHasAColumnHoweverNarrowTheTerminal) {
  auto const text = made_table().text(1);
  EXPECT_NE(text.find("name      a\n"), std::string::npos);
  EXPECT_NE(text.find("\nname       b\n"), std::string::npos);
}

}  // namespace
}  // namespace ferry::command
