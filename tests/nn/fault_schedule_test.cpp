// Whatever happens to the links, the kernels and the budget, a GPT in training has the losses and the weights of a run
// that keeps everything: random schedules of such faults, on the sim device and, with the stream-order checker on, on
// the host device.
//
// FAULT_SCHEDULES=n runs n schedules of each test, and FAULT_SEED=s one schedule only.
#include "support/fault_schedule.hpp"
#include "ferry/plan.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/observed_ops.hpp"
#include "nn/training_fixture.hpp"
#include "support/fault_coverage.hpp"
#include "support/test_devices.hpp"

namespace {

using namespace ferry;
using namespace ferry::nn;
using namespace ferry::nn::testing;
using ferry::testing::decider;
using ferry::testing::draw_fault_schedule;
using ferry::testing::fault_coverage;
using ferry::testing::fault_schedule;
using ferry::testing::faulty_world;
using ferry::testing::for_each_schedule;
using ferry::testing::mixed;
using ferry::testing::order_violations;

gpt_shape shape_of(std::uint64_t seed) {
  return small_shape(seed % 2 == 0 ? attention_form::tiled : attention_form::whole);
}

constexpr std::size_t most_steps = 10;

training_options options_of(fault_schedule const& s) {
  return {.steps = most_steps, .accumulate = s.micro_batches, .warmup = 3, .seed = 7};
}

struct outcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
};

/// Everything kept in a budget that is never full.
outcome const& expected(fault_schedule const& s) {
  static std::map<std::pair<bool, std::uint32_t>, outcome> known;
  auto const [place, is_new] = known.try_emplace({s.seed % 2 == 0, s.micro_batches});
  if (is_new) {
    training_world world(shape_of(s.seed), small_batch, options_of(s));
    session on(*world.on, session_settings({policy_kind::keep}));
    for (std::size_t i = 0; i < most_steps; ++i) {
      place->second.losses.push_back(world.in_training.step(on, text()).loss);
      place->second.gradients.push_back(world.in_training.gradients());
    }
  }
  return place->second;
}

placement_function by_hash(std::uint64_t seed, std::size_t const& step) {
  return [seed, &step](item_info const& item) {
    auto const bits = mixed(seed + step / 2 + std::hash<item_key>{}(item.key)) % 8;
    if (!item.has_recipe) return placement::offload;
    return bits < 4 ? placement::recompute : placement::offload;
  };
}

constexpr std::size_t workspace_bytes = std::size_t{8} << 20;  // of the operations themselves

/// Members in the order in which each can rely on those before it.
struct gpt_world {
  gpt_world(fault_schedule const& s, std::size_t budget_bytes)
      : faults(s, trainer::bytes_beside_budget(shape_of(s.seed), small_batch) + budget_bytes + workspace_bytes,
               unlimited_bytes + 2 * staging::default_bytes),
        compute(*faults.dev, stream_kind::compute, "compute"),
        plain(make_ops(*faults.dev)),
        observed(*plain),
        in_training(*faults.dev, compute, observed, shape_of(s.seed), small_batch, options_of(s)) {}

  faulty_world faults;
  stream compute;
  std::unique_ptr<ops> plain;
  observed_ops observed;
  trainer in_training;
};

std::size_t smallest(fault_schedule const& s, policy_choice policy) {
  static std::map<std::tuple<bool, std::uint32_t, policy_kind, unsigned>, std::size_t> known;
  auto const [place, is_new] = known.try_emplace({s.seed % 2 == 0, s.micro_batches, policy.kind, policy.every}, 0);
  if (is_new) {
    place->second =
        smallest_budget(shape_of(s.seed), small_batch, s.micro_batches, session_settings(policy), unlimited_bytes);
  }
  return place->second;
}

/// What policy `auto` plans if nothing happens.
std::optional<plan> rehearsed_plan(fault_schedule const& s, config settings) {
  auto quiet = s;
  quiet.faults.clear();
  quiet.simulated = true;
  quiet.delays_per_mille = 0;
  settings.link_schedule.clear();
  gpt_world world(quiet, settings.budget.bytes);
  session on(*world.faults.dev, settings);
  for (int i = 0; i < 4; ++i) static_cast<void>(world.in_training.step(on, text()));
  return on.followed() != nullptr ? std::optional(*on.followed()) : std::nullopt;
}

session_stats run(fault_schedule const& s, std::size_t least, std::size_t everything) {
  auto const budget_of = [&](double share) {
    std::size_t const high = std::max(least, everything);
    return least + static_cast<std::size_t>(static_cast<double>(high - least) * share);
  };
  config settings = s.settings;
  settings.host_budget = byte_amount::exactly(s.scarce_pinned ? everything / 4 : unlimited_bytes);
  settings.budget = byte_amount::exactly(budget_of(s.budget));
  std::size_t most = settings.budget.bytes;
  auto const budget_for = [&](double share) {
    std::size_t const bytes =
        s.by == decider::given_plan ? std::max(settings.budget.bytes, budget_of(share)) : budget_of(share);
    most = std::max(most, bytes);
    return bytes;
  };
  auto const given = s.by == decider::given_plan ? rehearsed_plan(s, settings) : std::nullopt;
  gpt_world world(s, budget_of(1));
  outcome const& plain = expected(s);
  std::size_t i = 0;
  session on(*world.faults.dev, settings);
  if (given) on.follow(*given);
  if (s.by == decider::by_function) on.set_placement(by_hash(s.seed, i));
  double calls = 0;
  double calls_before = 0;
  world.observed.observe = [&](std::string_view operation) {
    // Recipes must not call the session, but they have no backward operations.
    bool const may_hint = operation == "layernorm_backward";
    world.faults.pass(i, calls_before > 0 ? std::min(1.0, calls / calls_before) : 0, on, may_hint, budget_for);
    ++calls;
  };
  for (; i < s.steps; ++i) {
    world.faults.pass(i, 0, on, false, budget_for);
    EXPECT_EQ(world.in_training.step(on, text()).loss, plain.losses[i]) << "step " << i;
    EXPECT_TRUE(same_bits(world.in_training.gradients(), plain.gradients[i])) << "step " << i;
    calls_before = std::exchange(calls, 0);
    auto const stats = on.stats();
    EXPECT_LE(stats.device.peak_bytes, most);
    EXPECT_LE(stats.device.now_bytes, stats.device.limit_bytes);
    EXPECT_LE(stats.pinned.peak_bytes, settings.host_budget.bytes);
  }
  on.synchronize();
  auto const stats = on.stats();
  EXPECT_EQ(stats.count(reason::unused_at_end_of_step), 0U);
  auto const violations = order_violations(*world.faults.dev);
  EXPECT_TRUE(violations.empty()) << violations.front();
  return stats;
}

/// Where gaps are, and what stays, may depend on timing: a budget that is too small is raised.
void run_schedule(fault_schedule const& s, fault_coverage& total) {
  std::size_t const everything = smallest(s, {policy_kind::keep});
  std::size_t least =
      smallest(s, s.by == decider::by_function ? policy_choice{policy_kind::offload} : s.settings.policy);
  for (;; least += 32 << 10) {
    try {
      total.add(run(s, least, everything));
      return;
    } catch (out_of_device_memory const& e) {
      ++total.refused;
      if (least > 2 * everything) {
        ADD_FAILURE() << e.what();
        return;
      }
    } catch (std::exception const& e) {
      ADD_FAILURE() << e.what();
      return;
    }
  }
}

fault_coverage run_schedules(std::uint64_t first, std::uint64_t count, bool simulated) {
  fault_coverage total;
  for_each_schedule(first, count, 6, [&](std::uint64_t seed) {
    auto s = draw_fault_schedule(seed, simulated);
    s.interleaved = false;
    SCOPED_TRACE(::testing::Message() << s);
    run_schedule(s, total);
    return !::testing::Test::HasFailure();
  });
  total.print();
  return total;
}

class FaultScheduleOfGpt : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FaultScheduleOfGpt, OnTheSimDeviceChangesNoBit) { run_schedules(1000 * GetParam(), 30, true); }

TEST_P(FaultScheduleOfGpt, OnTheHostDeviceChangesNoBit) { run_schedules(1000 * GetParam() + 500, 15, false); }

INSTANTIATE_TEST_SUITE_P(, FaultScheduleOfGpt, ::testing::Values(21, 22),
                         [](auto const& of) { return std::to_string(of.param); });

}  // namespace
