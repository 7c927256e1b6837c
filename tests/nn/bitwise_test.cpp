// Where activations are between forward and backward changes no bit of training: whatever the policy, the budget, the
// link's speed, the accumulation, the form of attention and the number of threads, 20 steps give the losses and the
// weights of a run that keeps everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ferry/plan.hpp"
#include "nn/training_fixture.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;

constexpr int steps = 20;

/// Keeps, ferries or drops, by a hash of the item's name and place: each item its own way, the same in every step.
placement scattered(item_info const& item) {
  std::uint64_t const bits = std::hash<item_key>{}(item.key) * 0x9E3779B97F4A7C15ULL;
  return std::array{placement::keep, placement::offload, placement::recompute}[(bits >> 33U) % 3];
}

/// A policy, or a placement function in its stead.
struct way {
  std::string name;
  policy_choice policy;
  placement_function placed = {};
  bool uses_link = false;

  /// What fits a budget depends on when copies end, or on how long recipes took.
  [[nodiscard]] bool depends_on_timing() const { return uses_link || policy.kind == policy_kind::selective; }
  friend std::ostream& operator<<(std::ostream& out, way const& which) { return out << which.name; }
};

std::vector<way> all_ways() {
  return {{"Keep", {policy_kind::keep}},
          {"Recompute", {policy_kind::recompute}},
          {"Offload", {policy_kind::offload}, {}, true},
          {"Auto", {policy_kind::automatic}, {}, true},
          {"Selective", {policy_kind::selective}},
          {"EverySecond", {policy_kind::every, 2}},
          {"EveryThird", {policy_kind::every, 3}},
          {"Sqrt", {policy_kind::sqrt}},
          {"Scattered", {policy_kind::keep}, scattered, true}};
}

struct link_of_test {
  char const* name;
  link_speed speed;
};
/// A pass moves 0.3 MiB each way: at the slowest in 6 ms, which is several times what it computes.
constexpr std::array links{link_of_test{"unpaced", {}}, link_of_test{"0.5 GB/s", {0.5, 5}},
                           link_of_test{"0.05 GB/s", {0.05, 10}}};

struct run {
  attention_form attention = attention_form::tiled;
  std::uint32_t accumulate = 1;
  config settings = session_settings({policy_kind::keep});
  placement_function placed = {};
  link_speed link = {};
  unsigned threads = 2;
  bool check_order = false;
};

struct outcome {
  std::vector<double> losses;
  std::vector<float> weights;
  session_stats stats;
};

void expect_within_limits(session_stats const& stats, config const& settings) {
  EXPECT_EQ(stats.device.limit_bytes, settings.budget.bytes);
  EXPECT_LE(stats.device.peak_bytes, settings.budget.bytes);
  EXPECT_EQ(stats.pinned.limit_bytes, settings.host_budget.bytes);
  EXPECT_LE(stats.pinned.peak_bytes, settings.host_budget.bytes);
  std::size_t const in_flight = settings.max_in_flight.of(settings.budget.bytes);
  EXPECT_EQ(stats.in_flight.limit_bytes, in_flight);
  EXPECT_LE(stats.in_flight.peak_bytes, in_flight);
}

outcome train(run const& how) {
  training_options const options{.steps = steps, .accumulate = how.accumulate, .warmup = 4, .seed = 7};
  training_world world(small_shape(how.attention), small_batch, options,
                       {.device_to_host = how.link,
                        .host_to_device = how.link,
                        .compute_threads = how.threads,
                        .check_order = how.check_order});
  static token_data const data = token_data::shipped();
  outcome result;
  {
    session on(*world.on, how.settings);
    if (how.placed) on.set_placement(how.placed);
    for (int i = 0; i < steps; ++i) result.losses.push_back(world.in_training.step(on, data).loss);
    on.synchronize();
    result.stats = on.stats();
  }
  result.weights = world.in_training.weights();
  EXPECT_EQ(result.stats.steps, steps);
  EXPECT_EQ(result.stats.count(reason::unused_at_end_of_step), 0U);
  expect_within_limits(result.stats, how.settings);
  auto const violations = world.on->order_violations();
  EXPECT_TRUE(violations.empty()) << violations.front();
  return result;
}

/// Everything kept, in a budget that is never full.
outcome const& expected(attention_form attention, std::uint32_t accumulate) {
  static std::map<std::pair<attention_form, std::uint32_t>, outcome> known;
  auto const [place, is_new] = known.try_emplace({attention, accumulate});
  if (is_new) place->second = train({.attention = attention, .accumulate = accumulate});
  return place->second;
}

/// Trains and compares; returns what the session did.
session_stats expect_same_training(run const& how) {
  outcome const& plain = expected(how.attention, how.accumulate);
  outcome const result = train(how);
  EXPECT_TRUE(same_bits(result.losses, plain.losses));
  EXPECT_TRUE(same_bits(result.weights, plain.weights));
  return result.stats;
}

/// The same; but where gaps are may depend on timing, so that a budget that was enough once may be too small another
/// time. Then it is raised, by no more than would hold a few of the largest tensors.
session_stats expect_same_training_from(run how) {
  constexpr std::size_t most_more_bytes = 192 << 10, unit_bytes = 16 << 10;
  for (std::size_t more_bytes = 0; more_bytes < most_more_bytes; more_bytes += unit_bytes) {
    try {
      return expect_same_training(how);
    } catch (out_of_device_memory const&) {
      how.settings.budget.bytes += unit_bytes;
    }
  }
  return expect_same_training(how);
}

/// `smallest_budget`, but for placements by a function.
std::size_t smallest_budget_placed(gpt_shape const& shape, std::uint32_t micro_batches, placement_function const& by) {
  training_world world(shape);
  for (std::size_t bytes = 64 << 10; bytes <= unlimited_bytes; bytes += 64 << 10) {
    try {
      session on(*world.on, session_settings({policy_kind::keep}, bytes));
      on.set_placement(by);
      for (int i = 0; i < 3; ++i) world.in_training.model().rehearse(on, micro_batches);
      return bytes;
    } catch (out_of_memory const&) {
      continue;
    }
  }
  return 0;
}

/// Five budgets: the smallest that works, three up to what keeping everything takes, and one that is never full.
std::vector<std::size_t> budgets_of(way const& which, attention_form attention, std::uint32_t accumulate) {
  auto const shape = small_shape(attention);
  auto const smallest = [&](policy_choice policy) {
    return smallest_budget(shape, small_batch, accumulate, session_settings(policy), unlimited_bytes);
  };
  std::size_t const least =
      which.placed ? smallest_budget_placed(shape, accumulate, which.placed) : smallest(which.policy);
  std::size_t const everything = smallest({policy_kind::keep});
  EXPECT_GT(least, 0U);
  EXPECT_LE(least, everything);
  std::size_t const step = std::max<std::size_t>((everything - least) / 3, 4096);
  return {least, least + step, least + 2 * step, least + 3 * step, unlimited_bytes};
}

class SameBits : public ::testing::TestWithParam<std::tuple<way, attention_form>> {};

/// Each of the five budgets with each of the links, if it uses any, and by turns with and without accumulation.
TEST_P(SameBits, AsKeepingEverything) {
  auto const& [which, attention] = GetParam();
  std::map<std::uint32_t, std::vector<std::size_t>> budgets;
  for (std::uint32_t const accumulate : {1U, 3U}) budgets[accumulate] = budgets_of(which, attention, accumulate);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < links.size(); ++j) {
      if (!which.uses_link && j != i % links.size()) continue;
      bool const odd = (i + j + (attention == attention_form::whole ? 1 : 0)) % 2 == 1;
      run how{.attention = attention, .accumulate = odd ? 3U : 1U, .placed = which.placed, .link = links[j].speed};
      how.check_order = (i + 2 * j) % 5 == 0;
      std::size_t const budget = budgets[how.accumulate][i];
      how.settings = session_settings(which.policy, budget);
      SCOPED_TRACE(::testing::Message() << which.name << ", budget " << budget << ", link " << links[j].name
                                        << ", micro-batches " << how.accumulate);
      auto const stats = which.depends_on_timing() ? expect_same_training_from(how) : expect_same_training(how);
      // A plan may do without the link, and its warm-up may be done before a copy has begun.
      if (which.name != "Auto") {
        EXPECT_EQ(stats.device_to_host.bytes > 0, which.uses_link);
      }
      if (which.name != "Offload") {
        EXPECT_EQ(stats.recomputes > 0, which.name != "Keep");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, SameBits,
                         ::testing::Combine(::testing::ValuesIn(all_ways()),
                                            ::testing::Values(attention_form::tiled, attention_form::whole)),
                         [](auto const& of) {
                           return std::get<0>(of.param).name +
                                  (std::get<1>(of.param) == attention_form::whole ? "Explicit" : "Tiled");
                         });

/// Items that leave, come back late, and find a budget that is full.
run stalled() {
  run how{.settings = session_settings({policy_kind::offload}, 176 << 10), .link = links[2].speed};
  how.settings.stall_tolerance_us = 0;
  return how;
}

TEST(SameBitsAlways, TheRunToCompareWithLearns) {
  for (auto const attention : {attention_form::tiled, attention_form::whole}) {
    for (std::uint32_t const accumulate : {1U, 3U}) {
      auto const& [losses, weights, stats] = expected(attention, accumulate);
      EXPECT_LT(losses.back(), losses.front() - 0.1);
      EXPECT_EQ(stats.recomputes, 0U);
      EXPECT_EQ(stats.device_to_host.transfers, 0U);
    }
  }
  EXPECT_FALSE(same_bits(expected(attention_form::tiled, 1).losses, expected(attention_form::tiled, 3).losses));
}

TEST(SameBitsAlways, FromRunToRun) {
  for (int i = 0; i < 3; ++i) {
    auto const stats = expect_same_training_from(stalled());
    EXPECT_GT(stats.exposed_us, 0);
    EXPECT_GT(stats.count(reason::restored_from_host), 0U);
  }
}

TEST(SameBitsAlways, WithAnyNumberOfThreads) {
  // Otherwise TBB stops at the machine's number.
  tbb::global_control const threads_for_all(tbb::global_control::max_allowed_parallelism, 8);
  for (unsigned const threads : {1U, 2U, 3U, 5U}) {
    SCOPED_TRACE(threads);
    expect_same_training({.threads = threads});
    run how = stalled();
    how.threads = threads;
    how.attention = attention_form::whole;
    how.check_order = threads == 3;
    expect_same_training_from(how);
  }
}

/// What finds no room in pinned memory is dropped, and rebuilt.
TEST(SameBitsAlways, WhenPinnedMemoryIsFull) {
  run how = stalled();
  how.check_order = true;
  how.settings.host_budget = byte_amount::exactly(60 << 10);
  auto const stats = expect_same_training_from(how);
  EXPECT_GT(stats.count(reason::dropped_pinned_full), 0U);
  EXPECT_GT(stats.recomputes, 0U);
  EXPECT_GT(stats.pinned.peak_bytes, 0U);
}

/// What may not be in flight yet goes later, or is dropped if it never may.
TEST(SameBitsAlways, WhenFewBytesMayBeInFlight) {
  run how = stalled();
  how.check_order = true;
  how.settings.max_in_flight = byte_amount::exactly(14 << 10);
  auto const stats = expect_same_training_from(how);
  EXPECT_GT(stats.count(reason::deferred_in_flight_full), 0U);
  EXPECT_GT(stats.count(reason::dropped_in_flight_full), 0U);  // 16 KiB: fc and act
  EXPECT_GT(stats.in_flight.peak_bytes, 0U);
}

TEST(SameBitsAlways, WithChecksums) {
  run how = stalled();
  how.accumulate = 3;
  how.link = links[1].speed;
  how.settings.verify = verify_mode::checksum;
  expect_same_training_from(how);
}

TEST(SameBitsAlways, HoweverFarTheHostIsAhead) {
  for (unsigned const ahead : {0U, 6U}) {
    run how = stalled();
    how.link = links[0].speed;
    how.check_order = true;
    how.settings.run_ahead = ahead;
    expect_same_training_from(how);
  }
}

}  // namespace
