// Stacks for fibers, kept for the next launch, and what AddressSanitizer must be told when one is switched to.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <boost/context/stack_context.hpp>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cudasim {

/// A stack allocator as Boost.Context wants one. Stacks go back to the thread that made them: a block's fibers never
/// leave it.
class pooled_stacks {
 public:
  // Sanitizers put much around variables.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t bytes = std::size_t{256} << 10;
#else
  static constexpr std::size_t bytes = std::size_t{64} << 10;
#endif

  boost::context::stack_context allocate() {
    auto& spare = pool().spare;
    void* base = nullptr;
    if (spare.empty()) {
      base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (base == MAP_FAILED) throw std::bad_alloc();
      mprotect(base, guard_bytes, PROT_NONE);  // a stack that overflows faults
    } else {
      base = spare.back();
      spare.pop_back();
    }
    boost::context::stack_context result;
    result.size = bytes;
    result.sp = static_cast<std::byte*>(base) + bytes;
    return result;
  }

  void deallocate(boost::context::stack_context& gone) noexcept {
    pool().spare.push_back(static_cast<std::byte*>(gone.sp) - bytes);
  }

 private:
  static constexpr std::size_t guard_bytes = 4096;

  struct stacks {
    std::vector<void*> spare;
    ~stacks() {
      for (void* const each : spare) munmap(each, bytes);
    }
  };
  static stacks& pool() {
    thread_local stacks own;
    return own;
  }
};

/// The stack that the scheduler runs on, as the sanitizer knows it.
struct stack_bounds {
  void const* bottom = nullptr;
  std::size_t size = 0;
};

/// Around a switch: `leave` before, with the stack that is switched to, `arrive` after, on that stack.
inline void leave_stack([[maybe_unused]] void** saved, [[maybe_unused]] stack_bounds to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(saved, to.bottom, to.size);
#endif
}
inline void arrive_on_stack([[maybe_unused]] void* saved, [[maybe_unused]] stack_bounds* from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(saved, from != nullptr ? &from->bottom : nullptr,
                                  from != nullptr ? &from->size : nullptr);
#endif
}

}  // namespace cudasim
