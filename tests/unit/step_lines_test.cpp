// The step log alone: when a step's line is written; without a session.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "observe/step_log.hpp"
#include "support/sim_of.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::observe {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

/// Kernels take 100 us.
class StepLines : public ::testing::Test {
 protected:
  static config settings(std::string stats_file) {
    config made;
    made.stats_file = std::move(stats_file);
    return made;
  }
  void step(step_log& log, std::uint64_t number, int kernels) {
    log.begin_step(number, nullptr);
    log.entered(pass::forward, {0, 0, "x"}, compute_);
    for (int i = 0; i < kernels; ++i) device_->launch(compute_, "kernel", {}, [] {});
    log.end_step(0, 0);
  }
  [[nodiscard]] std::vector<json> lines() const {
    std::vector<json> found;
    std::istringstream text(testing::read_file(file_));
    for (std::string line; std::getline(text, line);) found.push_back(json::parse(line));
    return found;
  }

  testing::temporary_folder folder_;
  std::string file_ = (folder_ / "stats.jsonl").string();
  support::logger quiet_{log_level::off};
  std::unique_ptr<sim_device> device_ = testing::make_sim_of(std::size_t{1} << 20, 100us);
  stream compute_{*device_, stream_kind::compute, "compute"};
  store::tiered_store store_{*device_, {std::size_t{1} << 20, std::size_t{1} << 20, std::size_t{1} << 20}};
};

TEST_F(StepLines, WithoutAFileItIsOff) {
  step_log log(*device_, settings(""), quiet_, store_);
  EXPECT_FALSE(log.on());
  step(log, 1, 1);
  EXPECT_TRUE(log.marks_passed());
}

TEST_F(StepLines, AStepIsWrittenOnceItsWorkIsOver) {
  step_log log(*device_, settings(file_), quiet_, store_);
  ASSERT_TRUE(log.on());
  step(log, 1, 3);
  step(log, 2, 5);
  EXPECT_FALSE(log.marks_passed());
  log.flush(2);
  EXPECT_TRUE(lines().empty()) << "its kernels have not run";
  compute_.synchronize();
  EXPECT_TRUE(log.marks_passed());
  log.flush(2);
  ASSERT_EQ(lines().size(), 1U) << "the second step may have transfers under way";
  EXPECT_EQ(lines()[0]["step_us"], 300);
  log.finish({});
  ASSERT_EQ(lines().size(), 3U) << "and the totals";
  EXPECT_EQ(lines()[1]["step_us"], 500);
}

TEST_F(StepLines, BytesMayBeUsedWhenItIsGone) {
  {
    step_log log(*device_, settings(file_), quiet_, store_);
    step(log, 1, 0);
    EXPECT_TRUE(store_.pinned_tier().allocate(1000, "piece"));
    log.finish({});
  }
  EXPECT_TRUE(store_.pinned_tier().allocate(1000, "piece"));
}

}  // namespace
}  // namespace ferry::observe
