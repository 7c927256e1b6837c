// The two value types that travel through queues: callables and short names, both stored in place.
#include "ferry/function.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/label.hpp"

namespace {

using ferry::label;
using ferry::unique_function;

/// Counts the objects alive; too large to be stored in place if padded.
template <std::size_t Padding>
struct tracked {
  explicit tracked(int& alive) : count(&alive) { ++*count; }
  tracked(tracked const& other) noexcept : count(other.count) { ++*count; }
  tracked(tracked&& other) noexcept : count(other.count) { ++*count; }
  tracked& operator=(tracked const&) = delete;
  tracked& operator=(tracked&&) = delete;
  ~tracked() { --*count; }
  int operator()(int x) const { return x + 1; }

  int* count;
  std::array<char, Padding> padding{};
};

template <std::size_t Padding>
void expect_one_owner() {
  int alive = 0;
  {
    unique_function<int(int)> first = tracked<Padding>(alive);
    EXPECT_EQ(alive, 1);
    unique_function<int(int)> second = std::move(first);
    EXPECT_EQ(alive, 1);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
    EXPECT_EQ(second(1), 2);
    unique_function<int(int)> third = tracked<Padding>(alive);
    third = std::move(second);
    EXPECT_EQ(alive, 1) << "what it held before must be gone";
    EXPECT_EQ(third(2), 3);
    third.reset();
    EXPECT_EQ(alive, 0);
    EXPECT_FALSE(third);
  }
  EXPECT_EQ(alive, 0);
}

TEST(UniqueFunction, OwnsASmallCallable) { expect_one_owner<8>(); }

TEST(UniqueFunction, OwnsALargeCallable) { expect_one_owner<256>(); }

TEST(UniqueFunction, KeepsStateBetweenCalls) {
  unique_function<int()> count = [n = 0]() mutable { return ++n; };
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(count(), 2);
}

TEST(UniqueFunction, TakesAndGivesMoveOnlyValues) {
  unique_function<std::unique_ptr<int>(std::unique_ptr<int>)> add = [one = std::make_unique<int>(1)](auto x) {
    *x += *one;
    return x;
  };
  EXPECT_EQ(*add(std::make_unique<int>(2)), 3);
}

TEST(UniqueFunction, PassesReferencesThrough) {
  unique_function<void(int&)> twice = [](int& x) { x *= 2; };
  int value = 21;
  twice(value);
  EXPECT_EQ(value, 42);
}

TEST(UniqueFunction, LetsExceptionsPass) {
  unique_function<void()> fails = [] { throw std::runtime_error("no"); };
  EXPECT_THROW(fails(), std::runtime_error);
  EXPECT_TRUE(fails);
}

TEST(UniqueFunction, IsEmptyByDefaultAndFromNull) {
  EXPECT_FALSE(unique_function<void()>{});
  EXPECT_FALSE(unique_function<void()>{nullptr});
}

TEST(UniqueFunction, SurvivesAssignmentToItself) {
  unique_function<int()> answer = [] { return 42; };
  auto& same = answer;
  answer = std::move(same);
  EXPECT_EQ(answer(), 42);
}

TEST(Label, HoldsUpToItsLength) {
  std::string const longest(label::max_length, 'x');
  EXPECT_EQ(label(longest).view(), longest);
  EXPECT_THROW(label(longest + "x"), ferry::invalid_argument);
}

TEST(Label, CutsWhereACutNameWillDo) {
  std::string const text(label::max_length + 5, 'x');
  EXPECT_EQ(label::truncated(text).view(), text.substr(0, label::max_length));
}

TEST(Label, ComparesAsText) {
  EXPECT_EQ(label("a"), label(std::string("a")));
  EXPECT_LT(label("a"), label("ab"));
  EXPECT_NE(label("a"), label());
  EXPECT_TRUE(label().empty());
  static_assert(label("constant").view() == "constant");
}

}  // namespace
