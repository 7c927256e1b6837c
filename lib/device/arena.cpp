#include "device/arena.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "ferry/error.hpp"

namespace ferry {

namespace {

// A longer look into the request's own bin would buy little: its blocks differ by less than two percent.
constexpr unsigned quick_look = 16;
constexpr unsigned full_look = std::numeric_limits<unsigned>::max();

[[noreturn]] void throw_not_live(arena::block const& freed) {
  throw internal_error("arena: the block at offset " + std::to_string(freed.offset) + " of " +
                       std::to_string(freed.bytes) + " bytes is not live; it was freed twice or never allocated");
}

}  // namespace

arena::arena(std::size_t capacity_bytes, std::size_t expected_blocks) : capacity_(capacity_bytes / alignment) {
  nodes_.reserve(std::max<std::size_t>(expected_blocks, 1));
  if (capacity_ == 0) return;
  index const whole = take_node();
  nodes_[whole] = node{.units = capacity_};
  link(whole);
}

std::optional<arena::block> arena::allocate(std::size_t bytes) {
  // Compared before rounding up, so that no size can wrap around.
  if (bytes == 0 || bytes > free_bytes()) return std::nullopt;
  unit_count const units = (bytes + alignment - 1) / alignment;
  index const found = find_fit(units);
  if (found == none) return std::nullopt;

  // The rest's node is taken first: growing the pool may throw, and must leave the arena as it was.
  bool const has_rest = nodes_[found].units > units;
  index const rest = has_rest ? take_node() : none;
  unlink(found);
  if (has_rest) split(found, units, rest);

  node& taken = nodes_[found];
  taken.previous_free = live;
  taken.next_free = next_serial_++;
  used_ += units;
  return block{taken.offset * alignment, units * alignment, found, taken.next_free};
}

void arena::free(block const& freed) {
  if (freed.node >= nodes_.size()) throw_not_live(freed);
  node const& found = nodes_[freed.node];
  if (found.previous_free != live || found.next_free != freed.serial || found.offset * alignment != freed.offset ||
      found.units * alignment != freed.bytes) {
    throw_not_live(freed);
  }
  used_ -= found.units;

  index merged = freed.node;
  if (index const above = found.above; is_free(above)) {
    unlink(above);
    merge(merged, above);
  }
  if (index const below = found.below; is_free(below)) {
    unlink(below);
    merge(below, merged);
    merged = below;
  }
  link(merged);
}

std::size_t arena::capacity_bytes() const noexcept { return capacity_ * alignment; }
std::size_t arena::used_bytes() const noexcept { return used_ * alignment; }
std::size_t arena::free_bytes() const noexcept { return (capacity_ - used_) * alignment; }

std::size_t arena::largest_free_bytes() const noexcept {
  if (level_map_ == 0) return 0;
  unsigned const level = static_cast<unsigned>(std::bit_width(level_map_)) - 1;
  unsigned const sub = static_cast<unsigned>(std::bit_width(sub_maps_[level])) - 1;
  unit_count largest = 0;
  for (index at = bins_[level][sub]; at != none; at = nodes_[at].next_free) {
    largest = std::max(largest, nodes_[at].units);
  }
  return largest * alignment;
}

double arena::fragmentation() const noexcept {
  std::size_t const unused = free_bytes();
  if (unused == 0) return 0.0;
  return 1.0 - static_cast<double>(largest_free_bytes()) / static_cast<double>(unused);
}

// Sizes below `sub_bins` units have a bin each; above, each power of two is cut into `sub_bins` equal parts.
arena::bin arena::bin_of(unit_count units) noexcept {
  if (units < sub_bins) return {0, static_cast<unsigned>(units)};
  unsigned const level = static_cast<unsigned>(std::bit_width(units)) - sub_bin_bits;
  return {level, static_cast<unsigned>(units >> (level - 1)) - sub_bins};
}

arena::index arena::find_fit(unit_count units) const noexcept {
  bin const own = bin_of(units);
  if (index const near = best_in_bin(own, units, quick_look); near != none) return near;
  if (index const larger = first_above(own); larger != none) return larger;
  // The last resort before failing: without it a block that fits could be missed.
  return best_in_bin(own, units, full_look);
}

arena::index arena::best_in_bin(bin where, unit_count units, unsigned most_looked_at) const noexcept {
  if ((sub_maps_[where.level] >> where.sub & 1U) == 0) return none;
  index best = none;
  unit_count best_units = std::numeric_limits<unit_count>::max();
  for (index at = bins_[where.level][where.sub]; at != none && most_looked_at > 0; --most_looked_at) {
    node const& candidate = nodes_[at];
    if (candidate.units >= units && candidate.units < best_units) {
      best = at;
      best_units = candidate.units;
      if (best_units == units) break;
    }
    at = candidate.next_free;
  }
  return best;
}

arena::index arena::first_above(bin where) const noexcept {
  // Shifting by one twice, because shifting by the full width is undefined.
  std::uint64_t const same_level = sub_maps_[where.level] & (~std::uint64_t{0} << where.sub << 1U);
  if (same_level != 0) return bins_[where.level][static_cast<unsigned>(std::countr_zero(same_level))];
  std::uint64_t const higher = level_map_ & (~std::uint64_t{0} << where.level << 1U);
  if (higher == 0) return none;
  unsigned const level = static_cast<unsigned>(std::countr_zero(higher));
  return bins_[level][static_cast<unsigned>(std::countr_zero(sub_maps_[level]))];
}

void arena::link(index which) noexcept {
  node& linked = nodes_[which];
  bin const where = bin_of(linked.units);
  std::uint64_t const bit = std::uint64_t{1} << where.sub;
  index& head = bins_[where.level][where.sub];
  linked.previous_free = none;
  linked.next_free = (sub_maps_[where.level] & bit) != 0 ? head : none;
  if (linked.next_free != none) nodes_[linked.next_free].previous_free = which;
  head = which;
  sub_maps_[where.level] |= bit;
  level_map_ |= std::uint64_t{1} << where.level;
}

void arena::unlink(index which) noexcept {
  node const& unlinked = nodes_[which];
  if (unlinked.next_free != none) nodes_[unlinked.next_free].previous_free = unlinked.previous_free;
  if (unlinked.previous_free != none) {
    nodes_[unlinked.previous_free].next_free = unlinked.next_free;
    return;
  }
  bin const where = bin_of(unlinked.units);
  bins_[where.level][where.sub] = unlinked.next_free;
  if (unlinked.next_free != none) return;
  sub_maps_[where.level] &= ~(std::uint64_t{1} << where.sub);
  if (sub_maps_[where.level] == 0) level_map_ &= ~(std::uint64_t{1} << where.level);
}

arena::index arena::take_node() {
  if (pool_ == none) {
    nodes_.emplace_back();
    return static_cast<index>(nodes_.size() - 1);
  }
  return std::exchange(pool_, nodes_[pool_].next_free);
}

void arena::return_node(index which) noexcept {
  nodes_[which].previous_free = pooled;
  nodes_[which].next_free = std::exchange(pool_, which);
}

bool arena::is_free(index which) const noexcept { return which != none && nodes_[which].previous_free != live; }

void arena::split(index lower, unit_count units, index upper) noexcept {
  node& kept = nodes_[lower];
  nodes_[upper] = node{.offset = kept.offset + units, .units = kept.units - units, .below = lower, .above = kept.above};
  if (kept.above != none) nodes_[kept.above].below = upper;
  kept.above = upper;
  kept.units = units;
  link(upper);
}

void arena::merge(index lower, index upper) noexcept {
  node& grown = nodes_[lower];
  grown.units += nodes_[upper].units;
  grown.above = nodes_[upper].above;
  if (grown.above != none) nodes_[grown.above].below = lower;
  return_node(upper);
}

}  // namespace ferry
