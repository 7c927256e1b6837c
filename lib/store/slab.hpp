// One tier's memory, taken as a whole: a slab, the offset allocator over it and the byte budget that limits it.
// As it is, it is the pinned tier; the device tier (device_pool) adds reuse in stream order. Where the device has more
// addresses than bytes the allocator has all of them, and the budget alone is the limit.
// Threads: the session's only.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "device/arena.hpp"
#include "ferry/device.hpp"
#include "store/reservation.hpp"

namespace ferry::store {

class slab;

/// Bytes of a slab that are handed out, given back with their share of its budget when the piece goes. Requires then:
/// nothing touches the bytes any more, or whoever is handed them next is ordered after it.
class slab_piece {
 public:
  slab_piece() noexcept = default;
  /// Memory from elsewhere: only its bytes are counted.
  slab_piece(void* address, std::size_t bytes, reservation held) noexcept
      : address_(address), bytes_(bytes), held_(std::move(held)) {}
  slab_piece(slab_piece&& other) noexcept
      : from_(std::exchange(other.from_, nullptr)),
        address_(std::exchange(other.address_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        held_(std::move(other.held_)),
        place_(other.place_) {}
  slab_piece& operator=(slab_piece&& other) noexcept {
    slab_piece const before(std::move(*this));
    from_ = std::exchange(other.from_, nullptr);
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    held_ = std::move(other.held_);
    place_ = other.place_;
    return *this;
  }
  inline ~slab_piece();

  explicit operator bool() const noexcept { return address_ != nullptr; }
  [[nodiscard]] void* address() const noexcept { return address_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Of the budget, which counts whole units.
  [[nodiscard]] std::size_t counted_bytes() const noexcept { return held_.bytes(); }
  [[nodiscard]] arena::block const& place() const noexcept { return place_; }
  /// The bytes are free, though their addresses are not.
  void count_no_more() noexcept { reservation const gone = std::move(held_); }

 private:
  friend class slab;

  slab* from_ = nullptr;  // null for memory from elsewhere
  void* address_ = nullptr;
  std::size_t bytes_ = 0;  // as asked
  reservation held_;
  arena::block place_;
};

class slab {
 public:
  /// `bytes` may be zero: then there is never room.
  slab(device& owner, memory_space space, std::size_t bytes);
  slab(slab const&) = delete;
  slab& operator=(slab const&) = delete;

  /// Nothing when the budget is used up or no gap is large enough.
  [[nodiscard]] std::optional<slab_piece> allocate(std::size_t bytes, label const& name);

  /// Gives the memory back to the device and takes this many bytes instead. Throws: as `device::allocate`; the slab is
  /// then as it was, or empty if others have taken what it had.
  /// Requires: nothing is handed out, and nothing touches what was.
  void resize(std::size_t bytes);

  [[nodiscard]] budget& bytes() noexcept { return budget_; }
  [[nodiscard]] budget const& bytes() const noexcept { return budget_; }
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept { return arena_.largest_free_bytes(); }
  [[nodiscard]] tier_stats stats() const;

 private:
  friend class slab_piece;
  void take(std::size_t bytes);
  void give_back(slab_piece const& piece) noexcept;

  device& device_;
  memory_space space_;
  budget budget_;
  memory memory_;
  arena arena_;
};

inline slab_piece::~slab_piece() {
  if (from_ != nullptr) from_->give_back(*this);
}

}  // namespace ferry::store
