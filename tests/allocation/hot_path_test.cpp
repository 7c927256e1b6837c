// Once warm, save and restore allocate nothing on the caller's thread: resident, ferried and rebuilt items,
// with recipes, waits and prefetches.
#include "support/allocation_counter.hpp"
#include "support/session_fixture.hpp"

namespace ferry::testing {
namespace {

/// A policy, and whether every step is written down.
class HotPath : public SessionTest, public ::testing::WithParamInterface<std::tuple<policy_kind, bool>> {};

TEST_P(HotPath, AllocatesNothingOnceWarm) {
  check_order = false;  // the checker's books are on the heap
  config settings;
  settings.policy.every = 3;
  auto const [policy, written] = GetParam();
  if (written) settings.trace_file = settings.stats_file = "/dev/null";
  start(policy, policy == policy_kind::keep ? 40 : 8, 64, settings);
  device_->set_link(copy_direction::device_to_host, {.gbps = 4, .latency_us = 5});
  device_->set_link(copy_direction::host_to_device, {.gbps = 4, .latency_us = 5});
  constexpr std::uint32_t segments = 32;
  auto const step = [&] {
    session_->begin_step();
    std::uint64_t counted = 0;
    auto const uncounted = [&](auto call) {
      auto const before = allocations();
      call();
      allocations() = before;
    };
    auto const before = allocations();
    for (std::uint32_t s = 0; s < segments; ++s) {
      auto memory = session_->allocate(item_bytes, *stream_);
      uncounted([&] { fill(memory.data(), std::byte(s)); });
      recipe how;
      if (s > 0) how = adding(std::byte{1}, {{0, s - 1, "h"}});
      session_->save({0, s, "h"}, std::move(memory), *stream_, std::move(how));
    }
    for (std::uint32_t s = segments; s-- > 0;) {
      {
        auto back = session_->restore({0, s, "h"}, *stream_);
        uncounted([&] { expect(back.data(), std::byte(s)); });
      }
      session_->release({0, s, "h"});
    }
    counted = allocations() - before;
    stream_->synchronize();
    session_->end_step();
    session_->begin_step();
    session_->end_step();
    return counted;
  };
  for (int i = 0; i < 20; ++i) step();
  std::uint64_t fewest = ~std::uint64_t{0};
  for (int i = 0; i < 10; ++i) fewest = std::min(fewest, step());
  // The fewest of ten: how many events and transfers are under way at once depends on timing, and the pools
  // grow when a step beats the record. A path that allocates by itself does so in every step.
  EXPECT_EQ(fewest, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, HotPath,
                         ::testing::Combine(::testing::Values(policy_kind::keep, policy_kind::offload,
                                                              policy_kind::recompute, policy_kind::every,
                                                              policy_kind::selective, policy_kind::automatic),
                                            ::testing::Bool()));

}  // namespace
}  // namespace ferry::testing
