// Fibers by Boost.Context, and what the sanitizers must be told of each switch.
//
// This file alone is compiled without sanitizers; CMakeLists.txt says by FERRY_FIBERS_WITH_... of which to tell.
// ThreadSanitizer follows functions by what the compiler puts at their beginnings and ends: whatever is between its
// being told of a switch and the switch itself would begin on one stack and end on another. AddressSanitizer may keep a
// function's variables elsewhere than on its stack, and would throw away those of a function that it believes to be
// over, as Boost.Context's first one, which begins before a switch is announced.
#include "support/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <boost/context/stack_context.hpp>
#include <cassert>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#if defined(FERRY_FIBERS_WITH_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(FERRY_FIBERS_WITH_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace ferry::testing {

namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;  // of which only what is touched is there
constexpr std::size_t guard_bytes = 4096;

/// Memory for a stack, with what ThreadSanitizer knows a fiber by: to make either takes longer than most fibers live.
struct fiber_stack {
  std::byte* memory = nullptr;
  void* known_as = nullptr;
  fiber_stack* next = nullptr;  // of those that nobody uses

  fiber_stack() {
    void* const base =
        mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    mprotect(base, guard_bytes, PROT_NONE);  // a stack that overflows faults
    memory = static_cast<std::byte*>(base);
#if defined(FERRY_FIBERS_WITH_THREAD_SANITIZER)
    known_as = __tsan_create_fiber(0);
#endif
  }
  fiber_stack(fiber_stack const&) = delete;
  fiber_stack& operator=(fiber_stack const&) = delete;
  ~fiber_stack() {
#if defined(FERRY_FIBERS_WITH_THREAD_SANITIZER)
    __tsan_destroy_fiber(known_as);
#endif
    munmap(memory, stack_bytes);
  }
};

/// Stacks for the thread's next fibers.
class stack_pool {
 public:
  stack_pool() = default;
  stack_pool(stack_pool const&) = delete;
  stack_pool& operator=(stack_pool const&) = delete;
  ~stack_pool() {
    while (spare_ != nullptr) delete take();
  }

  fiber_stack* take() {
    if (spare_ == nullptr) return new fiber_stack;
    return std::exchange(spare_, spare_->next);
  }
  void give_back(fiber_stack* gone) noexcept { gone->next = std::exchange(spare_, gone); }

 private:
  fiber_stack* spare_ = nullptr;
};

stack_pool& pool() {
  thread_local stack_pool own;
  return own;
}

/// Boost.Context's way to give a stack back: the fiber does it, which outlives its body.
struct kept_stack {
  boost::context::stack_context allocate() = delete;
  void deallocate(boost::context::stack_context&) noexcept {}
};

/// A stack that is switched to or from, as AddressSanitizer knows it.
struct stack_bounds {
  void const* bottom = nullptr;
  std::size_t size = 0;
};

/// What the C++ runtime keeps of the exceptions that a thread is handling, as its ABI lays it out.
struct exceptions {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

void exchange_exceptions(exceptions& with) noexcept {
  std::swap(*reinterpret_cast<exceptions*>(abi::__cxa_get_globals()), with);
}

}  // namespace

struct fiber::state {
  std::function<void()> body;
  fiber_stack* stack = pool().take();
  boost::context::fiber own{};     // where the body goes on; empty while it runs
  boost::context::fiber caller{};  // where `resume` goes on; empty while that runs
  stack_bounds caller_stack{};
  void* caller_known_as = nullptr;  // to ThreadSanitizer
  void* fake_stack = nullptr;       // AddressSanitizer's
  exceptions handled{};             // the body's while it pauses, the caller's while it runs
  std::exception_ptr thrown{};
  bool has_begun = false;
  bool is_over = false;

  boost::context::fiber run(boost::context::fiber&& from) {
    arrive_in_body(nullptr);
    caller = std::move(from);
    try {
      if (body) body();
    } catch (...) {
      thrown = std::current_exception();
    }
    is_over = true;
    leave_body(nullptr);
    return std::move(caller);
  }

  // Around a switch: `leave` before, on the old stack, `arrive` after, on the new one.

  void leave_caller([[maybe_unused]] void** callers_fake_stack) {
#if defined(FERRY_FIBERS_WITH_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(callers_fake_stack, stack->memory, stack_bytes);
#endif
#if defined(FERRY_FIBERS_WITH_THREAD_SANITIZER)
    caller_known_as = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(stack->known_as, 0);
#endif
  }
  void arrive_in_body([[maybe_unused]] void* bodys_fake_stack) {
#if defined(FERRY_FIBERS_WITH_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(bodys_fake_stack, &caller_stack.bottom, &caller_stack.size);
#endif
  }
  /// For good, if no fake stack is to be kept.
  void leave_body([[maybe_unused]] void** bodys_fake_stack) {
#if defined(FERRY_FIBERS_WITH_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(bodys_fake_stack, caller_stack.bottom, caller_stack.size);
#endif
#if defined(FERRY_FIBERS_WITH_THREAD_SANITIZER)
    __tsan_switch_to_fiber(caller_known_as, 0);
#endif
  }
  static void arrive_in_caller([[maybe_unused]] void* callers_fake_stack) {
#if defined(FERRY_FIBERS_WITH_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(callers_fake_stack, nullptr, nullptr);
#endif
  }
};

fiber::fiber(std::function<void()> body) : state_(new state{std::move(body)}) {
  boost::context::stack_context place;
  place.sp = state_->stack->memory + stack_bytes;
  place.size = stack_bytes;
  state_->own =
      boost::context::fiber(std::allocator_arg, boost::context::preallocated(place.sp, place.size, place), kept_stack(),
                            [&own = *state_](boost::context::fiber&& caller) { return own.run(std::move(caller)); });
}

fiber::~fiber() {
  if (!state_->has_begun) {  // or Boost.Context would unwind a stack of which the sanitizers know nothing
    state_->body = nullptr;
    resume();
  }
  assert(state_->is_over);
  pool().give_back(state_->stack);
  delete state_;
}

void fiber::resume() {
  state& own = *state_;
  own.has_begun = true;
  exchange_exceptions(own.handled);
  void* fake_stack = nullptr;
  own.leave_caller(&fake_stack);
  own.own = std::move(own.own).resume();
  state::arrive_in_caller(fake_stack);
  exchange_exceptions(own.handled);
  if (own.thrown != nullptr) std::rethrow_exception(std::exchange(own.thrown, nullptr));
}

void fiber::pause() {
  state& own = *state_;
  own.leave_body(&own.fake_stack);
  own.caller = std::move(own.caller).resume();
  own.arrive_in_body(own.fake_stack);
}

bool fiber::is_over() const noexcept { return state_->is_over; }

}  // namespace ferry::testing
