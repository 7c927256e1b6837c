// Whatever happens to the links, the kernels, the budget and the batch, training gives the bits of a run that keeps
// everything: many random schedules of such faults, most of them on the sim device, where time is virtual, and some on
// the host device with the stream-order checker on.
//
// FAULT_SCHEDULES=n runs n schedules of each test, and FAULT_SEED=s one schedule only.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "support/chain_training.hpp"
#include "support/fault_coverage.hpp"
#include "support/fault_schedule.hpp"
#include "support/test_devices.hpp"

namespace {

using namespace ferry;
using namespace ferry::testing;

/// Another choice every other step: what was dropped and timed is ferried later.
placement_function by_hash(std::uint64_t seed, std::size_t const& step) {
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

  /// With so much more than the budgets that the schedule asks for.
  session_stats run(std::vector<std::uint64_t> const& expected, double more) {
    std::size_t const pinned = schedule_.scarce_pinned ? need_.everything / 4 : 2 * need_.everything;
    auto const budget_of = [&](double share) {
      double const low = floor() * more;
      double const high = std::max(low, 1.3 * static_cast<double>(need_.everything));
      return static_cast<std::size_t>(low + (high - low) * share);
    };
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

 private:
  [[nodiscard]] chain_trainer::step_options step_of(std::size_t i) const {
    return {.step = i,
            .rows = schedule_.rows[i],
            .micro_batches = schedule_.micro_batches,
            .interleaved = schedule_.interleaved};
  }

  /// What is enough whatever happens. Where addresses are bytes, gaps take some.
  [[nodiscard]] double floor() const {
    auto bytes = static_cast<double>(need_.with_inputs);
    if (schedule_.may_run_out()) bytes += static_cast<double>(need_.without_recipe);
    return bytes * (schedule_.simulated ? 1.0 : 1.4);
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

/// Where something else than the session decides what stays, it may be too much; then there is more the next time.
void run_schedule(fault_schedule const& s, fault_coverage& total) {
  chain_run chain(s);
  auto const expected = chain.expected();
  for (double more = 1;; more *= 1.3) {
    try {
      total.add(chain.run(expected, more));
      return;
    } catch (out_of_device_memory const& e) {
      ++total.refused;
      if (!s.may_run_out() || more > 10) {
        ADD_FAILURE() << e.what();
        return;
      }
    } catch (std::exception const& e) {
      ADD_FAILURE() << e.what();
      return;
    }
  }
}

class FaultSchedule : public ::testing::TestWithParam<std::uint64_t> {};

/// 60 schedules each.
TEST_P(FaultSchedule, OnTheSimDeviceChangesNoBit) {
  fault_coverage total;
  for_each_schedule(1000 * GetParam(), 60, [&](std::uint64_t seed) {
    auto const s = draw_fault_schedule(seed, true);
    SCOPED_TRACE(::testing::Message() << s);
    run_schedule(s, total);
    return !HasFailure();
  });
  total.print();
  if (!HasFailure() && total.schedules >= 60) total.expect_all();
}

INSTANTIATE_TEST_SUITE_P(, FaultSchedule, ::testing::Range<std::uint64_t>(1, 9),
                         [](auto const& of) { return std::to_string(of.param); });

class FaultScheduleChecked : public ::testing::TestWithParam<std::uint64_t> {};

/// 40 schedules each.
TEST_P(FaultScheduleChecked, OnTheHostDeviceChangesNoBit) {
  fault_coverage total;
  for_each_schedule(1000 * GetParam(), 40, [&](std::uint64_t seed) {
    auto const s = draw_fault_schedule(seed, false);
    SCOPED_TRACE(::testing::Message() << s);
    run_schedule(s, total);
    return !HasFailure();
  });
  total.print();
}

INSTANTIATE_TEST_SUITE_P(, FaultScheduleChecked, ::testing::Range<std::uint64_t>(11, 14),
                         [](auto const& of) { return std::to_string(of.param); });

}  // namespace
