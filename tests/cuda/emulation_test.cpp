// The emulated CUDA runtime does what CUDA's programming guide says.
#include "cudasim/cudasim.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

TEST(Cudasim, HasTwoDevices) {
  cudasim::reset();
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
}

}  // namespace
