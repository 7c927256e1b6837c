// Even mixes: good first plans where stages are alike, none where they are not, and what they may use.
#include "plan/even_mixes.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ferry/model_profile.hpp"
#include "plan/chain_solver.hpp"
#include "plan/step_chain.hpp"
#include "support/random_chains.hpp"

namespace ferry::planning {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

profile gpt2_xl(hardware const& on) {
  return gpt_profile({.layers = 48, .width = 1600, .heads = 25, .context = 1024, .batch = 8}, on);
}

chain inside_chain(plan_options const& how) {
  auto const on = named_hardware("rtx4090");
  return make_step_chain(gpt2_xl(on), on, how, true).problem;
}

std::vector<chain_plan> mixes_of(chain const& c) {
  replay_table const replays(c);
  chain_simulator simulator(c, replays);
  return even_mixes(c, simulator, 8);
}

TEST(EvenMixes, AreGoodFirstPlansOfATransformer) {
  auto const c = inside_chain({.budget_bytes = 8651 * mib, .insured = true});
  replay_table const replays(c);
  chain_simulator simulator(c, replays);
  auto const plans = even_mixes(c, simulator, 8);
  ASSERT_FALSE(plans.empty());
  double const seconds = simulator.run(plans.front());
  EXPECT_LE(seconds, 1.03 * c.ideal_s());
  EXPECT_GT(simulator.sent_bytes(), 0);
  for (auto const& plan : plans) EXPECT_GE(simulator.run(plan), seconds) << "the best comes first";
}

TEST(EvenMixes, SoThatAPlanWithoutASearchIsCloseToOneThatWasSearchedFor) {
  auto const on = named_hardware("rtx4090");
  plan_options how{.budget_bytes = 8651 * mib, .effort = 1};
  auto const first = make_plan(gpt2_xl(on), on, how);
  EXPECT_LE(first.overhead(), 0.03);
  how.effort = 2000;
  auto const searched = make_plan(gpt2_xl(on), on, how);
  EXPECT_LE(searched.step_us, first.step_us * (1 + 1e-9));
}

TEST(EvenMixes, MoveNothingWithoutALinkAndNoInputWhereInsured) {
  auto c = inside_chain({.budget_bytes = 8651 * mib, .insured = true});
  for (auto const& plan : mixes_of(c)) {
    EXPECT_TRUE(std::ranges::none_of(
        plan, [](stage_plan const& one) { return one.saving == ferried_whole || one.input == input_mark::ferried; }));
  }
  c.d2h_bytes_per_s = c.h2d_bytes_per_s = 0;
  auto const plans = mixes_of(c);
  ASSERT_FALSE(plans.empty());
  for (std::size_t i = 0; i < c.stages(); ++i) {
    EXPECT_EQ(saving_of(c, i, std::max(kept_whole, plans.front()[i].saving)).ferried_bytes, 0);
  }
}

TEST(EvenMixes, AreNotTriedWhereStagesDifferOrNothingFits) {
  auto different = testing::long_random_chain(5, 24, 24);
  testing::set_budget(different, 0.3);
  EXPECT_TRUE(mixes_of(different).empty());
  EXPECT_TRUE(mixes_of(inside_chain({.budget_bytes = mib, .insured = true})).empty());
}

}  // namespace
}  // namespace ferry::planning
