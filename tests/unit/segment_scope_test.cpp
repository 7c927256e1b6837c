// A trainer that says which pass of which segment it is in.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ferry/ferry.hpp"
#include "ferry/plan.hpp"
#include "support/session_fixture.hpp"
#include "support/sim_of.hpp"

namespace ferry::testing {
namespace {

using namespace std::chrono_literals;

/// Two segments, whose backward both read the first one's item. Every kernel takes 100 us.
class SegmentScope : public ::testing::Test {
 protected:
  static constexpr std::size_t item_bytes = 1024;
  static constexpr item_key first{0, 0, "x"};
  static constexpr item_key second{0, 1, "h"};

  SegmentScope() { session_.record_profile(true); }
  static config settings() {
    config made;
    made.policy.kind = policy_kind::keep;
    made.budget = made.host_budget = byte_amount::exactly(std::size_t{1} << 20);
    made.min_bytes = 0;
    made.log = log_level::off;
    return made;
  }
  void kernel() {
    device_->launch(compute_, "kernel", {}, [] {});
  }
  void save(item_key const& key) {
    auto memory = session_.allocate(item_bytes, compute_);
    kernel();
    session_.save(key, std::move(memory), compute_);
  }
  void forward() {
    save(first);
    save(second);
  }
  /// The second segment's: a kernel for its own item, and two for the other's.
  void backward_of_second() {
    auto const h = session_.restore(second, compute_);
    kernel();
    auto const x = session_.restore(first, compute_);
    kernel();
    kernel();
  }
  void backward_of_first() {
    auto const x = session_.restore(first, compute_);
    kernel();
  }
  profile recorded() {
    compute_.synchronize();
    auto step = session_.recorded_profile();
    return step.value_or(profile{});
  }

  std::unique_ptr<sim_device> device_ = make_sim_of(std::size_t{1} << 20, 100us);
  session session_{*device_, settings()};
  stream compute_{*device_, stream_kind::compute, "compute"};
};

TEST_F(SegmentScope, KeysAloneTellTheWrongSegment) {
  session_.begin_step();
  forward();
  backward_of_second();
  backward_of_first();
  session_.end_step();
  auto const step = recorded();
  ASSERT_EQ(step.segments.size(), 2U);
  EXPECT_EQ(step.segments[1].backward_us, 100);
  EXPECT_EQ(step.segments[0].backward_us, 300) << "two of them were the second segment's";
}

TEST_F(SegmentScope, WorkBelongsWhereTheTrainerSaysItIs) {
  session_.begin_step();
  forward();
  {
    session::segment_scope const here(session_, pass::backward, 1, compute_);
    backward_of_second();
  }
  {
    session::segment_scope const here(session_, pass::backward, 0, compute_);
    backward_of_first();
  }
  session_.end_step();
  auto const step = recorded();
  ASSERT_EQ(step.segments.size(), 2U);
  EXPECT_EQ(step.segments[1].backward_us, 300);
  EXPECT_EQ(step.segments[0].backward_us, 100);
}

TEST_F(SegmentScope, WorkBeforeTheFirstSaveBelongsToItsSegmentToo) {
  session_.begin_step();
  {
    session::segment_scope const here(session_, pass::forward, 0, compute_);
    kernel();
    save(first);
  }
  {
    session::segment_scope const here(session_, pass::forward, 1, compute_);
    kernel();
    kernel();
    save(second);
  }
  backward_of_second();
  backward_of_first();
  session_.end_step();
  auto const step = recorded();
  ASSERT_EQ(step.segments.size(), 2U);
  EXPECT_EQ(step.segments[0].forward_us, 200);
  EXPECT_EQ(step.segments[1].forward_us, 300);
}

TEST_F(SegmentScope, OneAtATimeAndInAStep) {
  auto const enter = [&] { session::segment_scope const here(session_, pass::forward, 3, compute_); };
  expect_error<error>(enter, "enter_segment", "begin_step");
  session_.begin_step();
  {
    session::segment_scope const outer(session_, pass::forward, 2, compute_);
    expect_error<error>(enter, "enter_segment 3", "leave that one first");
  }
  EXPECT_NO_THROW(enter());
  expect_error<invalid_argument>([&] { session_.enter_segment(pass::forward, 0, {}); }, "stream is null");
}

TEST_F(SegmentScope, IsLeftByExceptionsAndAtTheStepsEnd) {
  auto const fail = [&] {
    session::step_scope const step(session_);
    session::segment_scope const here(session_, pass::forward, 0, compute_);
    save(first);
    throw std::runtime_error("the loss is no number");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  session_.begin_step();
  session_.enter_segment(pass::forward, 0, compute_);
  save(first);
  session_.end_step();
  session_.begin_step();
  EXPECT_NO_THROW(session_.enter_segment(pass::forward, 0, compute_));
  session_.leave_segment();
  session_.leave_segment();
  session_.end_step();
}

}  // namespace
}  // namespace ferry::testing
