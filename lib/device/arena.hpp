// An offset allocator over one slab: hands out exact sizes at 256-byte alignment, coalesces at once, and
// keeps all bookkeeping outside the slab, so that the slab may be memory the host cannot touch.
//
// Two-level segregated fit: free blocks hang in bins, 64 per power of two, and two levels of bitmaps find
// the next bin that has any, so an allocation costs the same however many blocks live. It fails only if no
// free block is large enough. Threads: externally synchronised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ferry {

class arena {
 public:
  static constexpr std::size_t alignment = 256;

  struct block {
    std::size_t offset = 0;
    std::size_t bytes = 0;  ///< as asked, rounded up to the alignment
    std::uint32_t node = 0;
    std::uint32_t serial = 0;  ///< tells this block from a later one in the same place
  };

  /// Capacity is rounded down to the alignment. Allocates no memory later if at most `expected_blocks` are
  /// live or free at once.
  explicit arena(std::size_t capacity_bytes, std::size_t expected_blocks = 4096);

  /// Nothing if no free block is large enough, or for zero bytes.
  [[nodiscard]] std::optional<block> allocate(std::size_t bytes);
  /// Throws: `internal_error` if the block is not live.
  void free(block const& freed);

  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  [[nodiscard]] std::size_t used_bytes() const noexcept;
  [[nodiscard]] std::size_t free_bytes() const noexcept;
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept;
  /// 1 - largest free block / free bytes; 0 when nothing is free.
  [[nodiscard]] double fragmentation() const noexcept;

 private:
  using index = std::uint32_t;
  using unit_count = std::uint64_t;  // memory in multiples of the alignment

  static constexpr index none = 0xffffffff;
  static constexpr index live = 0xfffffffe;    // in `previous_free`: handed out
  static constexpr index pooled = 0xfffffffd;  // in `previous_free`: the node describes no block
  static constexpr unsigned sub_bin_bits = 6;
  static constexpr unsigned sub_bins = 1U << sub_bin_bits;
  static constexpr unsigned levels = 64 - 8 - sub_bin_bits + 1;  // 8 = log2(alignment)

  struct node {
    unit_count offset = 0;
    unit_count units = 0;
    index below = none;  // neighbours in the slab
    index above = none;
    index previous_free = none;  // neighbours in the bin, or a mark
    index next_free = none;      // in a live block: its serial; in a pooled node: the next pooled one
  };

  struct bin {
    unsigned level = 0;
    unsigned sub = 0;
  };

  [[nodiscard]] static bin bin_of(unit_count units) noexcept;
  [[nodiscard]] index find_fit(unit_count units) const noexcept;
  [[nodiscard]] index best_in_bin(bin where, unit_count units, unsigned most_looked_at) const noexcept;
  [[nodiscard]] index first_above(bin where) const noexcept;
  void link(index which) noexcept;
  void unlink(index which) noexcept;
  [[nodiscard]] index take_node();
  void return_node(index which) noexcept;
  [[nodiscard]] bool is_free(index which) const noexcept;
  void split(index lower, unit_count units, index upper) noexcept;
  void merge(index lower, index upper) noexcept;

  unit_count capacity_ = 0;
  unit_count used_ = 0;
  std::vector<node> nodes_;
  index pool_ = none;
  std::uint32_t next_serial_ = 0;
  std::uint64_t level_map_ = 0;                             // levels that have a block in some bin
  std::array<std::uint64_t, levels> sub_maps_{};            // per level: bins that have a block
  std::array<std::array<index, sub_bins>, levels> bins_{};  // heads of the free lists; valid where a bit is set
};

}  // namespace ferry
