// The blocks that sub-allocators declare; see order.hpp.
#include "order.hpp"

#include <algorithm>
#include <iterator>

namespace cudasim {

void declared_blocks::cut_out(std::uintptr_t begin, std::uintptr_t end) {
  auto at = ends_.lower_bound(begin);
  if (at != ends_.begin()) {
    auto const below = std::prev(at);
    std::uintptr_t const below_end = below->second;
    if (below_end > begin) below->second = begin;
    if (below_end > end) ends_[end] = below_end;
  }
  for (at = ends_.lower_bound(begin); at != ends_.end() && at->first < end; at = ends_.erase(at)) {
    if (at->second > end) ends_[end] = at->second;
  }
}

void declared_blocks::allocated(void const* address, std::size_t bytes) {
  if (bytes == 0) return;
  std::lock_guard const lock(mutex_);
  auto const begin = reinterpret_cast<std::uintptr_t>(address);
  cut_out(begin, begin + bytes);
  ends_[begin] = begin + bytes;
}

void declared_blocks::forget(std::uintptr_t begin, std::uintptr_t end) {
  std::lock_guard const lock(mutex_);
  cut_out(begin, end);
}

std::uintptr_t declared_blocks::end_of(std::uintptr_t address, std::uintptr_t limit) const {
  std::lock_guard const lock(mutex_);
  auto const above = ends_.upper_bound(address);
  if (above != ends_.begin() && std::prev(above)->second > address) return std::min(std::prev(above)->second, limit);
  return above != ends_.end() ? std::min(above->first, limit) : limit;
}

}  // namespace cudasim
