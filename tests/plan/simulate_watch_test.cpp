// Watching a simulated step: the moments come in their order, and being watched changes nothing that is decided before
// a segment is entered.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ferry/session.hpp"
#include "ferry/simulate.hpp"

namespace {

using namespace ferry;
using moment = simulation_moment::kind;

profile chain() { return read_profile(FERRY_EXAMPLES "/profiles/chain_of_eight.json"); }

hardware machine() {
  hardware on = named_hardware("a100-80");
  on.device_bytes = std::size_t{1} << 30;
  on.host_bytes = std::size_t{1} << 30;
  return on;
}

simulation_options following(std::string const& policy, std::size_t budget_mib) {
  simulation_options how;
  how.settings.set("FERRY_POLICY", policy);
  how.settings.budget = byte_amount::exactly(budget_mib << 20);
  how.settings.log = log_level::off;
  return how;
}

TEST(SimulationWatch, TellsOfTheLastStepInItsOrder) {
  auto how = following("recompute", 800);
  std::vector<std::string> told;
  double before_us = 0;
  how.watch = [&](simulation_moment const& seen) {
    EXPECT_GE(seen.at_us, before_us);
    before_us = seen.at_us;
    item_key const h{0, seen.segment, "h"};
    switch (seen.what) {
      case moment::begun:
        told.emplace_back("begun");
        EXPECT_EQ(seen.stats.device.now_bytes, 0U);
        break;
      case moment::computed:
        EXPECT_EQ(seen.on.state({0, seen.segment, seen.item}), item_state::resident);
        break;
      case moment::saved:
        told.push_back("saved " + seen.item.str());
        break;
      case moment::forward:
        told.emplace_back("forward");
        break;
      case moment::restored:
        told.push_back("restored " + seen.item.str());
        EXPECT_EQ(seen.on.state({0, seen.segment, seen.item}), item_state::resident);
        break;
      case moment::backward:
        told.emplace_back("backward");
        EXPECT_EQ(seen.on.state(h), item_state::resident);
        break;
      case moment::released:
        told.emplace_back("released");
        EXPECT_EQ(seen.on.state(h), std::nullopt);
        break;
      case moment::changed:
        break;
    }
  };
  auto const done = simulate(chain(), machine(), how);
  std::vector<std::string> expected{"begun"};
  for (int i = 0; i < 8; ++i) expected.insert(expected.end(), {"saved x", "saved h", "forward"});
  for (int i = 0; i < 8; ++i) expected.insert(expected.end(), {"restored h", "restored x", "backward", "released"});
  EXPECT_EQ(told, expected);
  EXPECT_DOUBLE_EQ(before_us, done.step_us);
}

TEST(SimulationWatch, StepsTakeAsLongAsUnwatched) {
  for (auto const* policy : {"keep", "recompute", "every=3", "sqrt", "selective", "auto"}) {
    SCOPED_TRACE(policy);
    auto how = following(policy, policy == std::string("keep") ? 800 : 400);
    auto const alone = simulate(chain(), machine(), how);
    std::size_t peak_bytes = 0;
    how.watch = [&](simulation_moment const& seen) { peak_bytes = std::max(peak_bytes, seen.stats.device.now_bytes); };
    auto const watched = simulate(chain(), machine(), how);
    EXPECT_EQ(watched.steps_us, alone.steps_us);
    EXPECT_EQ(watched.stats.recomputes, alone.stats.recomputes);
    EXPECT_GT(peak_bytes, 0U);
    EXPECT_LE(peak_bytes, watched.stats.device.limit_bytes);
  }
}

}  // namespace
