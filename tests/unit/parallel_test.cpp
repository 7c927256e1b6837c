// Parts of one piece of work side by side.
#include "support/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/threads.hpp"

namespace ferry::support {
namespace {

/// The threads that have run parts; each part waits until another thread has one too, or a while is over.
std::set<std::thread::id> threads_of(std::size_t count) {
  std::vector<std::thread::id> ran(count);
  std::atomic<std::size_t> begun{0};
  in_parallel(count, [&](std::size_t i) {
    ran[i] = std::this_thread::get_id();
    ++begun;
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (begun.load() < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  });
  return {ran.begin(), ran.end()};
}

TEST(Parallel, DoesEveryPartOnce) {
  for (std::size_t const count : {0U, 1U, 2U, 7U, 100U}) {
    std::vector<std::atomic<int>> done(count);
    in_parallel(count, [&](std::size_t i) { ++done[i]; });
    for (auto const& times : done) EXPECT_EQ(times.load(), 1);
  }
}

TEST(Parallel, UsesTheCoresThatThereAre) {
  auto const ran = threads_of(4);
  EXPECT_EQ(ran.size() > 1, usable_cores() > 1);
  EXPECT_LE(ran.size(), usable_cores());
  EXPECT_TRUE(ran.contains(std::this_thread::get_id()));
}

TEST(Parallel, StaysOnItsThreadWhileThatIsAlone) {
  std::set const here{std::this_thread::get_id()};
  {
    alone_here const alone;
    EXPECT_EQ(threads_of(4), here);
    { alone_here const twice; }
    EXPECT_EQ(threads_of(4), here);
  }
  EXPECT_EQ(threads_of(4).size() > 1, usable_cores() > 1);
}

TEST(Parallel, StaysOnItsThreadInsideOfAPart) {
  in_parallel(2, [](std::size_t) { EXPECT_EQ(threads_of(2), std::set{std::this_thread::get_id()}); });
}

TEST(Parallel, ThrowsWhatAPartHasThrownAfterAllAreOver) {
  std::atomic<int> done{0};
  try {
    in_parallel(6, [&](std::size_t i) {
      ++done;
      if (i % 2 == 1) throw std::runtime_error("a part of it");
    });
    FAIL();
  } catch (std::runtime_error const& problem) {
    EXPECT_STREQ(problem.what(), "a part of it");
  }
  EXPECT_EQ(done.load(), 6);
}

}  // namespace
}  // namespace ferry::support
