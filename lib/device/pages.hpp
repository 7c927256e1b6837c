// Pages of memory that nobody needs for the time being.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace ferry {

/// What these bytes hold is not needed any more: the pages that lie wholly inside go back to the system, and come back
/// empty when somebody touches them. Only for memory of the process's own; no harm if the system declines.
inline void discard_pages(void* address, std::size_t bytes) noexcept {
  static auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto const from = (reinterpret_cast<std::uintptr_t>(address) + page - 1) / page * page;
  auto const to = (reinterpret_cast<std::uintptr_t>(address) + bytes) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

}  // namespace ferry
