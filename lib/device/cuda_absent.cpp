// The CUDA device of a build without CUDA: says so.
#include "ferry/cuda_device.hpp"

namespace ferry {

namespace {

constexpr char const* why = "this build has no CUDA; build with -DFERRY_CUDA=ON, or use FERRY_DEVICE=host";

}  // namespace

std::unique_ptr<cuda_device> make_cuda_device(cuda_device_options) { throw no_cuda(why); }

cuda_presence find_cuda() {
  cuda_presence none;
  none.why_not = why;
  return none;
}

}  // namespace ferry
