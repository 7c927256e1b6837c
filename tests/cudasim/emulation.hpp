// The whole of the emulation, and what each thread has of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "calls.hpp"
#include "capture.hpp"
#include "cudasim.hpp"
#include "device/order_checker.hpp"
#include "device/order_report.hpp"
#include "memory.hpp"
#include "order.hpp"
#include "runner.hpp"
#include "streams.hpp"
#include "virtual_clock.hpp"

namespace cudasim {

/// How kernels run; see kernels.cpp.
struct kernel_settings {
  mode how = mode::fibers;
  thread_order order = thread_order::forward;
  std::uint64_t seed = 0;
};

using operation_cost_hook = std::function<std::chrono::nanoseconds(char const* kind, std::size_t bytes)>;

struct emulation {
  explicit emulation(options const& with);
  emulation(emulation const&) = delete;
  emulation& operator=(emulation const&) = delete;
  ~emulation();

  /// Waits for all streams and ends them.
  void finish();

  void report(std::string text);
  [[nodiscard]] device_state* device(int index);
  [[nodiscard]] std::vector<std::string> violations() const;

  options const settings;
  std::uint64_t const generation;
  ferry::order_checker checker;
  declared_blocks blocks;
  call_book calls;
  memory_map memory;
  virtual_clock clock;
  capture_table captures;
  graph_table graphs;
  std::atomic<std::size_t> cublas_handles{0};
  std::atomic<std::size_t> ranges_pushed{0}, ranges_popped{0}, marks{0};

  mutable std::mutex mutex;  // guards what follows
  kernel_settings kernels;
  std::shared_ptr<std::function<void(char const*)> const> before_operation;
  std::shared_ptr<operation_cost_hook const> operation_cost;

 private:
  mutable std::mutex found_mutex_;
  ferry::violation_list found_;
  std::vector<std::unique_ptr<device_state>> devices_;

 public:
  event_table events;
  stream_table streams;
  std::unique_ptr<runner> const work;  // last: what it runs uses all of the above
};

/// The one there is.
[[nodiscard]] emulation& sim();
void replace(options const& with);

/// What the next operation of a thread is called and touches besides its arguments.
struct announcement {
  ferry::label name;
  std::vector<ferry::memory_access> accesses;
};

/// What CUDA keeps per host thread.
struct thread_state {
  std::uint64_t generation = 0;
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  virtual_duration now{0};
  std::vector<std::string> ranges;  ///< of the profiler, innermost last
  std::optional<announcement> announced;
  bool in_host_function = false;
};
[[nodiscard]] thread_state& this_thread();

/// While it lives, `other` is what the calling thread has of its own.
class acting_as {
 public:
  explicit acting_as(thread_state& other) noexcept;
  acting_as(acting_as const&) = delete;
  acting_as& operator=(acting_as const&) = delete;
  ~acting_as();

 private:
  thread_state* const before_;
};

}  // namespace cudasim
