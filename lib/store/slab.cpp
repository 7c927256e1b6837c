#include "store/slab.hpp"

namespace ferry::store {

slab::slab(device& owner, memory_space space, std::size_t bytes)
    : device_(owner), budget_(owner, bytes), arena_(bytes * owner.capabilities().addresses_per_byte) {
  if (bytes == 0) return;
  memory_ = memory(owner, space, bytes);
  // What has not been handed out is not to be touched: the checker learns that from the start.
  if (auto* order = device_.order()) order->freed(memory_.data(), bytes);
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
  return slab_piece{address, bytes, std::move(*held), *place};
}

void slab::free(slab_piece&& piece) noexcept {
  if (!piece) return;
  if (auto* order = device_.order()) order->freed(piece.address, piece.bytes);
  arena_.free(piece.place);
  piece = {};
}

tier_stats slab::stats() const {
  auto stats = budget_.stats();
  stats.fragmentation = arena_.fragmentation();
  return stats;
}

}  // namespace ferry::store
