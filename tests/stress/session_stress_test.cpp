// Long runs of one session for the sanitizers: thousands of items on two streams, cut into tiny chunks, with
// delays everywhere, with faults, and with an end in the middle; and many sessions on one device, one after the other.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/session_runner.hpp"

namespace ferry::testing {
namespace {

/// Numbers from a seed, so that every run is the same program; only the timing differs.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  std::uint32_t roll(std::uint32_t sides) { return static_cast<std::uint32_t>(mixed(++state_) % sides); }
  bool one_in(std::uint32_t n) { return roll(n) == 0; }

 private:
  std::uint64_t state_;
};

operation rolled(dice& d, action kind) {
  operation op;
  op.kind = kind;
  op.which = d.roll(1000);
  op.size = d.roll(1U << 20U);
  op.inputs = d.roll(3);
  op.stream = d.roll(2);
  op.adopted = d.one_in(12);
  op.recipe = d.one_in(2);
  op.from_inputs = d.one_in(8);
  op.crossing = d.one_in(8);
  return op;
}

/// Steps that save `items` and consume them, latest first or in an order of their own.
program long_training(std::uint64_t seed, std::size_t items, std::size_t steps) {
  dice d(seed);
  program p;
  p.seed = seed;
  p.largest_item = 4096;
  p.budget = 96 * p.largest_item;
  p.host_budget = items * 2 * p.largest_item;
  p.in_flight = 24 * p.largest_item;
  p.chunk_bytes = 1024;
  p.policy.kind = policy_kind::offload;
  p.run_ahead = 4;
  p.delays_per_mille = 10;
  p.longest_delay_us = 100;
  bool const reverse = seed % 2 == 0;
  std::vector<operation> body;
  for (std::size_t i = 0; i < items; ++i) body.push_back(rolled(d, action::produce));
  for (std::size_t i = 0; i < items + items / 4; ++i) {
    body.push_back(rolled(d, d.one_in(5) ? action::scratch : action::consume));
    if (reverse) body.back().which = ~std::uint32_t{0};
  }
  p.bodies = {std::move(body)};
  p.steps.assign(steps, 0);
  return p;
}

session_stats run(program const& p) {
  session_runner runner(p);
  runner.run();
  EXPECT_EQ(runner.problems(), "");
  return runner.stats();
}

TEST(SessionStress, ThousandsOfItemsAreFerried) {
  for (std::uint64_t const seed : {1U, 2U}) {
    auto const stats = run(long_training(seed, 2000, 2));
    EXPECT_GT(stats.host_to_device.transfers, 100U);
    EXPECT_GT(stats.device_to_host.transfers, 1000U);
    EXPECT_EQ(stats.saves, 4000U);
  }
}

TEST(SessionStress, EveryPlacementAtOnce) {
  auto p = long_training(3, 1000, 2);
  p.placement = 12345;
  p.verify = true;
  p.budget = 800 * p.largest_item;  // a third of the items stay
  auto const stats = run(p);
  EXPECT_GT(stats.count(reason::kept_by_policy), 0U);
  EXPECT_GT(stats.count(reason::restored_from_host), 0U);
  EXPECT_GT(stats.recomputes, 0U);
}

TEST(SessionStress, LongRunsOutliveFaults) {
  auto p = long_training(4, 500, 3);
  p.faults = {.copies_per_mille = 20, .kernels_per_mille = 1};
  auto const stats = run(p);
  EXPECT_GT(stats.device_to_host.failed, 0U);
}

TEST(SessionStress, TrainersWalkOutAnywhere) {
  for (std::uint64_t seed = 10; seed < 40; ++seed) {
    auto p = long_training(seed, 60, 1);
    for (auto& op : p.bodies.front()) op.hold = mixed(seed + op.size) % 10 == 0;
    p.walk_out = 20 + 3 * seed;
    run(p);
  }
}

// Slabs come and go on one device, each session leaving transfers and kernels under way for the next to meet.
TEST(SessionStress, ManySessionsOneAfterTheOther) {
  program p;
  p.budget = 256 << 10U;
  p.host_budget = 1 << 20U;
  p.delays_per_mille = 20;
  p.longest_delay_us = 100;
  session_world world(p);
  dice d(77);
  for (int round = 0; round < 60; ++round) {
    config settings;
    settings.budget = byte_amount::exactly((16 + d.roll(200)) << 10U);
    settings.host_budget = byte_amount::exactly((16 + d.roll(900)) << 10U);
    settings.chunk_bytes = 512U << d.roll(4);
    settings.min_bytes = 0;
    settings.log = log_level::off;
    std::vector<lease> held;
    session trainer(*world.dev, settings);
    trainer.begin_step();
    std::uint32_t const items = 1 + d.roll(20);
    for (std::uint32_t s = 0; s < items; ++s) {
      stream_ref const on = world.streams[d.roll(2)];
      auto const bytes = std::make_shared<content>(1 + d.roll(4096), static_cast<std::byte>(round + s));
      auto memory = trainer.allocate(bytes->size(), on);
      world.write(on, memory.data(), bytes, nullptr);
      auto saved = trainer.save({0, s, "i"}, std::move(memory), on);
      world.compare(on, saved.data(), bytes, "saved");
      if (d.one_in(16)) held.push_back(std::move(saved));
      saved.end();
      if (!d.one_in(3)) continue;
      stream_ref const reader = world.streams[d.roll(2)];
      world.compare(reader, trainer.restore({0, s, "i"}, reader).data(), bytes, "restored");
    }
    if (d.one_in(2)) trainer.end_step();
  }
  EXPECT_TRUE(world.settle().empty());
  EXPECT_EQ(world.problems.text(), "");
  for (auto const& violation : order_violations(*world.dev)) ADD_FAILURE() << violation;
}

}  // namespace
}  // namespace ferry::testing
