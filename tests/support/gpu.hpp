// A GPU to test on. Without one a test is skipped and says why; with FERRY_REQUIRE_GPU=1 it fails.
//
// The same tests run over the emulated CUDA runtime in programs built for it, so that they are known to be right before
// anybody runs them on a GPU. The emulation begins anew for each, and device memory is out of the host's reach there as
// it is on a GPU.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "ferry/cuda_device.hpp"

#if defined(FERRY_CUDASIM)
#include "cudasim/cudasim.hpp"
#endif

namespace ferry::testing {

#if defined(FERRY_CUDASIM)
inline constexpr bool gpu_is_emulated = true;
inline order_hooks* gpu_order() { return &cudasim::order(); }
inline void begin_with_gpu() { cudasim::reset(); }
#else
inline constexpr bool gpu_is_emulated = false;
inline order_hooks* gpu_order() { return nullptr; }
inline void begin_with_gpu() {}
#endif

/// Something that a test needs is not there: ends its `SetUp`, or its body if that returns next.
inline void end_without(std::string const& what) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
  char const* const required = std::getenv("FERRY_REQUIRE_GPU");
  if (required != nullptr && std::string_view(required) == "1") FAIL() << what << "; FERRY_REQUIRE_GPU=1 asks for it";
  GTEST_SKIP() << what << "; FERRY_REQUIRE_GPU=1 makes this a failure";
}

/// For `SetUp`. False if the test has ended here.
inline bool has_gpu() {
  begin_with_gpu();
  auto const why_not = find_cuda().why_not;
  if (!why_not.empty()) end_without("no GPU: " + why_not);
  return why_not.empty();
}

/// A device on the first GPU.
class GpuTest : public ::testing::Test {
 protected:
  static constexpr std::size_t mib = std::size_t{1} << 20;

  void SetUp() override {
    if (has_gpu())
      device_ = make_cuda_device({.device_bytes = 256 * mib, .pinned_bytes = 256 * mib, .order = gpu_order()});
  }
  void TearDown() override {
    device_.reset();
#if defined(FERRY_CUDASIM)
    EXPECT_EQ(cudasim::live().text(), "nothing");
    EXPECT_THAT(cudasim::violations(), ::testing::IsEmpty());
#endif
  }

  device& dev() { return *device_; }

  std::unique_ptr<cuda_device> device_;
};

}  // namespace ferry::testing
