#include "nn/cuda_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ferry/cuda_device.hpp"

namespace ferry::nn::cuda {

namespace {

/// After these CUDA refuses every further call of the process.
bool is_sticky(cudaError_t status) {
  static constexpr std::array sticky{
      cudaErrorIllegalAddress,      cudaErrorLaunchTimeout,      cudaErrorLaunchFailure,
      cudaErrorHardwareStackError,  cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
      cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,          cudaErrorAssert,
      cudaErrorECCUncorrectable,    cudaErrorCudartUnloading};
  return std::ranges::find(sticky, status) != sticky.end();
}

}  // namespace

void require(cudaError_t status, char const* call, std::source_location where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw cuda_error(fmt::format("{} failed: {} ({}), at {}:{}", call, cudaGetErrorName(status),
                               cudaGetErrorString(status), where.file_name(), where.line()),
                   {.call = call,
                    .reason = cudaGetErrorName(status),
                    .code = static_cast<int>(status),
                    .file = where.file_name(),
                    .line = static_cast<int>(where.line()),
                    .sticky = is_sticky(status)});
}

current_device::current_device(int ordinal) {
  require(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ == ordinal) return;
  require(cudaSetDevice(ordinal), "cudaSetDevice");
  changed_ = true;
}

current_device::~current_device() {
  // A destructor cannot report: a driver that refuses this refuses whatever the caller does next.
  if (changed_ && cudaSetDevice(before_) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace ferry::nn::cuda
