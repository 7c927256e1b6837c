// One tier's memory, taken as a whole: a slab, the offset allocator over it and the byte budget that limits it.
// As it is, it is the pinned tier; the device tier (device_pool) adds reuse in stream order. Where the device has more
// addresses than bytes the allocator has all of them, and the budget alone is the limit.
// Threads: the session's only.
#pragma once

#include <cstddef>
#include <optional>

#include "device/arena.hpp"
#include "ferry/device.hpp"
#include "store/reservation.hpp"

namespace ferry::store {

/// Bytes of a slab that are handed out. Owned by whoever holds it until given back with `slab::free`.
struct slab_piece {
  void* address = nullptr;
  std::size_t bytes = 0;  ///< as asked
  reservation held;
  arena::block place;

  explicit operator bool() const noexcept { return address != nullptr; }
};

class slab {
 public:
  /// `bytes` may be zero: then there is never room.
  slab(device& owner, memory_space space, std::size_t bytes);

  /// Nothing when the budget is used up or no gap is large enough.
  [[nodiscard]] std::optional<slab_piece> allocate(std::size_t bytes, label const& name);
  /// Requires: nothing touches the bytes any more, or whoever is handed them next is ordered after it.
  void free(slab_piece&& piece) noexcept;

  /// Gives the memory back to the device and takes this many bytes instead. Throws: as `device::allocate`; the slab is
  /// then as it was, or empty if others have taken what it had.
  /// Requires: nothing is handed out, and nothing touches what was.
  void resize(std::size_t bytes);

  [[nodiscard]] budget& bytes() noexcept { return budget_; }
  [[nodiscard]] budget const& bytes() const noexcept { return budget_; }
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept { return arena_.largest_free_bytes(); }
  [[nodiscard]] tier_stats stats() const;

 private:
  void take(std::size_t bytes);

  device& device_;
  memory_space space_;
  budget budget_;
  memory memory_;
  arena arena_;
};

}  // namespace ferry::store
