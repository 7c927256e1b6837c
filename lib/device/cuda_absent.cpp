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

namespace cuda {

// Whoever has no device asks for neither; they are here so that both builds have the same ABI.
void require(int status, char const* call, call_site where) {
  if (status == 0) return;
  throw cuda_error(std::string(call) + " failed, with code " + std::to_string(status) + "; " + why,
                   {.call = call, .code = status, .file = where.file, .line = where.line});
}

current_device::current_device(int) { throw no_cuda(why); }
current_device::~current_device() {  // clang wants to see members used
  (void)before_;
  (void)changed_;
}

}  // namespace cuda

}  // namespace ferry
