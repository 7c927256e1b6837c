#include "store/device_pool.hpp"

#include <algorithm>

#include "support/pause.hpp"

namespace ferry::store {

device_pool::device_pool(device& owner, std::size_t bytes)
    : device_(owner),
      by_address_(owner.capabilities().addresses_per_byte == 1),
      slab_(owner, memory_space::device, bytes),
      homes_(owner, slab_.bytes()) {
  fences_.reserve(1024);
}

std::optional<device_region> device_pool::allocate(std::size_t bytes, label const& name, stream_ref user) {
  if (!homes_.make_way(bytes)) return std::nullopt;
  if (!by_address_) return_addresses(false);
  auto piece = slab_.allocate(bytes, name);
  if (!piece && !resting_.empty() && bytes <= slab_.bytes().free_bytes()) {
    return_addresses(true);  // the addresses are used up, not the bytes
    piece = slab_.allocate(bytes, name);
  }
  if (!piece) return std::nullopt;
  auto const after = resting_.empty() ? earlier_uses{} : take_bytes(piece->counted_bytes(), user);
  return device_region{.piece = std::move(*piece), .after = after};
}

/// Of the bytes that are free, so many have been handed out for `user`.
earlier_uses device_pool::take_bytes(std::size_t bytes, stream_ref user) {
  earlier_uses taken{.stream = user};
  auto const take_of = [](resting& freed, std::size_t most) {
    std::size_t const some = std::min(freed.left, most);
    freed.left -= some;
    return some;
  };
  std::size_t in_use = 0;
  for (auto const& freed : resting_) in_use += freed.left;
  std::size_t const free_before = slab_.bytes().free_bytes() + bytes;
  for (auto freed = resting_.rbegin(); user && freed != resting_.rend() && bytes > 0; ++freed) {
    if (freed->used_by != user || freed->left == 0) continue;
    taken.on_stream = std::max(taken.on_stream, freed->free_order);
    std::size_t const some = take_of(*freed, bytes);
    bytes -= some;
  }
  // What was adopted since has taken of the bytes too.
  std::size_t const wanted = bytes + in_use;
  std::size_t lacking = wanted > free_before ? wanted - free_before : 0;
  for (auto freed = resting_.begin(); freed != resting_.end() && lacking > 0; ++freed) {
    if (freed->left == 0) continue;
    taken.elsewhere = freed->free_order;
    lacking -= take_of(*freed, lacking);
  }
  return taken;
}

/// Nobody has touched the region: the bytes that it got of others are in use by these as before.
void device_pool::leave_bytes(device_region const& unused) noexcept {
  std::size_t bytes = unused.piece.counted_bytes();
  std::uint64_t const last = std::max(unused.after.on_stream, unused.after.elsewhere);
  for (auto freed = resting_.rbegin(); freed != resting_.rend() && bytes > 0; ++freed) {
    if (freed->free_order > last) continue;
    std::size_t const some = std::min(freed->bytes - freed->left, bytes);
    freed->left += some;
    bytes -= some;
  }
}

std::optional<device_region> device_pool::take(home& wanted) {
  auto held = homes_.take(wanted);
  if (!held) return std::nullopt;
  adopted_bytes_ += wanted.bytes;
  return device_region{slab_piece(wanted.pieces.front().address, wanted.bytes, std::move(*held)), true, &wanted};
}

std::optional<device_region> device_pool::adopt(void* address, std::size_t bytes) {
  auto held = slab_.bytes().reserve(bytes);
  if (!held) return std::nullopt;
  adopted_bytes_ += bytes;
  return device_region{slab_piece(address, bytes, std::move(*held)), true};
}

void device_pool::free(device_region&& region, std::span<event_handle const> uses) noexcept {
  if (!region) return;
  if (region.adopted) {
    adopted_bytes_ -= region.bytes();
    if (region.in_place != nullptr) homes_.leave(*region.in_place, uses);
  } else {
    auto const& place = region.piece.place();
    ++frees_;
    std::size_t const fences_before = fences_.size();
    for (auto const& mark : uses) {
      if (mark && pending(mark)) fences_.push_back({place.offset, place.offset + place.bytes, frees_, mark});
    }
    bool const in_use = fences_.size() > fences_before;
    if (!by_address_ && !in_use) leave_bytes(region);
    if (!by_address_ && in_use) {
      std::size_t const bytes = region.piece.counted_bytes();
      region.piece.count_no_more();
      auto const last = std::span(fences_).subspan(fences_before);
      auto const elsewhere = [&](fence const& f) { return f.mark.stream() != last.front().mark.stream(); };
      stream_ref const used_by = std::ranges::any_of(last, elsewhere) ? stream_ref() : last.front().mark.stream();
      resting_.push_back({std::move(region.piece), frees_, used_by, bytes, bytes});
    }
  }
  region = {};
  if (fences_.size() >= prune_at_) forget_finished();
}

template <typename Visit>
void device_pool::for_earlier_uses(device_region const& region, stream_ref user, Visit visit) {
  if (region.in_place != nullptr) std::ranges::for_each(region.in_place->uses, visit);
  if (region.adopted) return;
  std::size_t const begin = region.piece.place().offset;
  std::size_t const end = begin + region.piece.place().bytes;
  auto const overlaps = [&](fence const& f) { return f.begin < end && begin < f.end; };
  if (by_address_) {
    for (auto& f : fences_) {
      if (overlaps(f)) visit(f.mark);
    }
    return;
  }
  bool const in_order = user && user == region.after.stream;
  std::uint64_t const last =
      in_order ? region.after.elsewhere : std::max(region.after.elsewhere, region.after.on_stream);
  for (auto& f : fences_) {
    if (f.free_order <= last || overlaps(f)) visit(f.mark);
  }
}

/// Lets addresses be handed out again whose bytes are out of use, or all that there are.
void device_pool::return_addresses(bool all) {
  auto f = fences_.begin();  // both are in the order of the frees
  std::erase_if(resting_, [&](resting& freed) {
    bool in_use = false;
    for (; f != fences_.end() && f->free_order <= freed.free_order; ++f) {
      in_use |= f->free_order == freed.free_order && pending(f->mark);
    }
    return all || !in_use;
  });
}

void device_pool::order_after_uses(device_region const& region, stream_ref stream) {
  for_earlier_uses(region, stream, [&](event_handle const& mark) {
    if (mark.stream() != stream && pending(mark)) device_.wait(stream, mark.ref());
  });
}

void device_pool::pending_uses(device_region const& region, std::vector<event_handle>& marks) {
  for_earlier_uses(region, {}, [&](event_handle const& mark) {
    if (pending(mark)) marks.push_back(mark);
  });
}

void device_pool::forget_finished() {
  std::erase_if(fences_, [this](fence const& f) { return !pending(f.mark); });
  prune_at_ = std::max<std::size_t>(64, 2 * fences_.size());
}

bool device_pool::uses_are_over() {
  forget_finished();
  return fences_.empty() && !homes_.any_leaving();
}

void device_pool::resize(std::size_t bytes) {
  return_addresses(true);
  slab_.resize(bytes);
}

void device_pool::wait_for_uses() noexcept {
  for (auto const& f : fences_) wait_until_over(device_, f.mark.ref());
  fences_.clear();
  homes_.wait_for_uses();
  return_addresses(true);
}

}  // namespace ferry::store
