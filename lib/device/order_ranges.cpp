#include "device/order_ranges.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace ferry {

address_range address_range::of(void const* address, std::size_t bytes) noexcept {
  auto const begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin, begin + std::min<std::uintptr_t>(bytes, std::numeric_limits<std::uintptr_t>::max() - begin)};
}

bool range_history::same_history(range_history const& other) const noexcept {
  return block == other.block && freed == other.freed && write == other.write && reads == other.reads;
}

void range_history::add_read(past_access const& read) {
  // Whoever comes after a participant's latest read comes after its earlier ones.
  auto const earlier = std::find_if(reads.begin(), reads.end(), [&](past_access const& r) { return r.by == read.by; });
  if (earlier != reads.end()) reads.erase(earlier);
  reads.push_back(read);
}

void range_history::set_write(past_access const& written) {
  write = written;
  reads.clear();
}

past_access range_history::last_use() const noexcept { return reads.empty() ? write : reads.back(); }

void range_map::add_slab(address_range slab, label const& name) {
  // The system may hand out addresses again that it took back without a word.
  while (named_block const* stale = slab_touched_by(slab)) remove_slab(stale->range.begin);
  auto block = std::make_shared<named_block const>(named_block{name, slab, false});
  histories_[slab.begin] = range_history{.end = slab.end, .block = block, .freed = false, .write = {}, .reads = {}};
  slabs_[slab.begin] = std::move(block);
}

void range_map::remove_slab(std::uintptr_t begin) {
  auto const found = slabs_.find(begin);
  if (found == slabs_.end()) return;
  histories_.erase(histories_.lower_bound(begin), histories_.lower_bound(found->second->range.end));
  slabs_.erase(found);
}

named_block const* range_map::slab_touched_by(address_range range) const noexcept {
  auto const above = slabs_.upper_bound(range.begin);
  if (above != slabs_.begin()) {
    named_block const* const at_or_below = std::prev(above)->second.get();
    if (range.begin < at_or_below->range.end) return at_or_below;
  }
  return above != slabs_.end() && above->first < range.end ? above->second.get() : nullptr;
}

void range_map::split_at(std::uintptr_t address) {
  auto const above = histories_.upper_bound(address);
  if (above == histories_.begin()) return;
  auto const lower = std::prev(above);
  if (lower->first == address || lower->second.end <= address) return;
  histories_.emplace_hint(above, address, lower->second);
  lower->second.end = address;
}

void range_map::merge_within(address_range range) {
  auto at = histories_.lower_bound(range.begin);
  if (at != histories_.begin()) --at;
  while (at != histories_.end() && at->first < range.end) {
    auto const next = std::next(at);
    if (next == histories_.end()) return;
    if (at->second.end == next->first && at->second.same_history(next->second)) {
      at->second.end = next->second.end;
      histories_.erase(next);
    } else {
      at = next;
    }
  }
}

}  // namespace ferry
