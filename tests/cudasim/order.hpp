// What the emulation is told of sub-allocations, hand-overs and host accesses, and passes on to Ferry's order checker.
//
// It remembers the blocks that were declared: a kernel's pointer stands for the bytes from there to the end of the
// block it lies in. Threads: any; one lock inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "ferry/device.hpp"

namespace cudasim {

class declared_blocks {
 public:
  /// The block stays known when it is freed: a pointer into it is still a pointer to that block.
  void allocated(void const* address, std::size_t bytes);
  /// The slab that they were carved from is gone.
  void forget(std::uintptr_t begin, std::uintptr_t end);

  /// Where the block that holds `address` ends, or the bytes between two blocks do; at most `limit`.
  [[nodiscard]] std::uintptr_t end_of(std::uintptr_t address, std::uintptr_t limit) const;

 private:
  void cut_out(std::uintptr_t begin, std::uintptr_t end);

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> ends_;  // by the block's first address
};

}  // namespace cudasim
