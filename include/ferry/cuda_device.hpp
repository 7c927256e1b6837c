// The CUDA device: an NVIDIA GPU through the CUDA runtime. No header of CUDA's is needed to include this one.
//
// Streams are CUDA streams that do not synchronise with the default stream, events are CUDA events, copies are
// `cudaMemcpyAsync` between device memory and pinned memory. The device synchronises nothing on its own but where
// `device.hpp` says that a call waits; it never uses the default stream. A stream of the trainer's own joins by
// `stream_ref::from_native`, and `native_handle` gives the `cudaStream_t` to launch kernels on.
//
// Several devices, of one GPU or of several, may live in one process; nothing is shared between them. Every call makes
// the GPU current where CUDA wants it and leaves the caller's current GPU as it was.
//
// Threads: any. Stream order: as device.hpp says. A host function that throws fails what is ordered behind it, but
// copies that are enqueued run (`device_capabilities::recalls_copies`). An error that CUDA cannot recover from makes
// the device `lost`: every later call says so, with the first cause.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/error.hpp"
#include "ferry/export.h"

struct CUmemPoolHandle_st;  // what a cudaMemPool_t points to

namespace ferry {

/// A call of the CUDA runtime or of cuBLAS that failed.
class FERRY_API cuda_error : public error {
 public:
  /// Which call failed, where, and how.
  struct place {
    std::string call{};    ///< "cudaMemcpyAsync"
    std::string reason{};  ///< "cudaErrorInvalidValue"
    int code = 0;
    char const* file = "";
    int line = 0;
    bool sticky = false;  ///< CUDA refuses everything from now on: only a new process helps
  };
  cuda_error(std::string const& message, place where) : error(message), where_(std::move(where)) {}
  ~cuda_error() override;
  [[nodiscard]] place const& where() const noexcept { return where_; }

 private:
  place where_;
};

/// There is no GPU to use: no driver, no device, or not that many.
class FERRY_API no_cuda : public error {
 public:
  using error::error;
  ~no_cuda() override;
};

/// Where a function was called from. What std::source_location would be, if clang 14 had it with GCC 12's library.
struct call_site {
  char const* file = "";
  int line = 0;
  [[nodiscard]] static constexpr call_site current(char const* from = __builtin_FILE(),
                                                   int at = __builtin_LINE()) noexcept {
    return {from, at};
  }
};

namespace cuda {

/// Throws: `cuda_error` unless `status`, a `cudaError_t`, is a success. CUDA's memory of the error is cleared, so that
/// a trainer who asks for the last error after a launch of its own does not find one of Ferry's.
FERRY_API void require(int status, char const* call, call_site where = call_site::current());

/// Makes a GPU current for the calling thread, and the one before again: CUDA wants it for launches.
class FERRY_API current_device {
 public:
  explicit current_device(int ordinal);
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;
  ~current_device();

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace cuda

/// What a CUDA device is made with.
struct cuda_device_options {
  int ordinal = 0;
  std::size_t device_bytes = 0;  ///< the most it hands out; 0: what is free on the GPU at the start
  std::size_t pinned_bytes = 0;  ///< the same; 0: half of the machine's memory

  // Where device memory comes from, if not from `cudaMalloc`: the trainer's own allocator (both functions; null means
  // that there is no room), or a `cudaMemPool_t`.
  std::function<void*(std::size_t bytes)> allocate{};
  std::function<void(void* address)> deallocate{};
  CUmemPoolHandle_st* pool = nullptr;

  /// Pinned memory is cut from here if it is given: registered with CUDA as long as the device lives. Otherwise it
  /// comes from `cudaHostAlloc`, near the GPU where the machine tells which memory that is.
  std::span<std::byte> pinned{};

  /// Measures the link when the GPU is used for the first time; the result is kept in the user's cache folder.
  bool calibrate = false;
  /// A checker that is told what `device::order` promises. It must outlive the device.
  order_hooks* order = nullptr;
};

/// A GPU, over the CUDA runtime. Its streams may be the trainer's own: `stream_ref::from_native`.
class FERRY_API cuda_device : public device {
 public:
  ~cuda_device() override;
  [[nodiscard]] virtual int ordinal() const noexcept = 0;
  /// Compute capability, 80 for 8.0.
  [[nodiscard]] virtual int architecture() const noexcept = 0;
  /// What made every later call fail, or nothing.
  [[nodiscard]] virtual std::string lost() const = 0;
};

/// Throws: `no_cuda` without a driver or such a GPU, or in a build without CUDA; `cuda_error`.
[[nodiscard]] FERRY_API std::unique_ptr<cuda_device> make_cuda_device(cuda_device_options options = {});

/// A GPU as `ferry devices` shows it.
struct cuda_description {
  int ordinal = 0;
  std::string name{};
  std::string uuid{};
  std::string pci_bus_id{};
  int architecture = 0;
  std::size_t total_bytes = 0;
  std::size_t free_bytes = 0;
  int numa_node = -1;              ///< whose memory is near; -1: the machine does not tell
  double device_to_host_gbps = 0;  ///< as measured before; 0: not yet
  double host_to_device_gbps = 0;
  contention beside{};  ///< of the link's directions, measured with their speeds
};

/// What CUDA there is: versions and GPUs, or why there is none. Throws nothing but `std::bad_alloc`.
struct cuda_presence {
  bool in_this_build = false;
  std::string why_not{};  ///< empty if there is a GPU to use
  int runtime_version = 0;
  int driver_version = 0;
  std::vector<cuda_description> devices{};
};
[[nodiscard]] FERRY_API cuda_presence find_cuda();

}  // namespace ferry
