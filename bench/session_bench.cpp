// What Ferry costs its caller, how much of the link it reaches, and how well it hides it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/allocation_counter.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point began) {
  return std::chrono::duration<double>(clock_type::now() - began).count();
}

ferry::config settings_for(ferry::policy_kind kind, std::size_t budget_bytes, std::size_t pinned_bytes) {
  ferry::config settings;
  settings.policy.kind = kind;
  settings.budget = ferry::byte_amount::exactly(budget_bytes);
  settings.host_budget = ferry::byte_amount::exactly(pinned_bytes);
  settings.device_bytes = budget_bytes;
  settings.pinned_bytes = std::max<std::size_t>(pinned_bytes, 1 << 20);
  settings.compute_threads = 1;
  return settings;
}

std::unique_ptr<ferry::host_device> device_for(ferry::config const& settings, double gbps) {
  ferry::link_speed const link{gbps, 10};
  return ferry::make_host_device({.device_bytes = settings.device_bytes,
                                  .pinned_bytes = settings.pinned_bytes,
                                  .device_to_host = link,
                                  .host_to_device = link,
                                  .compute_threads = 1});
}

/// A step of N items, all live at once: the caller's time for allocate, save, restore and release of one.
void BM_SaveRestoreResident(benchmark::State& state) {
  auto const items = static_cast<std::uint32_t>(state.range(0));
  auto const settings = settings_for(ferry::policy_kind::keep, std::size_t{256} * (items + 1), 0);
  auto device = device_for(settings, 0);
  ferry::session session(*device, settings);
  ferry::stream stream(*device, ferry::stream_kind::compute, "compute");

  std::uint64_t allocations = 0;
  auto const step = [&] {
    session.begin_step();
    auto const allocations_before = ferry::testing::allocations();
    auto const began = clock_type::now();
    for (std::uint32_t i = 0; i < items; ++i) {
      session.save({0, i, "x"}, session.allocate(256, stream), stream);
    }
    for (std::uint32_t i = items; i-- > 0;) {
      static_cast<void>(session.restore({0, i, "x"}, stream));
      session.release({0, i, "x"});
    }
    double const seconds = seconds_since(began);
    allocations += ferry::testing::allocations() - allocations_before;
    session.end_step();
    return seconds;
  };
  step();
  step();
  allocations = 0;
  double seconds = 0;
  double fastest = 1e9;
  for (auto _ : state) {
    double const took = step();
    state.SetIterationTime(took);
    seconds += took;
    fastest = std::min(fastest, took);
  }
  auto const pairs = static_cast<double>(state.iterations()) * static_cast<double>(items);
  state.counters["ns_per_pair"] = seconds * 1e9 / pairs;
  state.counters["ns_per_pair_best"] = fastest * 1e9 / static_cast<double>(items);
  state.counters["allocations"] = static_cast<double>(allocations) / pairs;
}
BENCHMARK(BM_SaveRestoreResident)->ArgName("live")->RangeMultiplier(10)->Range(10, 10000)->UseManualTime();

/// Out and back: one item, whole, both ways, at a set link speed (GB/s; 0 is unpaced). `of_link` is the share
/// of the configured bandwidth; unpaced, `of_memcpy` is the share of this machine's memcpy of the same bytes.
void BM_OffloadRestore(benchmark::State& state) {
  std::size_t const bytes = static_cast<std::size_t>(state.range(0)) << 20;
  double const gbps = static_cast<double>(state.range(1));
  auto settings = settings_for(ferry::policy_kind::offload, 2 * bytes, 2 * bytes);
  auto device = device_for(settings, gbps);
  ferry::session session(*device, settings);
  ferry::stream stream(*device, ferry::stream_kind::compute, "compute");
  std::vector<char> from(gbps == 0 ? bytes : 1, 1);
  std::vector<char> to(gbps == 0 ? bytes : 1, 2);

  double ferried = 0;
  double copied = 0;
  for (auto _ : state) {
    session.begin_step();
    auto const began = clock_type::now();
    session.save({0, 0, "x"}, session.allocate(bytes, stream), stream);
    session.synchronize();
    auto back = session.restore({0, 0, "x"}, stream);
    stream.synchronize();
    double const seconds = seconds_since(began);
    benchmark::DoNotOptimize(back.data());
    back.end();
    session.end_step();
    ferried += seconds;
    state.SetIterationTime(seconds);
    if (gbps == 0) {  // in turns with the round trips, so that a noisy neighbour disturbs both
      auto const plain = clock_type::now();
      std::memcpy(to.data(), from.data(), bytes);
      benchmark::ClobberMemory();
      std::memcpy(from.data(), to.data(), bytes);
      benchmark::ClobberMemory();
      copied += seconds_since(plain);
    }
  }
  double const moved = 2.0 * static_cast<double>(bytes) * static_cast<double>(state.iterations());
  state.counters["GBps"] = moved / ferried / 1e9;
  if (gbps > 0) state.counters["of_link"] = moved / ferried / 1e9 / gbps;
  if (gbps == 0) state.counters["of_memcpy"] = copied / ferried;
}
/// What `restore` weighs when an item is not there: its transfer against its recipe, four recipes deep. The items are
/// hosted, in a step that knows the pace of the one before.
void BM_Decision(benchmark::State& state) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  constexpr std::uint32_t items = 16;
  auto const settings = settings_for(ferry::policy_kind::offload, 2 * items * bytes, 2 * items * bytes);
  auto device = device_for(settings, 0);
  ferry::session session(*device, settings);
  ferry::stream stream(*device, ferry::stream_kind::compute, "compute");
  auto const rebuild = [](std::uint32_t i) -> ferry::recipe {
    if (i % 4 == 0) return {};
    return {
        .enqueue = [](ferry::recipe_context const& to) { to.stream.owner()->launch(to.stream, "rebuild", {}, [] {}); },
        .inputs = {{0, i - 1, "x"}}};
  };
  auto const forward = [&] {
    session.begin_step();
    for (std::uint32_t i = 0; i < items; ++i)
      session.save({0, i, "x"}, session.allocate(bytes, stream), stream, rebuild(i));
    session.synchronize();
  };
  // The first step's recipes are timed: its items are dropped.
  session.set_placement([](ferry::item_info const& item) {
    return item.has_recipe ? ferry::placement::recompute : ferry::placement::offload;
  });
  forward();
  for (std::uint32_t i = items; i-- > 0;) static_cast<void>(session.restore({0, i, "x"}, stream));
  stream.synchronize();
  session.end_step();
  session.set_placement({});
  forward();
  std::uint64_t const before = ferry::testing::allocations();
  std::uint32_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(session.foresee({0, i, "x"}));
    i = (i + 1) % items;
  }
  state.counters["allocations"] = static_cast<double>(ferry::testing::allocations() - before);
  session.end_step();
}
BENCHMARK(BM_Decision);

BENCHMARK(BM_OffloadRestore)->ArgNames({"MiB", "GBps"})->Args({64, 1})->Args({64, 0})->UseManualTime()->MinTime(2);

/// One thread computes for about `target`; the same loop count always does the same work.
void compute(std::uint64_t loops) {
  double x = 1.0;
  for (std::uint64_t i = 0; i < loops; ++i) {
    x = x * 1.0000001 + 1e-9;
    benchmark::DoNotOptimize(x);
  }
}

/// A chain whose forward takes as long as moving its items out, and whose backward as long as moving them
/// back. `of_longer` is the step's time over the longer of the two, both measured in the same run.
void BM_Overlap(benchmark::State& state) {
  auto const segments = static_cast<std::uint32_t>(state.range(0));
  std::size_t const bytes = std::size_t{4} << 20;
  double const gbps = 1.0;
  auto settings = settings_for(ferry::policy_kind::offload, 6 * bytes, segments * bytes);
  auto device = device_for(settings, gbps);
  ferry::session session(*device, settings);
  ferry::stream stream(*device, ferry::stream_kind::compute, "compute");
  double const item_seconds = static_cast<double>(bytes) / (gbps * 1e9);

  // How many loops make one item's transfer time, on this machine now.
  auto calibrate = clock_type::now();
  constexpr std::uint64_t sample = 20'000'000;
  compute(sample);
  auto const loops = static_cast<std::uint64_t>(static_cast<double>(sample) * item_seconds / seconds_since(calibrate));

  auto const launch = [&](char const* name) { device->launch(stream, name, {}, [loops] { compute(loops); }); };
  double longest = 0;
  double total = 0;
  for (auto _ : state) {
    auto const alone = clock_type::now();
    for (std::uint32_t s = 0; s < 2 * segments; ++s) launch("alone");
    stream.synchronize();
    longest += std::max(seconds_since(alone), 2 * segments * item_seconds);

    session.begin_step();
    auto const began = clock_type::now();
    for (std::uint32_t s = 0; s < segments; ++s) {
      auto x = session.allocate(bytes, stream);
      launch("forward");
      session.save({0, s, "x"}, std::move(x), stream);
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      {
        auto x = session.restore({0, s, "x"}, stream);
        launch("backward");
      }
      session.release({0, s, "x"});
    }
    stream.synchronize();
    double const seconds = seconds_since(began);
    session.end_step();
    total += seconds;
    state.SetIterationTime(seconds);
  }
  state.counters["of_longer"] = total / longest;
  state.counters["exposed_ms"] = session.stats().exposed_us / 1e3 / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Overlap)->ArgName("segments")->Arg(64)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(3);

}  // namespace
