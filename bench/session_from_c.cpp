// The same pairs of save and restore as BM_SaveRestoreResident, through the C interface: the difference is what
// handles, statuses and turns cost.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ferry/ferry.h"
#include "support/allocation_counter.hpp"

namespace {

void require(ferry_status status) {
  if (status == FERRY_OK) return;
  std::fprintf(stderr, "%s\n", ferry_last_error());
  std::abort();
}

class c_session {
 public:
  explicit c_session(std::size_t bytes) {
    ferry_settings* settings = nullptr;
    require(ferry_settings_create(&settings));
    for (auto const& [variable, value] : {std::pair{"FERRY_DEVICE", std::string("host")},
                                          {"FERRY_POLICY", "keep"},
                                          {"FERRY_BUDGET", std::to_string(bytes)},
                                          {"FERRY_DEVICE_BYTES", std::to_string(bytes)},
                                          {"FERRY_PINNED_BYTES", "1MiB"},
                                          {"FERRY_HOST_BUDGET", "1MiB"},
                                          {"FERRY_LINK_GBPS", "0"},
                                          {"FERRY_COMPUTE_THREADS", "1"}}) {
      require(ferry_settings_set(settings, variable, value.c_str()));
    }
    require(ferry_device_create(settings, &device_));
    require(ferry_stream_create(device_, "compute", &stream_));
    require(ferry_session_create(device_, settings, &session_));
    require(ferry_settings_destroy(settings));
  }
  c_session(c_session const&) = delete;
  c_session& operator=(c_session const&) = delete;
  ~c_session() {
    require(ferry_session_destroy(session_));
    require(ferry_stream_destroy(stream_));
    require(ferry_device_destroy(device_));
  }

  /// Seconds of the caller's for a step of so many items.
  double step(std::uint32_t items, std::uint64_t& allocations) {
    using clock_type = std::chrono::steady_clock;
    require(ferry_session_begin_step(session_));
    auto const allocations_before = ferry::testing::allocations();
    auto const began = clock_type::now();
    for (std::uint32_t i = 0; i < items; ++i) {
      ferry_key const key{0, i, "x"};
      ferry_block* block = nullptr;
      require(ferry_session_allocate(session_, 256, stream_, "block", &block, nullptr));
      require(ferry_session_save(session_, &key, block, stream_, nullptr, nullptr));
    }
    for (std::uint32_t i = items; i-- > 0;) {
      ferry_key const key{0, i, "x"};
      ferry_lease* lease = nullptr;
      require(ferry_session_restore(session_, &key, stream_, &lease, nullptr));
      require(ferry_lease_end(lease));
      require(ferry_session_release(session_, &key));
    }
    double const seconds = std::chrono::duration<double>(clock_type::now() - began).count();
    allocations += ferry::testing::allocations() - allocations_before;
    require(ferry_session_end_step(session_));
    return seconds;
  }

 private:
  ferry_device* device_ = nullptr;
  ferry_stream* stream_ = nullptr;
  ferry_session* session_ = nullptr;
};

void BM_SaveRestoreResidentFromC(benchmark::State& state) {
  auto const items = static_cast<std::uint32_t>(state.range(0));
  c_session on(std::size_t{256} * (items + 1));
  std::uint64_t allocations = 0;
  on.step(items, allocations);
  on.step(items, allocations);
  allocations = 0;
  double seconds = 0;
  double fastest = 1e9;
  for (auto _ : state) {
    double const took = on.step(items, allocations);
    state.SetIterationTime(took);
    seconds += took;
    fastest = std::min(fastest, took);
  }
  auto const pairs = static_cast<double>(state.iterations()) * static_cast<double>(items);
  state.counters["ns_per_pair"] = seconds * 1e9 / pairs;
  state.counters["ns_per_pair_best"] = fastest * 1e9 / static_cast<double>(items);
  state.counters["allocations"] = static_cast<double>(allocations) / pairs;
}
BENCHMARK(BM_SaveRestoreResidentFromC)->ArgName("live")->RangeMultiplier(10)->Range(10, 10000)->UseManualTime();

}  // namespace
