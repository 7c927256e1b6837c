// Takes hold of the emulated CUDA runtime: how tests set it up, disturb it, and ask what it saw.
//
// CUDA is one per process, and so is its emulation. Streams are threads (ferry::host_stream) with CUDA's asynchronous,
// in-order semantics, copies really copy over one paced link per device and direction, and kernels run as fibers or by
// the host's own compiled code. Device addresses are not dereferenceable unless asked for.
//
// In stepped mode there are no threads: streams are those of a sim device, and the one thread there is does their work
// whenever it waits or lets time pass on `clock`. See `options::stepped`.
//
// Every call is checked when it is made: a mistake in stream order is reported whatever the timing of the run.
//
// Threads: any thread may call anything, except `reset`, beside which nothing may run.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "ferry/device.hpp"
#include "ferry/sim_device.hpp"

namespace cudasim {

enum class mode : std::uint8_t {
  fibers,  ///< one fiber per CUDA thread: barriers, shuffles and shared memory are real, and checked
  serial   ///< registered kernels run as the host device runs them; others in fibers
};

/// In which order the threads of a block run between two barriers, and the blocks of a grid.
enum class thread_order : std::uint8_t { forward, reverse, shuffled };

enum class direction : std::uint8_t { device_to_host, host_to_device };

struct options {
  int devices = 2;
  std::size_t device_bytes = std::size_t{1} << 30;   ///< of each device
  std::size_t pinned_bytes = std::size_t{64} << 30;  ///< of all pinned memory
  /// A host dereference of device memory faults. Off, host functions may compute on device addresses.
  bool protect_device_memory = true;
  /// Waiting for an event that was never recorded is legal, but often a mistake.
  bool report_unrecorded_waits = false;
  /// Threads that products and serial kernels of one stream may use; 0 means all of the machine's. One in stepped mode.
  unsigned compute_threads = 0;
  mode kernels = mode::fibers;
  /// The same calls of one thread give the same run, in whatever order of work `set_operation_cost` asks for. Nothing
  /// runs, and no query finds anything new, before somebody waits or lets time pass.
  bool stepped = false;
};

/// Waits for all streams, then begins anew: no handles, memory, faults, hooks, counts or violations.
void reset(options const& with = {});

/// What the CUDA device under test is told to report sub-allocations, host accesses and hand-overs to.
[[nodiscard]] ferry::order_hooks& order();
/// All mistakes since `reset`, each text once.
[[nodiscard]] std::vector<std::string> violations();

// Faults.

/// The `nth` call of `function` from now (1: the next) fails with `error`, without doing anything. An error that breaks
/// the device for good (an illegal address, say) does.
void fail(std::string const& function, int nth, cudaError_t error);
/// Work that this device runs fails with `error` from now on, as after a kernel that went wrong.
void break_device(int device, cudaError_t error);
/// Called before each API call, on its thread; may sleep. Anything but cudaSuccess fails the call. In stepped mode it
/// must not let time pass: callers may hold locks that the work wants.
void set_before_call(std::function<cudaError_t(char const* function)> hook);
/// Called where the stream's work runs, before each operation; may sleep. In stepped mode that is when the operation's
/// time is up. `kind` is one of "kernel", "gemm", "copy D2H", "copy H2D", "copy D2D", "copy H2H", "memset",
/// "host function", "allocation", "free".
void set_before_operation(std::function<void(char const* kind)> hook);
/// How often each function was called since `reset` or `reset_calls`, failed calls included.
[[nodiscard]] std::map<std::string, std::size_t> calls();
void reset_calls();

/// Every call fails with cudaErrorInsufficientDriver, as on a machine without a driver.
void remove_driver();
/// Every call fails with cudaErrorCudartUnloading, as in destructors that run after main.
void unload_driver();
/// Every call fails with cudaErrorNoDevice.
void remove_devices();

// Memory and links.

void set_device_bytes(int device, std::size_t bytes);
/// From the next copy on; 0 GB/s is as fast as the machine copies.
void set_link(int device, direction which, double gbps, double latency_us = 0);
/// Copies in this direction stop before they begin, until `resume`. Both throw `std::logic_error` in stepped mode.
void stall(int device, direction which);
void resume(int device, direction which);

struct live_objects {
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t device_allocations = 0;
  std::size_t device_bytes = 0;
  std::size_t pinned_allocations = 0;
  std::size_t pinned_bytes = 0;
  std::size_t registrations = 0;
  std::size_t memory_pools = 0;
  std::size_t graphs = 0;  ///< instantiated ones too
  std::size_t cublas_handles = 0;

  [[nodiscard]] bool none() const noexcept { return *this == live_objects{}; }
  /// "2 streams, 1 event"; "nothing" if nothing is left.
  [[nodiscard]] std::string text() const;
  friend bool operator==(live_objects const&, live_objects const&) = default;
};

/// What was made and not yet destroyed.
[[nodiscard]] live_objects live();

// Stepped mode.

/// The device whose streams stand for CUDA's, until the next `reset`: its `pass_time` lets work run, its `now` is the
/// time, its agents act whenever something has happened. Throws: `std::logic_error` where streams are threads.
///
/// A CUDA call that waits in vain, `cudaStreamSynchronize` say, throws `ferry::deadlock_error` as `pass_time` does;
/// from a destructor that ends the program. Work and agents run on the thread that lets time pass, so they must not
/// want a lock that it holds. What CUDA keeps per thread each stream's work has for itself, as on a thread of its own,
/// while agents share the caller's. To the order checker it is all one host thread: missing hand-overs are not found.
[[nodiscard]] ferry::sim_device& clock();
/// What an operation takes on the clock, at most a day; asked when it is enqueued, and not allowed to let time pass.
/// `kind` is as for `set_before_operation`, `bytes` those of a copy. Without it a copy over a link takes what
/// `set_link` says, as if it had the link for itself, and nothing else takes any time. Where streams are threads it is
/// not asked.
void set_operation_cost(std::function<std::chrono::nanoseconds(char const* kind, std::size_t bytes)> hook);

// Kernels.

void set_mode(mode kernels);
void set_thread_order(thread_order order, std::uint64_t seed = 0);

namespace detail {
void register_serial(void (*kernel)(), void (*runner)());
void name_kernel(void (*kernel)(), std::string name);
}  // namespace detail

/// In serial mode the kernel is `runner`, which runs blocks [first, last). Stays through `reset`.
template <typename... Arguments>
void register_serial(void (*kernel)(Arguments...), void (*runner)(int first, int last, Arguments...)) {
  detail::register_serial(reinterpret_cast<void (*)()>(kernel), reinterpret_cast<void (*)()>(runner));
}

/// What texts and costs call the kernel; by default what the program's dynamic symbols do. Stays through `reset`.
template <typename... Arguments>
void name_kernel(void (*kernel)(Arguments...), std::string name) {
  detail::name_kernel(reinterpret_cast<void (*)()>(kernel), std::move(name));
}

// Profiler ranges.

struct nvtx_counts {
  std::size_t pushed = 0;
  std::size_t popped = 0;
  std::size_t marks = 0;
  friend bool operator==(nvtx_counts const&, nvtx_counts const&) = default;
};
[[nodiscard]] nvtx_counts nvtx();

// Virtual time.

struct virtual_costs {
  double device_to_host_gbps = 25;
  double host_to_device_gbps = 25;
  double latency_us = 0;  ///< of every copy
  double kernel_us = 0;   ///< of kernels that are not named below
  std::map<std::string, double> kernels_us{};
  double gemm_tflops = 0;  ///< 0: products cost nothing
  double host_function_us = 0;
};

/// From now on until `reset`, work also passes on a virtual clock, computed when it is enqueued: one engine per copy
/// direction and device, one line per stream. Elapsed times are the virtual ones. The work itself still runs.
void use_virtual_time(virtual_costs const& costs);
/// The latest end of any work, from the beginning of virtual time.
[[nodiscard]] std::chrono::nanoseconds makespan();
/// What the calling thread has waited for so far.
[[nodiscard]] std::chrono::nanoseconds virtual_now();

}  // namespace cudasim
