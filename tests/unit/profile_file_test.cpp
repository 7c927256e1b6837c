// FERRY_PROFILE: what a step looks like, as a file that the planner reads.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"
#include "support/session_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::testing {
namespace {

class ProfileFile : public SessionTest {
 protected:
  void start_recording(policy_kind policy) {
    config settings;
    settings.profile_file = file_.string();
    start(policy, 12, 64, settings);
  }
  void step(bool backward = true) {
    session::step_scope step(*session_);
    for (std::uint32_t s = 0; s < 4; ++s) save_filled({0, s, "h"}, ones, adding(ones, {}));
    for (std::uint32_t s = 4; s-- > 0 && backward;) restore_and_release({0, s, "h"}, ones);
    stream_->synchronize();
    step.end();
  }

  temporary_folder folder_;
  std::filesystem::path file_ = folder_ / "profile.json";
};

TEST_F(ProfileFile, HasTheStepOnceTheSessionHasEnded) {
  for (auto const policy : {policy_kind::keep, policy_kind::offload, policy_kind::automatic}) {
    start_recording(policy);
    for (int i = 0; i < 4; ++i) step();
    session_.reset();
    auto const measured = read_profile(file_);
    ASSERT_EQ(measured.segments.size(), 4U);
    EXPECT_EQ(measured.segments[2].items.at(0).name, "h");
    EXPECT_EQ(measured.segments[2].items.at(0).bytes, item_bytes);
    EXPECT_TRUE(measured.segments[2].items.at(0).recipe_us);
    EXPECT_EQ(measured.need_order.size(), 4U);
    TearDown();
  }
}

TEST_F(ProfileFile, StaysEmptyWithoutATrainingStep) {
  start_recording(policy_kind::keep);
  step(false);
  session_.reset();
  EXPECT_TRUE(std::filesystem::exists(file_));
  EXPECT_EQ(std::filesystem::file_size(file_), 0U);
}

TEST_F(ProfileFile, OneThatCannotBeMadeIsAnErrorAtOnce) {
  file_ = folder_ / "no" / "such" / "file.json";
  expect_error<setting_error>([&] { start_recording(policy_kind::keep); }, "FERRY_PROFILE", file_.string());
  device_.reset();
}

}  // namespace
}  // namespace ferry::testing
