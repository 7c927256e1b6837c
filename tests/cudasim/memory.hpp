// The emulation's memory: which addresses are device, pinned or registered memory, and where their bytes really are.
//
// Device addresses come from a reserved range that nobody may dereference; the bytes lie elsewhere, and copies, kernels
// and products translate. Addresses are not handed out twice, so whatever still uses freed memory is recognised.
// Threads: any; one lock inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cudasim.hpp"

namespace cudasim {

enum class space : std::uint8_t { device, pinned, registered };

struct allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  space where = space::device;
  int device = 0;  ///< of pinned memory, the one that was current
  ferry::label name;
  std::byte* bytes_at = nullptr;  ///< where the bytes are, of `begin`
  bool freed = false;
  std::size_t pool = 0;  ///< number of the memory pool that it is charged to; 0: none

  [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
  [[nodiscard]] void* address() const noexcept { return reinterpret_cast<void*>(begin); }
};

/// A range of addresses, reserved and handed out once.
class address_range_pool {
 public:
  address_range_pool() = default;
  address_range_pool(address_range_pool const&) = delete;
  address_range_pool& operator=(address_range_pool const&) = delete;
  ~address_range_pool();

  /// Whole pages with an unused one behind; null if the system declines.
  [[nodiscard]] std::byte* take(std::size_t bytes, bool accessible);
  /// Frees the memory; the addresses stay usable, with other bytes.
  static void drop_bytes(std::byte* address, std::size_t bytes) noexcept;
  /// Frees the memory; the addresses stay reserved, and fault.
  static void give_back(std::byte* address, std::size_t bytes) noexcept;

 private:
  struct region {
    std::byte* begin;
    std::size_t bytes;
    std::size_t used;
  };
  std::vector<region> regions_;
};

class memory_map {
 public:
  explicit memory_map(options const& with);
  ~memory_map();

  /// Null if the device's memory, or the pinned memory, is full.
  [[nodiscard]] void* allocate(space where, int device, std::size_t bytes, std::size_t pool = 0);
  /// Frees the allocation that begins there; its record stays.
  void release(std::uintptr_t begin);
  /// From now on the bytes count as free and the addresses as freed, though the memory stays until `release`.
  void mark_freed(std::uintptr_t begin);

  /// False if part of the range is registered or allocated already.
  [[nodiscard]] bool add_registered(void* address, std::size_t bytes, int device);
  void remove_registered(std::uintptr_t begin);

  /// The allocation, live or freed, that holds the address.
  [[nodiscard]] std::optional<allocation> find(void const* address) const;
  /// Where the address's bytes are; itself if it is in no allocation.
  [[nodiscard]] void* bytes_at(void const* address) const;

  void set_device_bytes(int device, std::size_t bytes);
  [[nodiscard]] std::size_t device_bytes(int device) const;
  [[nodiscard]] std::size_t free_bytes(int device) const;
  void count_live(live_objects& into) const;

  [[nodiscard]] std::size_t add_pool(std::size_t most_bytes);
  /// False if there is no such pool.
  bool remove_pool(std::size_t pool);

 private:
  using table = std::map<std::uintptr_t, allocation>;
  struct memory_pool {
    std::size_t most_bytes;
    std::size_t used_bytes;
  };

  [[nodiscard]] table::const_iterator at(std::uintptr_t address) const;
  [[nodiscard]] bool has_room(space where, int device, std::size_t bytes, std::size_t pool) const;
  void charge(allocation const& which, bool add);
  void unmap(allocation& which) noexcept;

  bool const protect_device_memory_;
  std::size_t const pinned_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::size_t> device_bytes_;
  std::vector<std::size_t> device_used_;
  std::size_t pinned_used_ = 0;
  address_range_pool device_addresses_;
  address_range_pool backing_addresses_;
  address_range_pool pinned_addresses_;
  table allocations_;
  std::map<std::size_t, memory_pool> pools_;
  std::size_t pools_made_ = 0;
  std::size_t names_made_ = 0;
};

}  // namespace cudasim
