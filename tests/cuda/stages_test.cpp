// Ranges for profilers, as a build with FERRY_NVTX=ON has them.
#define FERRY_NVTX
#include "support/stage.hpp"

#include "cuda/cuda_fixture.hpp"

namespace ferry::testing {
namespace {

TEST(Stages, AreRangesWhileTheyLast) {
  cudasim::reset();
  {
    support::stage const outer("ferry restore");
    support::stage const inner("ferry recompute");
    EXPECT_EQ(cudasim::nvtx().pushed, 2U);
    EXPECT_EQ(cudasim::nvtx().popped, 0U);
  }
  EXPECT_EQ(cudasim::nvtx().popped, 2U);
}

}  // namespace
}  // namespace ferry::testing
