// A chain in training under a schedule of faults, and what it must be like.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ferry/plan.hpp"
#include "support/chain_training.hpp"
#include "support/fault_schedule.hpp"
#include "support/test_devices.hpp"

namespace ferry::testing {

/// Another choice every other step: what was dropped and timed is ferried later.
inline placement_function by_hash(std::uint64_t seed, std::size_t const& step) {
  return [seed, &step](item_info const& item) {
    if (!item.has_recipe) return placement::offload;
    auto const bits = mixed(seed + step / 2 + std::hash<item_key>{}(item.key)) % 8;
    if (item.boundary && bits < 5) return placement::keep;  // so that others can be rebuilt from it
    return bits == 0 ? placement::keep : bits < 4 ? placement::recompute : placement::offload;
  };
}

/// A chain under a schedule; or, as what it must be like, with everything kept and nothing happening.
class chain_run {
 public:
  explicit chain_run(fault_schedule const& s) : schedule_(s) {
    dice d(s.seed + 1);
    shape_ = draw_chain(d);
    std::size_t rows = 0;
    for (auto const each : s.rows) rows = std::max(rows, each);
    need_ = chain_trainer::bytes_of(shape_, rows);
    if (s.interleaved) need_.everything *= s.micro_batches;
  }

  [[nodiscard]] std::vector<std::uint64_t> expected() const {
    auto const device =
        make_sim_device({.device_bytes = 2 * need_.everything + (1 << 20), .pinned_bytes = 1 << 20, .backed = true});
    stream const compute(*device, stream_kind::compute, "compute");
    chain_trainer trainer(*device, compute, shape_);
    config settings;
    settings.policy.kind = policy_kind::keep;
    settings.budget = byte_amount::exactly(2 * need_.everything);
    settings.host_budget = byte_amount::exactly(0);
    settings.log = log_level::off;
    {
      session on(*device, settings);
      for (std::size_t i = 0; i < schedule_.steps; ++i) trainer.step(on, step_of(i), [](double) {});
      EXPECT_EQ(on.stats().recomputes + on.stats().device_to_host.chunks, 0U);
    }
    compute.synchronize();
    return trainer.results();
  }

  /// Budgets of the schedule are from `low` to `high` bytes, if that is more.
  session_stats run(std::vector<std::uint64_t> const& expected, double low, double high) {
    high = std::max(low, high);
    std::size_t const pinned = schedule_.scarce_pinned ? need_.everything / 4 : 2 * need_.everything;
    auto const budget_of = [&](double share) { return static_cast<std::size_t>(low + (high - low) * share); };
    faulty_world world(schedule_, budget_of(1) + (1 << 20), pinned + 4096);
    stream const compute(*world.dev, stream_kind::compute, "compute");
    chain_trainer trainer(*world.dev, compute, shape_);
    config settings = schedule_.settings;
    settings.host_budget = byte_amount::exactly(pinned);
    settings.budget = byte_amount::exactly(budget_of(schedule_.budget));
    std::size_t most = settings.budget.bytes;
    auto const budget_for = [&](double share) {
      // A plan that was given is for its budget; another budget may have more.
      std::size_t const bytes =
          schedule_.by == decider::given_plan ? std::max(settings.budget.bytes, budget_of(share)) : budget_of(share);
      most = std::max(most, bytes);
      return bytes;
    };
    auto const given = schedule_.by == decider::given_plan ? rehearsed_plan(settings) : std::nullopt;
    session_stats stats;
    std::size_t i = 0;
    {
      session on(*world.dev, settings);
      if (given) on.follow(*given);
      if (schedule_.by == decider::by_function) on.set_placement(by_hash(schedule_.seed, i));
      for (; i < schedule_.steps; ++i) {
        world.pass(i, 0, on, false, budget_for);
        trainer.step(on, step_of(i), [&](double share) { world.pass(i, share, on, true, budget_for); });
        if (schedule_.waits) compute.synchronize();
        auto const now = on.stats();
        EXPECT_LE(now.device.peak_bytes, most);
        EXPECT_LE(now.device.now_bytes, now.device.limit_bytes);
        EXPECT_LE(now.pinned.peak_bytes, pinned);
        EXPECT_LE(now.in_flight.peak_bytes, most);
      }
      on.synchronize();
      stats = on.stats();
      EXPECT_FALSE(on.explain().empty());
    }
    compute.synchronize();
    EXPECT_EQ(trainer.results(), expected);
    EXPECT_EQ(stats.steps, schedule_.steps);
    EXPECT_EQ(stats.count(reason::unused_at_end_of_step), 0U);
    auto const violations = order_violations(*world.dev);
    EXPECT_TRUE(violations.empty()) << violations.front();
    return stats;
  }

  [[nodiscard]] chain_bytes const& need() const noexcept { return need_; }
  [[nodiscard]] double everything() const noexcept { return static_cast<double>(need_.everything); }
  /// What is enough whatever happens. Where addresses are bytes, gaps take some.
  [[nodiscard]] double enough() const {
    auto bytes = static_cast<double>(need_.with_inputs);
    if (schedule_.may_run_out()) bytes += static_cast<double>(need_.without_recipe);
    return bytes * (schedule_.simulated ? 1.0 : 1.4);
  }

 private:
  [[nodiscard]] chain_trainer::step_options step_of(std::size_t i) const {
    return {.step = i,
            .rows = schedule_.rows[i],
            .micro_batches = schedule_.micro_batches,
            .interleaved = schedule_.interleaved};
  }

  /// What policy `auto` would plan if nothing happened.
  [[nodiscard]] std::optional<plan> rehearsed_plan(config settings) const {
    auto quiet = schedule_;
    quiet.faults.clear();
    quiet.simulated = true;
    quiet.delays_per_mille = 0;
    faulty_world world(quiet, 2 * settings.budget.bytes + (1 << 20), settings.host_budget.bytes + 4096);
    stream const compute(*world.dev, stream_kind::compute, "compute");
    chain_trainer trainer(*world.dev, compute, shape_);
    settings.link_schedule.clear();
    session on(*world.dev, settings);
    for (std::size_t i = 0; i < 4; ++i) trainer.step(on, step_of(0), [](double) {});
    return on.followed() != nullptr ? std::optional(*on.followed()) : std::nullopt;
  }

  fault_schedule const& schedule_;
  chain_shape shape_;
  chain_bytes need_;
};

}  // namespace ferry::testing
