// The referee accepts what is known to be right, with its numbers, and each of its rules fires.
#include "support/referee.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "support/planner_cases.hpp"

namespace ferry::testing {
namespace {

using planning::chain_op;
using planning::scheduled;
using ::testing::HasSubstr;
using schedule = std::vector<scheduled>;

constexpr planning::chain_tensor boundary(std::uint32_t i) { return {planning::chain_tensor::kind::boundary, i}; }
constexpr planning::chain_tensor saved(std::uint32_t i) { return {planning::chain_tensor::kind::saved, i}; }

scheduled run(double start_s, double end_s, chain_op op, std::uint32_t stage) {
  return {start_s, end_s, op, stage, {}};
}
scheduled copy(double start_s, double end_s, chain_op op, planning::chain_tensor t) {
  return {start_s, end_s, op, 0, t};
}
scheduled drop(double at_s, chain_op op, planning::chain_tensor t) { return {at_s, at_s, op, 0, t}; }

/// Two stages of 1 s forward and 2 s backward; 7 bytes hold everything.
planning::chain two_stages() {
  planning::chain c;
  c.forward_s = {1, 1};
  c.backward_s = {2, 2};
  c.boundary_bytes = {1, 1, 0};
  c.saved_bytes = {3, 2};
  c.forward_scratch_bytes = {0, 0};
  c.backward_scratch_bytes = {0, 0};
  c.device_bytes = 7;
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = 1;
  return c;
}

schedule keep_all() {
  return {run(0, 1, chain_op::forward_saving, 0), run(1, 2, chain_op::forward_saving, 1),
          run(2, 4, chain_op::backward, 1), run(4, 6, chain_op::backward, 0)};
}

/// Keeps all but the first input, which is away from 1 s to 3 s.
schedule ferry_input() {
  schedule rows = keep_all();
  rows.push_back(copy(0, 1, chain_op::d2h, boundary(0)));
  rows.push_back(drop(1, chain_op::drop_device, boundary(0)));
  rows.push_back(copy(3, 4, chain_op::h2d, boundary(0)));
  return rows;
}

/// Runs the first stage twice.
schedule recompute_first() {
  return {run(0, 1, chain_op::forward_only, 0), run(1, 2, chain_op::forward_saving, 1),
          run(2, 4, chain_op::backward, 1), run(4, 5, chain_op::forward_saving, 0), run(5, 7, chain_op::backward, 0)};
}

std::string violation(planning::chain const& c, schedule const& rows) { return judge(c, rows).violation; }
std::string violation(schedule const& rows) { return violation(two_stages(), rows); }

class StoredSchedule : public ::testing::TestWithParam<char const*> {};

TEST_P(StoredSchedule, IsAcceptedWithItsNumbers) {
  planner_case const c = load_planner_case(GetParam());
  verdict const v = judge(c.problem, schedule_from_rows(c.reference.at("best_schedule")));
  EXPECT_EQ(v.violation, "");
  EXPECT_NEAR(v.makespan_s, *c.known("best_combined_makespan"), 1e-12);
  EXPECT_DOUBLE_EQ(v.device_peak_bytes, *c.known("best_gpu_peak"));
  EXPECT_DOUBLE_EQ(v.host_peak_bytes, *c.known("best_host_peak"));
  EXPECT_DOUBLE_EQ(v.d2h_bytes, *c.known("best_d2h_bytes"));
  EXPECT_DOUBLE_EQ(v.h2d_bytes, *c.known("best_h2d_bytes"));
  EXPECT_EQ(static_cast<double>(v.forward_runs), *c.known("best_n_fwd"));
}

INSTANTIATE_TEST_SUITE_P(Cases, StoredSchedule,
                         ::testing::Values("a00_rand_L4", "a04_rand_L5", "a14_rand_L6_host", "z06_infinite_link"));

TEST(Referee, AcceptsKeepingFerryingAndRunningAgain) {
  verdict const kept = judge(two_stages(), keep_all());
  EXPECT_EQ(kept.violation, "");
  EXPECT_EQ(kept.makespan_s, 6);
  EXPECT_EQ(kept.device_peak_bytes, 7);
  EXPECT_EQ(kept.host_peak_bytes, 0);
  EXPECT_EQ(kept.forward_runs, 2U);

  verdict const ferried = judge(two_stages(), ferry_input());
  EXPECT_EQ(ferried.violation, "");
  EXPECT_EQ(ferried.device_peak_bytes, 7);  // back before the end of B(1)
  EXPECT_EQ(ferried.host_peak_bytes, 1);
  EXPECT_EQ(ferried.d2h_bytes, 1);
  EXPECT_EQ(ferried.h2d_bytes, 1);

  verdict const again = judge(two_stages(), recompute_first());
  EXPECT_EQ(again.violation, "");
  EXPECT_EQ(again.makespan_s, 7);
  EXPECT_EQ(again.device_peak_bytes, 6);
  EXPECT_EQ(again.forward_runs, 3U);
}

TEST(Referee, RefusesRowsThatMeanNothing) {
  schedule rows = keep_all();
  rows[0].start_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(violation(rows), HasSubstr("from a time to a later one"));
  rows = keep_all();
  rows[1].end_s = std::numeric_limits<double>::infinity();
  EXPECT_THAT(violation(rows), HasSubstr("from a time to a later one"));
  rows = keep_all();
  rows[1].stage = 2;
  EXPECT_THAT(violation(rows), HasSubstr("no such stage"));
  rows = ferry_input();
  rows[4].tensor = saved(2);
  EXPECT_THAT(violation(rows), HasSubstr("no such tensor"));
}

TEST(Referee, RefusesTwoOperationsOnOneEngine) {
  schedule rows = keep_all();
  rows[1].start_s = 0.5;
  rows[1].end_s = 1.5;
  EXPECT_THAT(violation(rows), HasSubstr("share an engine"));
  rows = ferry_input();
  rows.push_back(copy(0.5, 4, chain_op::d2h, saved(0)));
  EXPECT_THAT(violation(rows), HasSubstr("share an engine"));
  rows = ferry_input();
  rows.push_back(copy(3.5, 7, chain_op::h2d, saved(0)));
  EXPECT_THAT(violation(rows), HasSubstr("share an engine"));
}

TEST(Referee, RefusesOperationsOfAnotherLength) {
  schedule rows = keep_all();
  rows[3].end_s = 5.5;
  EXPECT_THAT(violation(rows), HasSubstr("should take 2 s"));
  rows[3].end_s = 6.5;
  EXPECT_THAT(violation(rows), HasSubstr("should take 2 s"));
}

TEST(Referee, RefusesCopiesFasterThanTheLink) {
  schedule rows = ferry_input();
  rows[4].end_s = 0.9;
  EXPECT_THAT(violation(rows), HasSubstr("takes at least 1 s"));
  rows = ferry_input();
  rows[6].start_s = 3.1;
  EXPECT_THAT(violation(rows), HasSubstr("takes at least 1 s"));
  planning::chain c = two_stages();
  c.h2d_bytes_per_s = 0;
  EXPECT_THAT(violation(c, ferry_input()), HasSubstr("takes at least inf s"));
  c = two_stages();
  c.d2h_latency_s = 0.25;
  EXPECT_THAT(violation(c, ferry_input()), HasSubstr("takes at least 1.25 s"));
}

TEST(Referee, AcceptsSlowerCopies) {
  schedule rows = ferry_input();
  rows[6].start_s = 2.5;
  EXPECT_EQ(violation(rows), "");
}

TEST(Referee, RefusesAnotherBackwardOrder) {
  schedule rows = keep_all();
  std::swap(rows[2].stage, rows[3].stage);
  EXPECT_THAT(violation(rows), HasSubstr("from the last stage to the first"));
  rows = keep_all();
  rows.pop_back();
  EXPECT_THAT(violation(rows), HasSubstr("1 of 2 stages have a backward"));
  rows = keep_all();
  rows.push_back(run(6, 8, chain_op::backward, 0));
  EXPECT_THAT(violation(rows), HasSubstr("once each"));
  EXPECT_THAT(violation({}), HasSubstr("0 of 2 stages have a backward"));
}

TEST(Referee, RefusesMissingInputs) {
  schedule rows = keep_all();
  rows.push_back(drop(1, chain_op::drop_device, boundary(0)));
  EXPECT_THAT(violation(rows), HasSubstr("its input X[0] is not on the device throughout: backward 0"));
  rows = keep_all();
  rows.push_back(drop(5, chain_op::drop_device, boundary(0)));  // in the middle of its use
  EXPECT_THAT(violation(rows), HasSubstr("its input X[0] is not on the device throughout: backward 0"));
  rows = ferry_input();
  rows[6].start_s = 3.5;  // comes after B(0) has started
  rows[6].end_s = 4.5;
  EXPECT_THAT(violation(rows), HasSubstr("its input X[0]"));
}

TEST(Referee, TakesTheOutputOfASavedStageAsInput) {
  schedule rows = recompute_first();
  rows.push_back(drop(1, chain_op::drop_device, boundary(1)));
  EXPECT_THAT(violation(rows), HasSubstr("its input X[1]"));
  rows = keep_all();
  rows.push_back(drop(1, chain_op::drop_device, saved(0)));
  EXPECT_THAT(violation(rows), HasSubstr("its input X[1]"));
}

TEST(Referee, RefusesBackwardWithoutWhatWasSaved) {
  schedule rows = keep_all();
  rows.push_back(drop(4, chain_op::drop_device, saved(0)));
  EXPECT_THAT(violation(rows), HasSubstr("S[0] is not on the device throughout: backward 0"));
  rows = recompute_first();
  rows[3].op = chain_op::forward_only;
  rows.push_back(drop(2, chain_op::drop_device, boundary(1)));
  EXPECT_NE(violation(rows), "");
}

TEST(Referee, RefusesCopiesWithoutASource) {
  schedule rows = ferry_input();
  rows[5] = drop(0.5, chain_op::drop_device, boundary(0));
  rows[0].start_s = 0;
  EXPECT_NE(violation(rows), "");
  rows = keep_all();
  rows.push_back(copy(0, 3, chain_op::d2h, saved(0)));  // not made yet
  EXPECT_THAT(violation(rows), HasSubstr("its source is not on the device throughout"));
  rows = ferry_input();
  rows.push_back(drop(2, chain_op::drop_host, boundary(0)));
  EXPECT_THAT(violation(rows), HasSubstr("its source is not on the host throughout"));
  rows = ferry_input();
  rows.push_back(drop(3.5, chain_op::drop_host, boundary(0)));  // in the middle of the copy
  EXPECT_THAT(violation(rows), HasSubstr("its source is not on the host throughout"));
  rows = keep_all();
  rows.push_back(drop(1, chain_op::drop_device, boundary(0)));
  rows.push_back(copy(3, 4, chain_op::h2d, boundary(0)));  // never copied out
  EXPECT_THAT(violation(rows), HasSubstr("its source is not on the host throughout"));
}

TEST(Referee, RefusesToMakeWhatIsThere) {
  schedule rows = ferry_input();
  rows.erase(rows.begin() + 5);
  EXPECT_THAT(violation(rows), HasSubstr("X[0] is made on the device at 3 while it is there since 0"));
  rows = ferry_input();
  rows.push_back(copy(4, 5, chain_op::d2h, boundary(0)));
  EXPECT_THAT(violation(rows), HasSubstr("X[0] is made on the host at 4 while it is there since 0"));
}

TEST(Referee, ChargesTensorsGradientsAndScratch) {
  planning::chain c = two_stages();
  c.device_bytes = 6.5;
  EXPECT_THAT(violation(c, keep_all()), HasSubstr("device memory holds 7 bytes at 2 s"));
  // All gradients count: of X[2] during B(1), of X[1] until the end of B(0).
  c = two_stages();
  c.boundary_bytes[2] = 0.5;
  EXPECT_THAT(violation(c, keep_all()), HasSubstr("at 2 s"));
  c = two_stages();
  c.saved_bytes = {3, 0.5};
  c.device_bytes = 5.9;
  EXPECT_THAT(violation(c, keep_all()), HasSubstr("device memory holds 6 bytes at 4 s"));
  c = two_stages();
  c.forward_scratch_bytes = {4, 0};
  EXPECT_THAT(violation(c, keep_all()), HasSubstr("device memory holds 8 bytes at 0 s"));
  c = two_stages();
  c.backward_scratch_bytes = {2, 0};
  EXPECT_THAT(violation(c, keep_all()), HasSubstr("device memory holds 8 bytes at 4 s"));
  c = two_stages();
  c.passing_scratch_bytes = {6, 0};
  EXPECT_EQ(violation(c, keep_all()), "");
  EXPECT_THAT(violation(c, recompute_first()), HasSubstr("device memory holds 8 bytes at 0 s"));
}

TEST(Referee, ChargesWhatIsInFlight) {
  // Away, X[0] is not charged; on its way back it is, from the start.
  planning::chain c = two_stages();
  c.device_bytes = 6;
  EXPECT_THAT(violation(c, ferry_input()), HasSubstr("device memory holds 7 bytes at 3 s"));
  schedule rows = ferry_input();
  rows[6] = copy(4, 5, chain_op::h2d, boundary(0));
  rows[3] = run(5, 7, chain_op::backward, 0);
  EXPECT_EQ(violation(c, rows), "");
  c.host_bytes = 0.5;
  EXPECT_THAT(violation(c, rows), HasSubstr("host memory holds 1 bytes at 0 s"));
}

TEST(Referee, FreesBeforeItAllocates) {
  // X[1] goes and S[0] comes at 4 s.
  planning::chain c = two_stages();
  c.device_bytes = 6;
  EXPECT_EQ(violation(c, recompute_first()), "");
}

TEST(Referee, KnowsStagesThatCannotRunAgain) {
  planning::chain c = two_stages();
  c.must_save = {true, false};
  EXPECT_EQ(violation(c, keep_all()), "");
  EXPECT_THAT(violation(c, recompute_first()), HasSubstr("cannot be run again"));
}

TEST(Referee, FollowsAStageSavedInPart) {
  planning::chain const c = two_stages();
  partial_savings savings(2);
  savings[0] = planning::saving_option{.kept_bytes = 1, .ferried_bytes = 1, .rebuilt_bytes = 1, .rebuild_s = 0.5};
  schedule rows{run(0, 1, chain_op::forward_saving, 0), copy(1, 2, chain_op::d2h, saved(0)),
                run(1, 2, chain_op::forward_saving, 1), drop(2, chain_op::drop_device, saved(0)),
                run(2, 4, chain_op::backward, 1),       copy(3, 4, chain_op::h2d, saved(0)),
                run(4, 4.5, chain_op::rebuild, 0),      run(4.5, 6.5, chain_op::backward, 0)};
  verdict const v = referee(c, savings).judge(rows);
  EXPECT_EQ(v.violation, "");
  EXPECT_EQ(v.makespan_s, 6.5);
  EXPECT_EQ(v.device_peak_bytes, 6);
  EXPECT_EQ(v.d2h_bytes, 1);
  EXPECT_EQ(v.forward_runs, 2U);

  schedule without = rows;
  without.erase(without.begin() + 6);
  EXPECT_THAT(referee(c, savings).judge(without).violation, HasSubstr("S[0] is not on the device"));
  without = rows;
  without.erase(without.begin() + 5);
  EXPECT_THAT(referee(c, savings).judge(without).violation, HasSubstr("what was saved is not on the device"));
  EXPECT_THAT(referee(c).judge(rows).violation, HasSubstr("nothing to rebuild"));
  savings[0]->output_stays = false;
  EXPECT_THAT(referee(c, savings).judge(rows).violation, HasSubstr("its input X[1]"));
}

}  // namespace
}  // namespace ferry::testing
