// A second line of execution on the thread there is; see fiber.hpp.
#include "explore/fiber.hpp"

#include <cxxabi.h>

#include <boost/context/preallocated.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ferry::testing {

namespace {

constexpr std::size_t stack_bytes = std::size_t{1} << 20;  // of which only what is touched is there

void leave_stack([[maybe_unused]] void** fake_stack, [[maybe_unused]] void const* bottom,
                 [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#endif
}

void change_thread([[maybe_unused]] void* to) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to, 0);
#endif
}

}  // namespace

fiber::fiber(std::function<void()> body) : body_(std::move(body)) {
  boost::context::protected_fixedsize_stack stacks(stack_bytes);
  auto const place = stacks.allocate();
  stack_ = {static_cast<std::byte*>(place.sp) - place.size, place.size};
  own_ = boost::context::fiber(std::allocator_arg, boost::context::preallocated(place.sp, place.size, place), stacks,
                               [this](boost::context::fiber&& caller) { return run(std::move(caller)); });
#if defined(__SANITIZE_THREAD__)
  thread_ = __tsan_create_fiber(0);
#endif
}

fiber::~fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(thread_);
#endif
}

void fiber::exchange_exceptions(exceptions& with) noexcept {
  std::swap(*reinterpret_cast<exceptions*>(abi::__cxa_get_globals()), with);
}

void fiber::resume() {
  exchange_exceptions(exceptions_);
#if defined(__SANITIZE_THREAD__)
  callers_thread_ = __tsan_get_current_fiber();
#endif
  leave_stack(&callers_fake_stack_, stack_.bottom, stack_.bytes);
  change_thread(thread_);
  own_ = std::move(own_).resume();
  arrive(callers_fake_stack_, nullptr);
  exchange_exceptions(exceptions_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void fiber::pause() {
  leave_stack(&fake_stack_, callers_stack_.bottom, callers_stack_.bytes);
  change_thread(callers_thread_);
  caller_ = std::move(caller_).resume();
  arrive(fake_stack_, &callers_stack_);
}

void fiber::arrive([[maybe_unused]] void* fake_stack, [[maybe_unused]] stack* from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, from != nullptr ? &from->bottom : nullptr,
                                  from != nullptr ? &from->bytes : nullptr);
#endif
}

boost::context::fiber fiber::run(boost::context::fiber&& caller) {
  caller_ = std::move(caller);
  arrive(nullptr, &callers_stack_);
  try {
    body_();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  over_ = true;
  leave_stack(nullptr, callers_stack_.bottom, callers_stack_.bytes);  // for good
  change_thread(callers_thread_);
  return std::move(caller_);
}

}  // namespace ferry::testing
