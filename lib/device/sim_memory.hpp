// One kind of memory of the sim device: bounded like real memory, but made of addresses. Unless it is backed, nobody
// may dereference them and any amount costs nothing.
//
// Each allocation is a mapping of its own, usually several times as many addresses as bytes: nothing fragments, and
// whoever hands out parts of it need not either. Threads: any.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "ferry/device.hpp"

namespace ferry {

class sim_memory {
 public:
  /// Where gaps are to cost nothing.
  static constexpr std::size_t many_addresses_per_byte = 4;

  sim_memory(memory_space space, std::size_t bytes, std::size_t addresses_per_byte, bool backed);
  sim_memory(sim_memory const&) = delete;
  sim_memory& operator=(sim_memory const&) = delete;
  ~sim_memory();

  /// Throws: as `device::allocate`.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// False if `address` was not handed out.
  bool deallocate(void* address) noexcept;

 private:
  struct mapping {
    std::size_t charged_bytes;
    std::size_t mapped_bytes;
  };
  [[noreturn]] void throw_exhausted(std::size_t bytes) const;
  [[noreturn]] void throw_not_mapped(std::size_t bytes, int cause) const;

  memory_space space_;
  std::size_t limit_bytes_;
  std::size_t addresses_per_byte_;
  bool backed_;
  std::mutex mutex_;
  std::size_t used_bytes_ = 0;
  std::unordered_map<void*, mapping> live_;
};

}  // namespace ferry
