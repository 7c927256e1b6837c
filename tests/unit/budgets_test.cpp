// Budgets that the machine cannot give are refused before anything is taken.
#include "path/budgets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ferry/ferry.hpp"
#include "support/available_memory.hpp"
#include "support/mib.hpp"

namespace ferry::path {
namespace {

using ::ferry::testing::mib;
using ::testing::HasSubstr;

constexpr support::available_memory there{100 * mib, "this machine"};

device_capabilities device_named(char const* name) {
  device_capabilities on;
  on.name = name;
  return on;
}
byte_amount mebibytes(std::size_t count) { return byte_amount::exactly(count * mib); }

/// What is said of budgets that cannot be had; nothing if they can.
std::string refusal(char const* device, byte_amount budget, byte_amount host_budget) {
  try {
    require_available(device_named(device), {.budget = budget, .host_budget = host_budget}, there);
  } catch (out_of_memory const& problem) {
    return problem.what();
  }
  return {};
}

TEST(Budgets, OfTheHostDeviceAreTheMachinesMemory) {
  EXPECT_EQ(refusal("host", mebibytes(100), {}), "");
  EXPECT_EQ(refusal("host", mebibytes(101), {}),
            "FERRY_BUDGET asks for 101 MiB, but of the memory of this machine 100 MiB are available; lower it");
  EXPECT_EQ(refusal("host", byte_amount::share(1), {}), "") << "of a device that is there";
}

TEST(Budgets, OfPinnedMemoryAreTheMachinesMemory) {
  for (char const* device : {"host", "cuda:1"}) {
    EXPECT_EQ(refusal(device, mebibytes(1), mebibytes(99)), "");
    EXPECT_THAT(
        refusal(device, mebibytes(1), mebibytes(101)),
        HasSubstr("FERRY_HOST_BUDGET asks for 101 MiB, but of the memory of this machine 100 MiB are available"));
  }
}

TEST(Budgets, OfTheHostDeviceShareIt) {
  EXPECT_EQ(refusal("host", mebibytes(60), mebibytes(40)), "");
  EXPECT_EQ(
      refusal("host", mebibytes(60), mebibytes(41)),
      "FERRY_BUDGET and FERRY_HOST_BUDGET ask for 60.0 MiB and 41.0 MiB, but of the memory of this machine 100 MiB "
      "are available; lower one of them");
  EXPECT_EQ(refusal("host", mebibytes(60), byte_amount::share(0.5)), "");
}

TEST(Budgets, OfAGpuAndOfSimulatedMemoryAreElsewhere) {
  EXPECT_EQ(refusal("cuda:0", mebibytes(1000), mebibytes(100)), "");
  EXPECT_EQ(refusal("sim", mebibytes(1000), mebibytes(1000)), "");
}

TEST(Budgets, AreRefusedBySessionsAndWhenTheyChange) {
  std::size_t const more = support::memory_available().bytes + 1024 * mib;
  auto const device = make_host_device({.device_bytes = more + mib, .pinned_bytes = mib});
  config settings;
  settings.budget = byte_amount::exactly(more);
  EXPECT_THROW(session(*device, settings), out_of_device_memory);
  settings.budget = byte_amount::exactly(mib);
  session on(*device, settings);
  try {
    on.set_budget(byte_amount::exactly(more));
    ADD_FAILURE() << "expected a refusal";
  } catch (out_of_device_memory const& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("the budget asks for "));
    EXPECT_EQ(problem.needed_bytes(), more);
  }
  EXPECT_EQ(on.stats().device.limit_bytes, mib);
}

}  // namespace
}  // namespace ferry::path
