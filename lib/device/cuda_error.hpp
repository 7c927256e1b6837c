// From CUDA's status codes to exceptions, and what becomes of a device whose context is broken.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include <cuda_runtime_api.h>

#include "ferry/cuda_device.hpp"

namespace ferry::cuda {

/// After these CUDA refuses every further call of the process.
[[nodiscard]] bool is_sticky(cudaError_t status) noexcept;

/// Whether a device can still be used. Work that was enqueued cannot be waited for once CUDA answers a query or a
/// synchronisation with an error: what of it still runs is unknown, so no byte may be handed out again. Threads: any.
class health {
 public:
  /// Throws: as `cuda::require`; and if the error is one that CUDA does not recover from, the device is lost.
  void require(cudaError_t status, char const* call, call_site where = call_site::current());
  /// The same for calls that tell whether enqueued work is over: any error means that the device is lost.
  void require_known(cudaError_t status, char const* call, call_site where = call_site::current());
  /// Throws: `cuda_error` if the device is lost.
  void check() const;
  /// Where nothing may be thrown: true if the call succeeded.
  bool succeeded(cudaError_t status) noexcept;

  [[nodiscard]] bool is_lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// The first cause, or nothing.
  [[nodiscard]] std::string why() const;

 private:
  void lose(cuda_error const& cause) noexcept;

  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  std::string why_;
  cuda_error::place where_;
};

}  // namespace ferry::cuda
