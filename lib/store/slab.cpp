#include "store/slab.hpp"

#include <utility>

#include "ferry/error.hpp"

namespace ferry::store {

slab::slab(device& owner, memory_space space, std::size_t bytes)
    : device_(owner), space_(space), budget_(owner, 0), arena_(0) {
  take(bytes);
}

void slab::take(std::size_t bytes) {
  arena places(bytes * device_.capabilities().addresses_per_byte);
  memory_ = bytes > 0 ? memory(device_, space_, bytes) : memory();
  arena_ = std::move(places);
  budget_.set_limit(bytes);
  // What has not been handed out is not to be touched: the checker learns that from the start.
  if (auto* order = device_.order(); order != nullptr && bytes > 0) order->freed(memory_.data(), bytes);
}

void slab::resize(std::size_t bytes) {
  if (budget_.used_bytes() > 0) throw internal_error("a slab is resized while bytes of it are in use");
  std::size_t const before = budget_.limit_bytes();
  // Given back first: the device need not have room for both, and what is left free stays in one piece.
  memory_ = {};
  try {
    take(bytes);
  } catch (out_of_memory const&) {
    try {
      take(before);
    } catch (out_of_memory const&) {
      take(0);
    }
    throw;
  }
}

std::optional<slab_piece> slab::allocate(std::size_t bytes, label const& name) {
  // Charged as the arena rounds, so that budget and slab agree.
  std::size_t const rounded = (bytes + arena::alignment - 1) / arena::alignment * arena::alignment;
  auto held = budget_.reserve(rounded);
  if (!held) return std::nullopt;
  auto const place = arena_.allocate(bytes);
  if (!place) return std::nullopt;
  void* const address = memory_.as<std::byte>() + place->offset;
  if (auto* order = device_.order()) order->allocated(address, bytes, name);
  slab_piece piece(address, bytes, std::move(*held));
  piece.from_ = this;
  piece.place_ = *place;
  return piece;
}

void slab::give_back(slab_piece const& piece) noexcept {
  if (auto* order = device_.order()) order->freed(piece.address_, piece.bytes_);
  arena_.free(piece.place_);
}

tier_stats slab::stats() const {
  auto stats = budget_.stats();
  stats.fragmentation = arena_.fragmentation();
  return stats;
}

}  // namespace ferry::store
