#include "store/device_pool.hpp"

#include <algorithm>

#include "ferry/error.hpp"

namespace ferry::store {

device_pool::device_pool(device& owner, std::size_t bytes) : device_(owner), slab_(owner, memory_space::device, bytes) {
  fences_.reserve(1024);
}

std::optional<device_region> device_pool::allocate(std::size_t bytes, label const& name) {
  auto piece = slab_.allocate(bytes, name);
  if (!piece) return std::nullopt;
  return device_region{std::move(*piece), false};
}

std::optional<device_region> device_pool::adopt(void* address, std::size_t bytes) {
  auto held = slab_.bytes().reserve(bytes);
  if (!held) return std::nullopt;
  adopted_bytes_ += bytes;
  return device_region{slab_piece{address, bytes, std::move(*held), {}}, true};
}

void device_pool::free(device_region&& region, std::span<event_handle const> uses) noexcept {
  if (!region) return;
  if (region.adopted) {
    adopted_bytes_ -= region.bytes();
  } else {
    auto const& place = region.piece.place;
    for (auto const& mark : uses) {
      if (mark && pending(mark)) fences_.push_back({place.offset, place.offset + place.bytes, mark});
    }
    slab_.free(std::move(region.piece));
  }
  region = {};
  if (fences_.size() >= prune_at_) forget_finished();
}

template <typename Visit>
void device_pool::for_overlapping(device_region const& region, Visit visit) {
  if (region.adopted) return;
  std::size_t const begin = region.piece.place.offset;
  std::size_t const end = begin + region.piece.place.bytes;
  for (auto& f : fences_) {
    if (f.begin < end && begin < f.end) visit(f.mark);
  }
}

void device_pool::order_after_uses(device_region const& region, stream_ref stream) {
  for_overlapping(region, [&](event_handle const& mark) {
    if (mark.stream() != stream && pending(mark)) device_.wait(stream, mark.ref());
  });
}

void device_pool::pending_uses(device_region const& region, std::vector<event_handle>& marks) {
  for_overlapping(region, [&](event_handle const& mark) {
    if (pending(mark)) marks.push_back(mark);
  });
}

void device_pool::forget_finished() {
  std::erase_if(fences_, [this](fence const& f) { return !pending(f.mark); });
  prune_at_ = std::max<std::size_t>(64, 2 * fences_.size());
}

void device_pool::wait_for_uses() noexcept {
  for (auto const& f : fences_) {
    try {
      device_.synchronize(f.mark.ref());
    } catch (error const&) {
      // The work failed, which its owner learns elsewhere; here it only matters that it is over.
    }
  }
  fences_.clear();
}

}  // namespace ferry::store
