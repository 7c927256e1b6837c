// The stream-order checker's memory of memory: which block every byte of a slab belongs to, and who last
// wrote it and has read it since. Threads: externally synchronised.
//
// Every slab is covered without gaps by histories, split where the history of two bytes differs and merged
// again where it does not, so the map stays as small as the blocks and accesses it describes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device/order_clock.hpp"
#include "ferry/label.hpp"

namespace ferry {

/// A half-open range of addresses.
struct address_range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  /// A range that would wrap around ends at the last address.
  static address_range of(void const* address, std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return end - begin; }
};

/// A slab or a block carved out of one; histories share it to name what they belonged to last.
struct named_block {
  label name;
  address_range range;
  bool carved = false;  ///< declared by a sub-allocator, as opposed to a slab
};

struct range_history {
  std::uintptr_t end = 0;
  std::shared_ptr<named_block const> block;
  bool freed = false;
  past_access write;               // the last one
  std::vector<past_access> reads;  // since the last write; at most one per participant

  [[nodiscard]] bool same_history(range_history const& other) const noexcept;
  void add_read(past_access const& read);
  void set_write(past_access const& written);
  /// The latest read since the last write, or that write; false if the bytes were never used.
  [[nodiscard]] past_access last_use() const noexcept;
};

class range_map {
 public:
  void add_slab(address_range slab, label const& name);
  /// Forgets the slab that begins there, and its history.
  void remove_slab(std::uintptr_t begin);
  /// The slab that holds at least one byte of the range, or null.
  [[nodiscard]] named_block const* slab_touched_by(address_range range) const noexcept;

  /// Calls `visit(address_range, range_history&)` for the parts of `range` that lie in slabs, in order. The visitor
  /// may change all of a range_history but its end.
  template <typename Visit>
  void update(address_range range, Visit const& visit) {
    split_at(range.begin);
    split_at(range.end);
    for (auto at = histories_.lower_bound(range.begin); at != histories_.end() && at->first < range.end; ++at) {
      visit(address_range{at->first, at->second.end}, at->second);
    }
    merge_within(range);
  }

  [[nodiscard]] std::size_t history_count() const noexcept { return histories_.size(); }

 private:
  void split_at(std::uintptr_t address);
  void merge_within(address_range range);

  std::map<std::uintptr_t, std::shared_ptr<named_block const>> slabs_;
  std::map<std::uintptr_t, range_history> histories_;  // by their first byte
};

}  // namespace ferry
