// The budget that an error for want of room names is enough: of random trainers under every policy, behind links of
// every speed, on the sim device and with threads.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "ferry/ferry.hpp"
#include "support/random_trainer.hpp"

namespace {

using namespace ferry;
using namespace ferry::testing;

constexpr std::array policies{policy_kind::automatic, policy_kind::keep, policy_kind::recompute, policy_kind::offload,
                              policy_kind::every,     policy_kind::sqrt, policy_kind::selective};
constexpr int steps_after = 5;

struct world {
  explicit world(std::uint64_t seed, bool threads) : roll(seed + 1), trainer(seed), settings() {
    constexpr std::array<double, 4> speeds{0, 0.05, 0.5, 5};
    link_speed const out{.gbps = roll.one_of(speeds), .latency_us = 5};
    link_speed const back{.gbps = roll.one_of(speeds), .latency_us = 5};
    std::size_t const enough = 8 * trainer.all_bytes();
    if (threads) {
      on = make_host_device({.device_bytes = enough,
                             .pinned_bytes = enough,
                             .device_to_host = out,
                             .host_to_device = back,
                             .compute_threads = 1});
    } else {
      sim_device_options options{.device_bytes = enough,
                                 .pinned_bytes = enough,
                                 .device_to_host = out,
                                 .host_to_device = back,
                                 .gaps_cost = true};
      auto const kernel = std::chrono::nanoseconds(roll.count(0, 20'000));
      options.kernel_cost = [kernel](label const&, auto) { return kernel; };
      on = make_sim_device(options);
    }
    settings.policy = {roll.one_of(policies), 2};
    settings.min_bytes = roll.with(0.5) ? 0 : 1000;
    settings.plan_effort = 20;
    settings.host_budget = byte_amount::exactly(roll.with(0.2) ? trainer.all_bytes() / 16 : trainer.all_bytes());
    settings.log = log_level::off;
  }

  [[nodiscard]] session make(std::size_t budget) {
    settings.budget = byte_amount::exactly(budget);
    return session(*on, settings);
  }

  random_source roll;
  random_trainer trainer;
  std::unique_ptr<device> on;
  config settings;
};

/// What a step was told that it needs; 0 if it went through.
std::size_t told_by(session& on, world& in, stream const& compute) {
  try {
    in.trainer.step(on, compute);
    compute.synchronize();
    return 0;
  } catch (out_of_device_memory const& e) {
    EXPECT_GT(e.enough_bytes(), e.limit_bytes()) << e.what();
    return e.enough_bytes();
  }
}

class Advice : public ::testing::TestWithParam<bool> {
 protected:
  /// `run` is given each trainer's world, and counts in `told_` how often one was told.
  template <typename Run>
  void expect_of_each(Run run) {
    bool const threads = GetParam();
    std::uint64_t const trainers = threads ? 60 : 400;
    for (std::uint64_t seed = 1; seed <= trainers && !HasFatalFailure(); ++seed) {
      world in(seed, threads);
      SCOPED_TRACE("seed " + std::to_string(seed) + " policy " +
                   std::to_string(static_cast<int>(in.settings.policy.kind)));
      stream const compute(*in.on, stream_kind::compute, "compute");
      run(in, compute);
    }
    std::printf("%llu were told\n", static_cast<unsigned long long>(told_));
    EXPECT_GT(told_, trainers / 4);
  }

  std::uint64_t told_ = 0;
};

TEST_P(Advice, IsEnoughForStepsThatAreKnown) {
  expect_of_each([&](world& in, stream const& compute) {
    session on = in.make(2 * in.trainer.all_bytes());
    for (int i = 0; i < 2; ++i) ASSERT_EQ(told_by(on, in, compute), 0U);
    on.set_budget(byte_amount::exactly(
        static_cast<std::size_t>(in.roll.between(0.02, 0.3) * static_cast<double>(in.trainer.all_bytes()))));
    std::size_t enough = 0;
    for (int i = 0; i < 3 && enough == 0; ++i) enough = told_by(on, in, compute);
    if (enough == 0) return;
    ++told_;
    on.set_budget(byte_amount::exactly(enough));
    for (int i = 0; i < steps_after; ++i) ASSERT_EQ(told_by(on, in, compute), 0U) << enough << " bytes, step " << i;
  });
}

TEST_P(Advice, IsEnoughForAFirstStepAsFarAsItWent) {
  expect_of_each([&](world& in, stream const& compute) {
    std::size_t budget = in.trainer.all_bytes() / 40 + 256;
    std::size_t calls = 0;
    // Each time it goes farther, and in the end through.
    for (int tries = 0; tries < 40; ++tries) {
      session on = in.make(budget);
      std::size_t const enough = told_by(on, in, compute);
      if (enough == 0) break;
      ++told_;
      ASSERT_TRUE(tries == 0 || in.trainer.calls() > calls) << budget << " bytes, " << calls << " calls";
      calls = in.trainer.calls();
      budget = enough;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Advice, ::testing::Bool(),
                         [](auto const& of) { return of.param ? "WithThreads" : "OnTheSimDevice"; });

}  // namespace
