// The log: its lines, its levels, and what a silent one costs.
#include "support/log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace {

using ferry::log_level;
using ferry::support::logger;

/// Counts how often it is turned into text.
struct counted {
  int* times;
};

}  // namespace

template <>
struct fmt::formatter<counted> : fmt::formatter<int> {
  auto format(counted const& value, fmt::format_context& context) const {
    return fmt::formatter<int>::format(++*value.times, context);
  }
};

namespace {

std::string logged(log_level level) {
  testing::internal::CaptureStderr();
  logger const log(level);
  log.error("e {}", 1);
  log.warning("w {}", 2);
  log.info("i {}", 3);
  log.debug("d {}", 4);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesLinesUpToItsLevel) {
  EXPECT_EQ(logged(log_level::off), "");
  EXPECT_EQ(logged(log_level::error), "ferry: error: e 1\n");
  EXPECT_EQ(logged(log_level::warning), "ferry: error: e 1\nferry: warning: w 2\n");
  EXPECT_EQ(logged(log_level::debug), "ferry: error: e 1\nferry: warning: w 2\nferry: info: i 3\nferry: debug: d 4\n");
}

TEST(Log, BuildsNoTextThatNobodyReads) {
  int times = 0;
  logger const log(log_level::off);
  log.error("{}", counted{&times});
  EXPECT_EQ(times, 0);
}

TEST(Log, StaysSilentAfterItHasMoved) {
  testing::internal::CaptureStderr();
  logger from(log_level::info);
  logger const to(std::move(from));
  from.error("from");  // NOLINT(bugprone-use-after-move): that is the question
  to.error("to");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ferry: error: to\n");
}

}  // namespace
