#include "support/allocation_counter.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace ferry::testing {

namespace {
thread_local std::uint64_t count = 0;
}

std::uint64_t& allocations() noexcept { return count; }

}  // namespace ferry::testing

namespace {

void* counted(std::size_t bytes) {
  ++ferry::testing::allocations();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

void* counted(std::size_t bytes, std::align_val_t alignment) {
  ++ferry::testing::allocations();
  auto const unit = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}

void* counted_or_null(std::size_t bytes) noexcept {
  ++ferry::testing::allocations();
  return std::malloc(bytes);
}

}  // namespace

// All of them: what one of a sanitizer's own hands out, none of these may take back.
void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept { return counted_or_null(bytes); }
void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept { return counted_or_null(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return counted(bytes, alignment); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return counted(bytes, alignment); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
