// A CUDA device over the emulated runtime, which begins anew for every test and ends with nothing left and no mistake
// reported.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "cudasim/cudasim.hpp"
#include "ferry/ferry.hpp"
#include "support/temporary_folder.hpp"

namespace ferry::testing {

class CudaTest : public ::testing::Test {
 protected:
  static constexpr std::size_t device_bytes = std::size_t{8} << 20;
  static constexpr std::size_t pinned_bytes = std::size_t{8} << 20;

  void SetUp() override { cudasim::reset(); }
  void TearDown() override {
    device_.reset();
    EXPECT_EQ(cudasim::live().text(), "nothing");
    EXPECT_THAT(cudasim::violations(), ::testing::IsEmpty());
  }

  device& make(cuda_device_options options = {}) {
    if (options.device_bytes == 0) options.device_bytes = device_bytes;
    if (options.pinned_bytes == 0) options.pinned_bytes = pinned_bytes;
    options.order = &cudasim::order();
    device_ = make_cuda_device(std::move(options));
    return *device_;
  }

  std::unique_ptr<cuda_device> device_;
};

}  // namespace ferry::testing
