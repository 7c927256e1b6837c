// An offset allocator over one slab: hands out exact sizes at 256-byte alignment, coalesces at once, and
// keeps all bookkeeping outside the slab, so that the slab may be memory the host cannot touch.
// Two-level segregated fit: constant time however many blocks live. Threads: externally synchronised.
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
  };

  /// Allocates no memory later if at most `expected_blocks` are live or free at once.
  explicit arena(std::size_t capacity_bytes, std::size_t expected_blocks = 4096);

  [[nodiscard]] std::optional<block> allocate(std::size_t bytes);
  void free(block const& freed);

  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  [[nodiscard]] std::size_t used_bytes() const noexcept;
  [[nodiscard]] std::size_t free_bytes() const noexcept;
  [[nodiscard]] std::size_t largest_free_bytes() const noexcept;
  /// 1 - largest free block / free bytes; 0 when nothing is free.
  [[nodiscard]] double fragmentation() const noexcept;
};

}  // namespace ferry
