// Memory is there when it is needed, and gone when it is not: what the process really holds.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ferry/ferry.hpp"
#include "support/mib.hpp"

namespace ferry::testing {
namespace {

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

config large_settings(char const* policy) {
  config settings;
  settings.set("FERRY_POLICY", policy);
  settings.device = "host";
  settings.device_bytes = 1024 * mib;
  settings.pinned_bytes = 1024 * mib;
  settings.budget = byte_amount::share(1);
  settings.host_budget = byte_amount::share(1);
  settings.link_gbps = {};
  settings.log = log_level::off;
  return settings;
}

/// Sixteen segments of 8 MiB, which a recipe writes.
void step(session& on, stream& compute) {
  constexpr std::size_t bytes = 8 * mib;
  session::step_scope step(on);
  for (unsigned s = 0; s < 16; ++s) {
    auto memory = on.allocate(bytes, compute);
    compute.synchronize();
    std::memset(memory.data(), static_cast<int>(s), bytes);
    recipe how;
    how.enqueue = [s](recipe_context const& to) {
      to.stream.owner()->synchronize(to.stream);
      std::memset(to.output, static_cast<int>(s), to.bytes);
    };
    on.save({0, s, "h"}, std::move(memory), compute, std::move(how));
  }
  for (unsigned s = 16; s-- > 0;) {
    auto const back = on.restore({0, s, "h"}, compute);
    compute.synchronize();
    EXPECT_EQ(back.as<unsigned char>()[bytes - 1], s);
    on.release({0, s, "h"});
  }
  step.end();
}

TEST(MemoryOnDemand, UnderRecomputeLittleMoreIsResidentThanTheDevicesPeak) {
  std::size_t const before = resident_bytes();
  auto const device = make_device(large_settings("recompute"));
  stream compute(*device, stream_kind::compute, "compute");
  {
    session on(*device, large_settings("recompute"));
    EXPECT_LE(resident_bytes(), before + 16 * mib) << "nothing was used yet";
    for (int i = 0; i < 3; ++i) step(on, compute);
    EXPECT_LE(resident_bytes(), before + on.stats().device.peak_bytes + 64 * mib);
  }
  EXPECT_LE(resident_bytes(), before + 16 * mib) << "and all of it is given back with the session";
}

TEST(MemoryOnDemand, AnotherBudgetGivesMemoryBack) {
  auto const device = make_device(large_settings("keep"));
  stream compute(*device, stream_kind::compute, "compute");
  session on(*device, large_settings("keep"));
  std::size_t const before = resident_bytes();
  step(on, compute);
  EXPECT_GE(resident_bytes(), before + 100 * mib);
  on.set_budget(byte_amount::exactly(200 * mib));
  EXPECT_LE(resident_bytes(), before + 16 * mib);
  step(on, compute);
}

TEST(MemoryOnDemand, ASessionWithoutPinnedMemoryFerriesNothing) {
  auto settings = large_settings("offload");
  settings.set("FERRY_HOST_BUDGET", "0");
  auto const device = make_device(settings);
  stream compute(*device, stream_kind::compute, "compute");
  session on(*device, settings);
  step(on, compute);
  EXPECT_EQ(on.stats().pinned.limit_bytes, 0U);
  EXPECT_EQ(on.stats().device_to_host.transfers, 0U);
}

TEST(MemoryOnDemand, ArraysOfTheTrainersAreNotHeldTwice) {
  constexpr std::size_t bytes = 8 * mib;
  constexpr std::uint32_t layers = 16;
  std::size_t const before = resident_bytes();
  std::unique_ptr<std::byte[]> const own(new std::byte[layers * bytes]);  // untouched
  auto settings = large_settings("recompute");
  settings.device_bytes = settings.pinned_bytes = 0;
  settings.set("FERRY_BUDGET", "30%");
  segments it(settings, layers, 4096);
  auto const h = it.tensor("h", bytes, {own.get(), 0});
  std::size_t most = 0;
  it.forward_by([&](segment_call const& s) {
    std::memset(s.address_of(h), static_cast<int>(s.index), bytes);
    std::memset(s.out, 0, 4096);
    most = std::max(most, resident_bytes());
  });
  it.backward_by([&](segment_call const& s) { EXPECT_EQ(s.at<unsigned char>(h)[bytes - 1], s.index); });
  for (int i = 0; i < 3; ++i) {
    segments::step_scope step(it);
    std::memset(it.input(), 0, 4096);
    (void)it.forward();
    it.backward();
    step.end();
  }
  EXPECT_LE(most, before + it.in_session().stats().device.peak_bytes + 32 * mib);
  EXPECT_LE(it.in_session().stats().device.peak_bytes, 3 * layers * bytes / 10 + mib);
}

}  // namespace
}  // namespace ferry::testing
