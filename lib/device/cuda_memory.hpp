// The memory of the CUDA device: bounded by count, taken from CUDA or from whoever the trainer names.
//
// Each allocation is one call of CUDA's; a session makes one per tier when it begins. Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include <cuda_runtime_api.h>

#include "device/arena.hpp"
#include "device/cuda_error.hpp"
#include "ferry/cuda_device.hpp"

namespace ferry::cuda {

/// Where one kind of memory comes from.
class memory_source {
 public:
  memory_source() = default;
  memory_source(memory_source const&) = delete;
  memory_source& operator=(memory_source const&) = delete;
  virtual ~memory_source() = default;

  /// Null where there is no room. Throws: `cuda_error` for any other reason.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* address) noexcept = 0;
};

[[nodiscard]] std::unique_ptr<memory_source> make_device_source(cuda_device_options const& options, health& state);
/// `numa_node`: whose memory is near the GPU; -1: unknown.
[[nodiscard]] std::unique_ptr<memory_source> make_pinned_source(cuda_device_options const& options, int numa_node,
                                                                health& state);

class bounded_memory {
 public:
  bounded_memory(memory_space space, std::size_t limit_bytes, std::string name, std::unique_ptr<memory_source> source)
      : space_(space), limit_bytes_(limit_bytes), name_(std::move(name)), source_(std::move(source)) {}
  bounded_memory(bounded_memory const&) = delete;
  bounded_memory& operator=(bounded_memory const&) = delete;
  /// What was not given back goes too.
  ~bounded_memory();

  /// Throws: as `device::allocate`.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// False if `address` was not handed out.
  bool deallocate(void* address) noexcept;

 private:
  [[noreturn]] void throw_exhausted(std::size_t bytes) const;

  memory_space const space_;
  std::size_t const limit_bytes_;
  std::string const name_;  ///< of the device, "cuda:0"
  std::unique_ptr<memory_source> source_;
  std::mutex mutex_;
  std::size_t used_bytes_ = 0;
  std::unordered_map<void*, std::size_t> live_;
};

}  // namespace ferry::cuda
