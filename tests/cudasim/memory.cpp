// The emulation's memory; see memory.hpp.
#include "memory.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include <sys/mman.h>

namespace cudasim {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t region_bytes = std::size_t{64} << 30;
/// What an allocation takes of the device's memory is a multiple of this, as on a GPU.
constexpr std::size_t granularity = 256;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

char const* words_of(space where) {
  switch (where) {
    case space::device:
      return "device memory";
    case space::pinned:
      return "pinned memory";
    case space::registered:
      break;
  }
  return "registered memory";
}

}  // namespace

address_range_pool::~address_range_pool() {
  for (auto const& each : regions_) munmap(each.begin, each.bytes);
}

std::byte* address_range_pool::take(std::size_t bytes, bool accessible) {
  std::size_t const needed = rounded(bytes, page) + page;
  if (regions_.empty() || regions_.back().bytes - regions_.back().used < needed) {
    std::size_t const size = std::max(region_bytes, needed);
    void* const mapped = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    regions_.push_back({static_cast<std::byte*>(mapped), size, 0});
  }
  region& from = regions_.back();
  std::byte* const address = from.begin + from.used;
  if (accessible && mprotect(address, needed - page, PROT_READ | PROT_WRITE) != 0) return nullptr;
  from.used += needed;
  return address;
}

void address_range_pool::drop_bytes(std::byte* address, std::size_t bytes) noexcept {
  madvise(address, rounded(bytes, page), MADV_DONTNEED);
}

void address_range_pool::give_back(std::byte* address, std::size_t bytes) noexcept {
  // Mapped anew, which frees the pages; whoever still uses the address faults.
  mmap(address, rounded(bytes, page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

memory_map::memory_map(options const& with)
    : protect_device_memory_(with.protect_device_memory),
      pinned_bytes_(with.pinned_bytes),
      device_bytes_(static_cast<std::size_t>(with.devices), with.device_bytes),
      device_used_(static_cast<std::size_t>(with.devices), 0) {}

memory_map::~memory_map() = default;

bool memory_map::has_room(space where, int device, std::size_t bytes, std::size_t pool) const {
  auto const fits = [&](std::size_t used, std::size_t most) { return used <= most && bytes <= most - used; };
  if (where == space::pinned) return fits(pinned_used_, pinned_bytes_);
  if (auto const found = pools_.find(pool); found != pools_.end()) {
    if (!fits(found->second.used_bytes, found->second.most_bytes)) return false;
  }
  auto const index = static_cast<std::size_t>(device);
  return fits(device_used_[index], device_bytes_[index]);
}

void memory_map::charge(allocation const& which, bool add) {
  if (which.where == space::registered) return;
  std::size_t const bytes = rounded(which.bytes, granularity);
  auto const change = [&](std::size_t& used) { used = add ? used + bytes : used - bytes; };
  change(which.where == space::pinned ? pinned_used_ : device_used_[static_cast<std::size_t>(which.device)]);
  if (auto const found = pools_.find(which.pool); found != pools_.end()) change(found->second.used_bytes);
}

void* memory_map::allocate(space where, int device, std::size_t bytes, std::size_t pool) {
  std::lock_guard const lock(mutex_);
  // Compared first, because rounding an absurd size up would overflow.
  if (bytes > (std::size_t{1} << 46U) || !has_room(where, device, rounded(bytes, granularity), pool)) return nullptr;
  bool const hidden = where == space::device && protect_device_memory_;
  auto& addresses = where == space::device ? device_addresses_ : pinned_addresses_;
  std::byte* const address = addresses.take(bytes, !hidden);
  std::byte* const bytes_at = hidden ? backing_addresses_.take(bytes, true) : address;
  if (address == nullptr || bytes_at == nullptr) return nullptr;
  auto const name = std::string(words_of(where)) + " " + std::to_string(++names_made_);
  allocation const made{.begin = reinterpret_cast<std::uintptr_t>(address),
                        .bytes = bytes,
                        .where = where,
                        .device = device,
                        .name = ferry::label(name),
                        .bytes_at = bytes_at,
                        .freed = false,
                        .pool = pool};
  allocations_[made.begin] = made;
  charge(made, true);
  return address;
}

void memory_map::mark_freed(std::uintptr_t begin) {
  std::lock_guard const lock(mutex_);
  auto const found = allocations_.find(begin);
  if (found == allocations_.end() || found->second.freed) return;
  charge(found->second, false);
  found->second.freed = true;
}

void memory_map::release(std::uintptr_t begin) {
  mark_freed(begin);
  std::lock_guard const lock(mutex_);
  auto const found = allocations_.find(begin);
  if (found != allocations_.end()) unmap(found->second);
}

void memory_map::unmap(allocation& which) noexcept {
  if (which.bytes_at == nullptr || which.where == space::registered) return;
  if (which.where == space::pinned) {
    pinned_addresses_.give_back(which.bytes_at, which.bytes);
  } else {
    // Work that should have been ordered before may still run: it was reported, and must not bring the test down.
    address_range_pool::drop_bytes(which.bytes_at, which.bytes);
  }
  which.bytes_at = nullptr;
}

bool memory_map::add_registered(void* address, std::size_t bytes, int device) {
  std::lock_guard const lock(mutex_);
  auto const begin = reinterpret_cast<std::uintptr_t>(address);
  auto const next = allocations_.lower_bound(begin);
  if (next != allocations_.end() && next->first < begin + bytes) return false;
  if (next != allocations_.begin() && std::prev(next)->second.end() > begin) return false;
  auto const name = std::string(words_of(space::registered)) + " " + std::to_string(++names_made_);
  allocations_[begin] = {.begin = begin,
                         .bytes = bytes,
                         .where = space::registered,
                         .device = device,
                         .name = ferry::label(name),
                         .bytes_at = static_cast<std::byte*>(address),
                         .freed = false,
                         .pool = 0};
  return true;
}

void memory_map::remove_registered(std::uintptr_t begin) {
  std::lock_guard const lock(mutex_);
  allocations_.erase(begin);
}

memory_map::table::const_iterator memory_map::at(std::uintptr_t address) const {
  auto const above = allocations_.upper_bound(address);
  if (above == allocations_.begin()) return allocations_.end();
  auto const below = std::prev(above);
  return address < below->second.end() ? below : allocations_.end();
}

std::optional<allocation> memory_map::find(void const* address) const {
  std::lock_guard const lock(mutex_);
  auto const found = at(reinterpret_cast<std::uintptr_t>(address));
  return found != allocations_.end() ? std::optional(found->second) : std::nullopt;
}

void* memory_map::bytes_at(void const* address) const {
  auto const found = find(address);
  if (!found || found->bytes_at == nullptr) return const_cast<void*>(address);
  return found->bytes_at + (reinterpret_cast<std::uintptr_t>(address) - found->begin);
}

void memory_map::set_device_bytes(int device, std::size_t bytes) {
  std::lock_guard const lock(mutex_);
  device_bytes_.at(static_cast<std::size_t>(device)) = bytes;
}

std::size_t memory_map::device_bytes(int device) const {
  std::lock_guard const lock(mutex_);
  return device_bytes_.at(static_cast<std::size_t>(device));
}

std::size_t memory_map::free_bytes(int device) const {
  std::lock_guard const lock(mutex_);
  auto const index = static_cast<std::size_t>(device);
  return device_bytes_[index] - std::min(device_used_[index], device_bytes_[index]);
}

void memory_map::count_live(live_objects& into) const {
  std::lock_guard const lock(mutex_);
  for (auto const& [begin, each] : allocations_) {
    if (each.freed) continue;
    if (each.where == space::registered) {
      ++into.registrations;
    } else if (each.where == space::device) {
      ++into.device_allocations;
      into.device_bytes += each.bytes;
    } else {
      ++into.pinned_allocations;
      into.pinned_bytes += each.bytes;
    }
  }
  into.memory_pools = pools_.size();
}

std::size_t memory_map::add_pool(std::size_t most_bytes) {
  std::lock_guard const lock(mutex_);
  pools_[++pools_made_] = {most_bytes, 0};
  return pools_made_;
}

bool memory_map::remove_pool(std::size_t pool) {
  std::lock_guard const lock(mutex_);
  return pools_.erase(pool) > 0;
}

}  // namespace cudasim
