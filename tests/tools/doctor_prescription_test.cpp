// Prescriptions: forecasts that agree with the real session and the real planner, what is advised when, and the
// warnings.
#include "doctor/prescription.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "common/step_flags.hpp"
#include "doctor/doctor_text.hpp"
#include "doctor/product_rate.hpp"
#include "ferry/model_profile.hpp"
#include "ferry/simulate.hpp"
#include "plan/step_chain.hpp"

namespace ferry::command {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::size_t gib = std::size_t{1} << 30;

model gpt_1b(int batch = 8) {
  return completed({.kind = model_kind::gpt,
                    .name = "gpt",
                    .layers = 24,
                    .width = 2048,
                    .heads = 16,
                    .context = 2048,
                    .batch = batch});
}

question asked(model of, char const* gpu, training how = {}) {
  auto const on = named_hardware(gpu);
  return {.of = std::move(of), .how = how, .on = on, .reserve = gib, .host_memory = on.host_bytes, .bf16 = true};
}

desk desk_with(model of, char const* gpu, std::size_t budget) {
  auto const on = named_hardware(gpu);
  return {.of = std::move(of), .how = {}, .on = on, .budget = budget, .host_budget = pinnable(on.host_bytes)};
}

/// Of eight GPUs that divide everything.
desk shared_desk(interconnect between, int batch = 4) {
  desk at = desk_with(gpt_1b(batch), "a100-40", 8 * gib);
  at.how = {.zero = 3, .ranks = 8};
  at.between = between;
  return at;
}

/// What the real session does in virtual time.
simulation simulated(desk const& at, policy_kind policy) {
  simulation_options how;
  how.settings.policy.kind = policy;
  how.settings.budget = byte_amount::exactly(at.budget);
  how.settings.host_budget = byte_amount::exactly(at.host_budget);
  how.settings.log = log_level::off;
  how.steps = 2;
  return simulate(step_of(at.of, at.how, at.on), at.on, how);
}

TEST(DoctorForecast, RecomputingIsWhatTheSessionDoes) {
  desk const at = desk_with(gpt_1b(), "a100-40", 8 * gib);
  auto const predicted = recomputing(at, at.of.batch);
  ASSERT_TRUE(predicted);
  auto const real = simulated(at, policy_kind::recompute);
  EXPECT_NEAR(predicted->step_us / real.step_us, 1, 0.02);
  EXPECT_NEAR(static_cast<double>(predicted->peak_bytes) / static_cast<double>(real.stats.device.peak_bytes), 1, 0.15);
  EXPECT_EQ(predicted->out_bytes, 0U);
  // All but the inputs is made twice: a forward less what makes inputs, of three forwards.
  EXPECT_GT(predicted->recompute_flops_share, 0.15);
  EXPECT_LT(predicted->recompute_flops_share, 1 / 3.0);
}

TEST(DoctorForecast, OffloadingIsWhatTheSessionDoes) {
  model small = gpt_1b(4);
  small.layers = 6;
  desk const at = desk_with(small, "a100-40", 2 * gib);
  auto const predicted = offloading(at, at.of.batch);
  ASSERT_TRUE(predicted);
  auto const real = simulated(at, policy_kind::offload);
  EXPECT_NEAR(predicted->step_us / real.step_us, 1, 0.2) << "the session takes recipes where a transfer is late";
  EXPECT_GT(predicted->out_bytes, gib / 2);
  EXPECT_EQ(predicted->recompute_us, 0);
}

TEST(DoctorForecast, KeepingAllTakesTheTimeOfTheStep) {
  desk const at = desk_with(gpt_1b(2), "a100-40", 16 * gib);
  auto const kept = keeping_all(at, 2);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->overhead(), 0);
  EXPECT_EQ(kept->peak_bytes, activations_of(at.of, step_of(at.of, at.how, at.on)).sum());
  auto const real = simulated(at, policy_kind::keep);
  EXPECT_NEAR(kept->step_us / real.step_us, 1, 0.01);
  auto const halves = keeping_all(at, 1);
  ASSERT_TRUE(halves);
  EXPECT_EQ(halves->accumulate, 2);
  EXPECT_LT(halves->peak_bytes, 6 * kept->peak_bytes / 10);
  EXPECT_GT(halves->step_us, kept->step_us) << "smaller products are slower";
  EXPECT_LT(halves->step_us, 1.2 * kept->step_us);
  EXPECT_FALSE(keeping_all(desk_with(gpt_1b(2), "a100-40", kept->peak_bytes - 1), 2));
}

TEST(DoctorForecast, PlansNeverExceedTheBudgetAndBeatTheRules) {
  for (std::size_t const budget : {4 * gib, 8 * gib, 16 * gib}) {
    desk const at = desk_with(gpt_1b(), "a100-40", budget);
    auto const planned = by_planner(at, at.of.batch);
    ASSERT_TRUE(planned);
    EXPECT_LE(planned->peak_bytes, budget);
    if (auto const other = recomputing(at, at.of.batch)) {
      EXPECT_LE(planned->step_us, 1.0001 * other->step_us);
    }
    if (auto const other = offloading(at, at.of.batch)) {
      EXPECT_LE(planned->step_us, 1.0001 * other->step_us);
    }
  }
}

/// Whoever asks `ferry plan` about the same step and budgets gets the same answer.
TEST(DoctorForecast, ThePlanIsThatOfThePlanCommand) {
  model small = *named_model("gpt2");
  small.batch = 16;
  desk const at = desk_with(completed(small), "rtx3060", 2 * gib);
  auto const forecast = by_planner(at, at.of.batch);
  ASSERT_TRUE(forecast);
  auto const on = named_hardware("rtx3060");
  auto const step = gpt_profile({.layers = 12, .width = 768, .heads = 12, .context = 1024, .batch = 16}, on);
  auto const planned = make_plan(
      step, on, {.budget_bytes = at.budget, .host_budget_bytes = at.host_budget, .effort = quick_effort(step)});
  EXPECT_EQ(forecast->step_us, planned.step_us);
  EXPECT_EQ(forecast->out_bytes, planned.offloaded_bytes);
  EXPECT_EQ(forecast->host_bytes, planned.host.peak);
  EXPECT_EQ(forecast->peak_bytes, planned.device.peak);
}

TEST(DoctorForecast, NoPlanBeatsTheBound) {
  for (int const part : {8, 4}) {
    desk const at = desk_with(gpt_1b(), "rtx4090", 4 * gib);
    auto const made = by_planner(at, part);
    ASSERT_TRUE(made);
    EXPECT_LE(least_us(at, part), made->step_us);
    EXPECT_GT(least_us(at, part), 0.8 * made->step_us);
  }
  EXPECT_FALSE(std::isfinite(least_us(desk_with(gpt_1b(), "rtx4090", gib / 8), 8)));
}

TEST(DoctorForecast, WithoutHostMemoryNothingIsFerried) {
  desk at = desk_with(gpt_1b(), "a100-40", 8 * gib);
  at.host_budget = 0;
  auto const made = by_planner(at, 8);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->out_bytes, 0U);
  EXPECT_FALSE(offloading(at, 8));
}

TEST(DoctorForecast, SmallerPartsMakeSlowerProducts) {
  auto const on = named_hardware("a100-40");
  model const of = gpt_1b(8);
  EXPECT_EQ(slowdown_of_parts(of, on, 8), 1);
  EXPECT_GT(slowdown_of_parts(of, on, 2), slowdown_of_parts(of, on, 4));
  EXPECT_GT(slowdown_of_parts(of, on, 1), 1.05);
  EXPECT_LT(slowdown_of_parts(of, on, 1), 1.3) << "2048 rows still fill a GPU";
  model wide = of;
  wide.context *= 8;
  EXPECT_LT(slowdown_of_parts(wide, on, 1), slowdown_of_parts(of, on, 1)) << "rows count, not sequences";
  EXPECT_GT(fixed_rows(on, precision::fp32), fixed_rows(on, precision::bf16)) << "weights of twice the bytes";
}

TEST(DoctorExchange, SendsWhatIsDivided) {
  model const of = gpt_1b(4);
  std::size_t const weights = 2 * parameters_of(of) / 8 * 7;
  auto const near = [&](std::size_t bytes, std::size_t times) {
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(times * weights), 100);
  };
  near(exchange_of(of, {.zero = 3, .ranks = 8}, 1).sum(), 3);
  near(exchange_of(of, {.zero = 3, .ranks = 8}, 4).sum(), 12);
  near(exchange_of(of, {.zero = 2, .ranks = 8}, 4).sum(), 5);
  near(exchange_of(of, {.zero = 1, .ranks = 8}, 4).sum(), 2);
  EXPECT_EQ(exchange_of(of, {}, 4).sum(), 0U);
  // Of adapters all weights travel, but the gradients of theirs alone.
  training const adapted{.zero = 3, .ranks = 8, .lora = 16};
  auto const exchanged = exchange_of(of, adapted, 1);
  double const adapters = 4.0 * static_cast<double>(trained_parameters_of(of, adapted));
  double const stored = 2.0 * static_cast<double>(parameters_of(of)) + adapters;
  EXPECT_NEAR(static_cast<double>(exchanged.forward_bytes), stored * 7 / 8, 2);
  EXPECT_NEAR(static_cast<double>(exchanged.backward_bytes), (stored + adapters) * 7 / 8, 4);
  EXPECT_EQ(exchange_of(of, {.optimizer = optimizer_kind::none, .zero = 1, .ranks = 8}, 1).sum(), 0U);
}

TEST(DoctorExchange, CostsWhatComputeDoesNotHide) {
  auto const fast = by_planner(shared_desk({interconnect_kind::nvlink, 230}), 4);
  auto const slow = by_planner(shared_desk({interconnect_kind::pcie, 2}), 4);
  ASSERT_TRUE(fast && slow);
  EXPECT_LT(fast->exposed_exchange_us, 0.05 * fast->exchange_us);
  EXPECT_GT(slow->exposed_exchange_us, 0.5 * slow->exchange_us);
  EXPECT_GT(slow->step_us, fast->step_us);
  EXPECT_EQ(slow->exchanged_bytes, fast->exchanged_bytes);
  EXPECT_GE(slow->step_us, slow->exchange_us) << "no step is shorter than what it sends";
}

TEST(DoctorExchange, TakesTheLinkFromOffloading) {
  auto const at = shared_desk({interconnect_kind::pcie, 12});
  part_of_step const part(at, 4);
  EXPECT_LT(part.on.device_to_host.gbps, at.on.device_to_host.gbps - 1);
  EXPECT_GT(part.on.device_to_host.gbps, at.on.device_to_host.gbps - 12.1);
  part_of_step const apart(shared_desk({interconnect_kind::nvlink, 12}), 4);
  EXPECT_EQ(apart.on.device_to_host.gbps, at.on.device_to_host.gbps);
}

TEST(DoctorExchange, IsSlowedByCopiesToTheHost) {
  auto const of = exchange_of(gpt_1b(4), {.zero = 3, .ranks = 8}, 1);
  interconnect const over{interconnect_kind::nvlink, 1};
  EXPECT_NEAR(times_of(of, over, 0, 0, true).all_us / times_of(of, over, 0, 0, false).all_us, 1.1, 1e-9);
}

TEST(DoctorExchange, KnowsWhatGpusUsuallyHave) {
  EXPECT_EQ(usual_interconnect(named_hardware("a100-80"), 8), interconnect_kind::nvlink);
  EXPECT_EQ(usual_interconnect(named_hardware("h100-pcie"), 8), interconnect_kind::pcie);
  EXPECT_EQ(usual_interconnect(named_hardware("rtx4090"), 2), interconnect_kind::pcie);
  EXPECT_EQ(usual_interconnect(named_hardware("a100-80"), 16), interconnect_kind::ethernet);
  for (auto const kind : {interconnect_kind::nvlink, interconnect_kind::pcie, interconnect_kind::ethernet}) {
    EXPECT_EQ(interconnect_named(to_string(kind)), kind);
    EXPECT_GT(usual_gbps(kind, named_hardware("rtx4090")), 0);
  }
  EXPECT_FALSE(interconnect_named("carrier pigeon"));
}

/// The quick bound, by three layers, is the planner's own: a plan exists with it, and with less none does.
TEST(DoctorForecast, TheLeastBytesAreThePlanners) {
  for (bool const flash : {true, false}) {
    for (int const batch : {1, 6}) {
      model of = gpt_1b(batch);
      of.flash = flash;
      desk const at = desk_with(of, "rtx4090", gib);
      std::size_t const quick = least_bytes(at, batch);
      profile const step = step_of(of, {}, at.on);
      std::size_t const exact = planning::smallest_budget(
          step, at.on, {.budget_bytes = 1, .host_budget_bytes = at.host_budget, .insured = false});
      EXPECT_GE(exact, quick);
      EXPECT_LE(static_cast<double>(exact), 1.002 * static_cast<double>(quick)) << batch << (flash ? " flash" : "");
    }
  }
}

TEST(DoctorForecast, TheQuickBoundsHoldForFrozenBlocksEagerKernelsAndAdapters) {
  model of = gpt_1b(2);
  for (auto const& [frozen, how] : {std::pair<int, training>{20, {}},
                                    {0, {.kernels = kernel_kind::eager}},
                                    {22, {.kernels = kernel_kind::eager}},
                                    {0, {.kernels = kernel_kind::eager, .lora = 16, .nf4 = true}}}) {
    of.frozen = frozen;
    desk at = desk_with(of, "rtx4090", gib);
    at.how = how;
    std::size_t const kept = activations_of(of, step_of(of, how, at.on)).sum();
    at.budget = kept;
    EXPECT_EQ(largest_batch(at).kept, 2) << frozen;
    auto const planned = by_planner(at, 2);
    ASSERT_TRUE(planned);
    EXPECT_LE(planned->peak_bytes, kept);
    at.budget = kept / 2 + least_bytes(at, 2) / 2;
    EXPECT_LE(least_bytes(at, 2), kept);
    EXPECT_TRUE(by_planner(at, 2));
  }
}

TEST(DoctorForecast, TheLargestSizesFitAndOneMoreDoesNot) {
  desk const at = desk_with(gpt_1b(), "a100-40", 12 * gib);
  auto const batch = largest_batch(at);
  auto const kept_with = [&](int value) {
    model of = gpt_1b(value);
    return activations_of(of, step_of(of, {}, at.on)).sum();
  };
  ASSERT_GT(batch.kept, 0);
  EXPECT_LE(kept_with(batch.kept), at.budget);
  EXPECT_GT(kept_with(batch.kept + 1), at.budget);
  EXPECT_GT(batch.planned, 4 * batch.kept);
  EXPECT_LE(least_bytes(at, batch.planned), at.budget);
  desk bigger = at;
  bigger.of.batch = batch.planned;
  EXPECT_TRUE(by_planner(bigger, batch.planned)) << "some plan is found";
  EXPECT_GT(least_bytes(at, batch.planned + 1), at.budget);
  auto const context = largest_context(at);
  EXPECT_GT(context.planned, at.of.context);
  EXPECT_GE(context.planned, context.kept);
}

TEST(Doctor, KeepsEverythingWhereThatFits) {
  auto const made = prescribe(asked(gpt_1b(1), "a100-80"));
  EXPECT_TRUE(made.memory.fits());
  ASSERT_TRUE(made.advised);
  EXPECT_EQ(made.advised->policy, "keep");
  EXPECT_EQ(made.advised->overhead(), 0);
  EXPECT_THAT(made.remedies, IsEmpty());
  EXPECT_GE(made.batch.kept, 1);
  EXPECT_EQ(made.variables[0], (std::pair<std::string, std::string>("FERRY_POLICY", "keep")));
}

TEST(Doctor, PlansWhereEverythingDoesNotFit) {
  auto const made = prescribe(asked(gpt_1b(), "a100-40"));
  EXPECT_FALSE(made.memory.fits());
  EXPECT_TRUE(made.memory.states_fit());
  ASSERT_TRUE(made.advised);
  EXPECT_EQ(made.advised->policy, "auto");
  EXPECT_EQ(made.advised->micro_batch, 8);
  EXPECT_LE(made.advised->peak_bytes, made.budget);
  EXPECT_EQ(made.budget, (40 * gib - gib - made.memory.states.sum()) >> 20 << 20) << "as FERRY_BUDGET can say it";
  ASSERT_THAT(made.alternatives, SizeIs(3));
  EXPECT_LE(made.advised->step_us, 1.005 * made.alternatives[0].step_us);
  EXPECT_LE(made.alternatives[0].step_us, 1.005 * made.alternatives[1].step_us);
  EXPECT_THAT(made.warnings, Contains(HasSubstr("offloading everything cannot be hidden")));
  EXPECT_THAT(made.warnings, Contains(HasSubstr("attention is already flash")));
  EXPECT_THAT(made.warnings, Contains(HasSubstr("but for the order of sums")));
}

forecast one_that(char const* policy, double step_us, std::size_t out_bytes, int accumulate) {
  forecast one;
  one.policy = policy;
  one.step_us = step_us;
  one.out_bytes = out_bytes;
  one.accumulate = accumulate;
  return one;
}

TEST(Doctor, RanksByTimeAndThenByWhatIsNeeded) {
  auto const all =
      ranked({one_that("offload", 1000, 5, 1), one_that("auto", 1001, 0, 4), one_that("recompute", 1300, 0, 1),
              one_that("sqrt", 1004, 0, 1), one_that("keep", 1100, 0, 1)});
  std::vector<std::string> order;
  for (auto const& one : all) order.push_back(one.policy);
  EXPECT_THAT(order, ::testing::ElementsAre("sqrt", "auto", "offload", "keep", "recompute"));
}

TEST(Doctor, NeverPrescribesWhatOneOfItsAlternativesBeats) {
  for (char const* gpu : {"rtx4090", "rtx3060", "a100-40", "t4"}) {
    for (int const batch : {1, 6, 8}) {
      model of = gpt_1b(batch);
      of.layers = 12;
      auto const made = prescribe(asked(of, gpu, {.optimizer = optimizer_kind::adamw8bit}));
      if (!made.advised) continue;
      EXPECT_THAT(made.alternatives, Each(Field(&forecast::step_us, ::testing::Ge(made.advised->step_us / 1.005))))
          << gpu << batch;
    }
  }
}

TEST(Doctor, ShowsWhatTheGpusOfAMachinePinTogether) {
  auto const made = prescribe(asked(gpt_1b(16), "rtx4090", {.zero = 3, .ranks = 4}));
  ASSERT_TRUE(made.advised);
  ASSERT_GT(made.advised->host_bytes, 0U);
  EXPECT_GT(made.advised->exchanged_bytes, 0U);
  auto const text = text_of_prescription(made);
  EXPECT_THAT(text, HasSubstr("by the 4 GPUs of a machine"));
  EXPECT_THAT(text, HasSubstr("each way over pcie at "));
}

TEST(Doctor, SaysSoWhereActivationsAreNotTheProblem) {
  model of = gpt_1b(4);
  of.layers = 32;
  of.width = 4096;
  of.hidden = 4 * of.width;
  of.heads = 32;
  of.context = 4096;
  auto const made = prescribe(asked(of, "rtx4090"));
  EXPECT_FALSE(made.memory.states_fit());
  EXPECT_THAT(made.warnings, Contains(HasSubstr("activations are not the problem")));
  ASSERT_FALSE(made.remedies.empty());
  ASSERT_TRUE(made.instead);
  EXPECT_EQ(made.instead->zero, 3);
  EXPECT_TRUE(made.memory_instead.states_fit());
  ASSERT_TRUE(made.advised);
  EXPECT_LE(made.advised->peak_bytes, made.budget);
  // Half of the ranks would not do.
  training fewer = *made.instead;
  fewer.ranks /= 2;
  EXPECT_FALSE(memory_of(of, fewer, step_of(of, fewer, named_hardware("rtx4090")), 24 * gib, gib).states_fit() &&
               prescribe(asked(of, "rtx4090", fewer)).advised);
}

TEST(Doctor, TakesSmallerPartsWhereTheWholeBatchFitsNoPlan) {
  model of = gpt_1b(64);
  of.layers = 4;
  of.context = 8192;
  auto const made = prescribe(asked(of, "rtx3060"));
  ASSERT_TRUE(made.advised);
  EXPECT_GT(made.least_bytes, made.budget);
  EXPECT_LT(made.advised->micro_batch, 64);
  EXPECT_EQ(made.advised->micro_batch * made.advised->accumulate, 64);
  EXPECT_LE(made.advised->peak_bytes, made.budget);
}

TEST(Doctor, HasNoPrescriptionForWhatFitsNowhere) {
  model of = gpt_1b(1);
  of.context = 1 << 20;
  of.flash = false;
  auto const made = prescribe(asked(of, "t4"));
  EXPECT_FALSE(made.advised);
  EXPECT_THAT(made.variables, IsEmpty());
  EXPECT_THAT(text_of_prescription(made), HasSubstr("none: "));
}

TEST(Doctor, WarnsOfTooLittleHostMemoryAndMissingBf16) {
  auto of = asked(gpt_1b(16), "t4", {.zero = 3, .ranks = 16});
  of.host_memory = 4 * gib;
  of.bf16 = false;
  auto const made = prescribe(of);
  ASSERT_TRUE(made.advised);
  EXPECT_LE(made.advised->host_bytes, pinnable(of.host_memory));
  EXPECT_THAT(made.warnings, Contains(HasSubstr("host memory")));
  EXPECT_THAT(made.warnings, Contains(HasSubstr("t4 has no bf16")));
}

TEST(Doctor, SaysHowLogitsAreMadeAndWhatTheOtherWayWouldNeed) {
  auto const portions = prescribe(asked(gpt_1b(), "a100-80"));
  EXPECT_THAT(portions.assumptions,
              Contains(HasSubstr("logits in portions, each of which becomes its own gradient: 256 MiB; all at once")));
  EXPECT_THAT(portions.assumptions, Contains(HasSubstr("that would be 10.7 GiB (--logits whole)")));
  auto const whole = prescribe(asked(gpt_1b(), "a100-80", {.whole_logits = true}));
  EXPECT_THAT(whole.assumptions, Contains(HasSubstr("in portions that would be 256 MiB (--logits portions)")));
}

TEST(Doctor, SaysWhetherThereIsACopyInFp32) {
  EXPECT_THAT(prescribe(asked(gpt_1b(1), "a100-80")).assumptions, Contains(HasSubstr("(--master none: without)")));
  EXPECT_THAT(prescribe(asked(gpt_1b(1), "a100-80", {.master = false})).assumptions,
              Contains(HasSubstr("without an fp32 copy of the weights")));
}

TEST(Doctor, SaysWhatExplicitAttentionCosts) {
  model of = gpt_1b();
  of.flash = false;
  auto const made = prescribe(asked(of, "a100-80"));
  EXPECT_THAT(made.warnings, Contains(HasSubstr("the attention's probabilities are 1.00 GiB a layer")));
  EXPECT_THAT(made.warnings, Not(Contains(HasSubstr("already flash"))));
}

TEST(Doctor, TheJsonHasWhatTheTextHas) {
  auto const made = prescribe(asked(gpt_1b(), "a100-40"));
  auto const all = json_of_prescription(made);
  EXPECT_EQ(all["ferry_doctor"], 1);
  EXPECT_EQ(all["memory"]["weights_bytes"], made.memory.states.weights);
  EXPECT_EQ(all["memory"]["activations"].size(), made.memory.activations.operations.size());
  EXPECT_EQ(all["prescription"]["policy"], "auto");
  EXPECT_EQ(all["prescription"]["step_us"], made.advised->step_us);
  EXPECT_EQ(all["alternatives"].size(), 3U);
  EXPECT_EQ(all["interconnect"]["kind"], "nvlink");
  EXPECT_EQ(all["prescription"]["exchanged_bytes"], 0);
  EXPECT_EQ(all["variables"]["FERRY_POLICY"], "auto");
  EXPECT_EQ(all["warnings"].size(), made.warnings.size());
  auto const text = text_of_prescription(made);
  for (char const* words : {"Where memory goes", "weights", "Prescription", "predicted", "Alternatives", "Room",
                            "Beware", "export FERRY_POLICY=auto", "export FERRY_BUDGET=", "not measurements"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  EXPECT_THAT(text, Not(HasSubstr(" \n"))) << "no line ends with a space";
}

}  // namespace
}  // namespace ferry::command
