// Counts heap allocations of the thread that asks. Included by one source of a program, it replaces the
// global operator new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace ferry::testing {

inline thread_local std::uint64_t allocations = 0;

inline void* counted_allocation(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  std::size_t const rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, rounded) : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace ferry::testing

void* operator new(std::size_t bytes) { return ferry::testing::counted_allocation(bytes, 1); }
void* operator new[](std::size_t bytes) { return ferry::testing::counted_allocation(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return ferry::testing::counted_allocation(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return ferry::testing::counted_allocation(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
