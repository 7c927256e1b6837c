// What a plan predicts is what the session needs that follows it, to half a percent: on the sim device, for models,
// GPUs and budgets of every size. So more memory is never slower.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/model_profile.hpp"
#include "ferry/simulate.hpp"
#include "support/case_step.hpp"
#include "support/planner_cases.hpp"

namespace ferry {
namespace {

constexpr double accuracy = 0.005;
/// Where the link decides, a session may be quicker: it sends an item out when it is saved, a plan counts on the end of
/// its segment's forward.
constexpr double may_be_quicker = 0.015;

struct outcome {
  double predicted_us = 0;
  double run_us = 0;
  [[nodiscard]] double off() const { return run_us / predicted_us - 1; }
};

/// Nothing if no plan fits.
std::optional<outcome> plan_and_run(profile const& step, hardware const& on, std::size_t budget_bytes) {
  plan_options how;
  how.budget_bytes = budget_bytes;
  how.host_budget_bytes = on.host_bytes;
  how.insured = true;
  how.link_derating = 1;
  how.effort = 300;
  try {
    auto made = make_plan(step, on, how);
    simulation_options run;
    run.settings.log = log_level::off;
    run.settings.budget = byte_amount::exactly(budget_bytes);
    run.settings.host_budget = byte_amount::exactly(on.host_bytes);
    run.settings.min_bytes = 0;
    run.steps = 2;
    double const predicted_us = made.step_us;
    run.planned = std::move(made);
    return outcome{predicted_us, simulate(step, on, run).step_us};
  } catch (infeasible_budget const&) {
    return std::nullopt;
  }
}

void expect_as_predicted(outcome const& took, std::string const& what) {
  EXPECT_LE(took.off(), accuracy) << what;
  EXPECT_GE(took.off(), -may_be_quicker) << what;
}

struct sizes {
  int layers, width, heads, context, batch;
};

TEST(Prediction, OfModelsOnGpusIsWhatTheyTake) {
  int compared = 0;
  int exact = 0;
  for (auto const& [layers, width, heads, context, batch] :
       {sizes{8, 1024, 16, 1024, 4}, sizes{12, 768, 12, 512, 8}, sizes{16, 2048, 16, 1024, 2},
        sizes{6, 4096, 32, 2048, 1}}) {
    for (char const* const gpu : {"rtx4090", "a100-80", "t4", "h100-sxm", "laptop", "rtx3060", "l40s"}) {
      auto const on = named_hardware(gpu);
      auto const step =
          gpt_profile({.layers = layers, .width = width, .heads = heads, .context = context, .batch = batch}, on);
      double with_less_us = 0;
      for (double const share : {0.25, 0.3, 0.37, 0.45, 0.55, 0.64, 0.75, 0.85, 0.95}) {
        auto const name = fmt::format("{} layers of width {} on {}, {:.0f}%", layers, width, gpu, 100 * share);
        auto const took = plan_and_run(step, on, testing::bytes_of(step, share));
        if (!took) continue;
        ++compared;
        expect_as_predicted(*took, name);
        exact += std::abs(took->off()) <= accuracy ? 1 : 0;
        if (with_less_us > 0) {
          EXPECT_LE(took->run_us, (1 + accuracy) * with_less_us) << name << ": slower with more";
        }
        with_less_us = took->run_us;
      }
    }
  }
  EXPECT_GE(compared, 200);
  EXPECT_GE(exact, compared - 3);
}

TEST(Prediction, OfStoredCasesIsWhatTheyTake) {
  int compared = 0;
  for (auto const& name : testing::planner_case_names()) {
    auto const known = testing::load_planner_case(name);
    auto const& c = known.problem;
    if (c.stages() > 64) continue;
    auto const took = plan_and_run(testing::step_of(c), testing::hardware_of(c), testing::budget_of(c));
    if (!took) continue;
    ++compared;
    expect_as_predicted(*took, name);
  }
  EXPECT_GE(compared, 10);
}

}  // namespace
}  // namespace ferry
