#include "device/cuda_error.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace ferry::cuda {

namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

std::string advice(cudaError_t status) {
  if (status == cudaErrorCudartUnloading) return "; the CUDA driver is shutting down: end sessions before main returns";
  if (is_sticky(status)) return "; CUDA refuses all further work of this process: compute-sanitizer finds the kernel";
  return "";
}

cuda_error error_of(cudaError_t status, char const* call, call_site const& where) {
  std::string const message =
      fmt::format("{} failed: {} ({}), at {}:{}{}", call, cudaGetErrorName(status), cudaGetErrorString(status),
                  file_name(where.file), where.line, advice(status));
  return {message,
          {.call = call,
           .reason = cudaGetErrorName(status),
           .code = static_cast<int>(status),
           .file = where.file,
           .line = where.line,
           .sticky = is_sticky(status)}};
}

}  // namespace

bool is_sticky(cudaError_t status) noexcept {
  static constexpr std::array sticky{
      cudaErrorIllegalAddress,      cudaErrorLaunchTimeout,       cudaErrorLaunchFailure,
      cudaErrorHardwareStackError,  cudaErrorIllegalInstruction,  cudaErrorMisalignedAddress,
      cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,           cudaErrorAssert,
      cudaErrorECCUncorrectable,    cudaErrorNvlinkUncorrectable, cudaErrorCudartUnloading,
      cudaErrorDeviceUninitialized, cudaErrorMpsConnectionFailed,
  };
  return std::ranges::find(sticky, status) != sticky.end();
}

void require(int status, char const* call, call_site where) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw error_of(static_cast<cudaError_t>(status), call, where);
}

current_device::current_device(int ordinal) {
  cuda::require(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ == ordinal) return;
  cuda::require(cudaSetDevice(ordinal), "cudaSetDevice");
  changed_ = true;
}

current_device::~current_device() {
  // A destructor cannot report: a driver that refuses this refuses whatever the caller does next.
  if (changed_ && cudaSetDevice(before_) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

void health::require(cudaError_t status, char const* call, call_site where) {
  if (status == cudaSuccess) return;
  try {
    cuda::require(status, call, where);
  } catch (cuda_error const& failed) {
    if (failed.where().sticky) lose(failed);
    throw;
  }
}

void health::require_known(cudaError_t status, char const* call, call_site where) {
  if (status == cudaSuccess) return;
  try {
    cuda::require(status, call, where);
  } catch (cuda_error const& failed) {
    lose(failed);
    throw;
  }
}

void health::check() const {
  if (!is_lost()) return;
  std::lock_guard const lock(mutex_);
  throw cuda_error("the GPU is lost since " + why_, where_);
}

bool health::succeeded(cudaError_t status) noexcept {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status == cudaSuccess;
}

std::string health::why() const {
  std::lock_guard const lock(mutex_);
  return why_;
}

void health::lose(cuda_error const& cause) noexcept {
  std::lock_guard const lock(mutex_);
  if (is_lost()) return;
  try {
    why_ = cause.what();
    where_ = cause.where();
  } catch (std::bad_alloc const&) {
    why_.clear();
  }
  lost_.store(true, std::memory_order_release);
}

}  // namespace ferry::cuda
