// A second line of execution on the thread there is: it runs when it is resumed and until it pauses. So what two
// threads might do side by side is done in an order that somebody chooses.
//
// Sanitizers are told of every change of stacks. Threads: one, always the same.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <exception>
#include <functional>

namespace ferry::testing {

class fiber {
 public:
  explicit fiber(std::function<void()> body);
  fiber(fiber const&) = delete;
  fiber& operator=(fiber const&) = delete;
  /// Requires: it has not begun, or its body is over.
  ~fiber();

  /// Goes on with the body until it pauses or is over. What the body throws is thrown here.
  void resume();
  /// By the body: whoever resumed it goes on.
  void pause();
  [[nodiscard]] bool is_over() const noexcept { return over_; }

 private:
  struct stack {
    void const* bottom = nullptr;
    std::size_t bytes = 0;
  };
  /// What the C++ runtime keeps of the exceptions that a thread is handling, as its ABI lays it out.
  struct exceptions {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  static void exchange_exceptions(exceptions& with) noexcept;
  boost::context::fiber run(boost::context::fiber&& caller);
  void arrive(void* fake_stack, stack* from);

  std::function<void()> body_;
  boost::context::fiber own_;     // where it goes on; empty while it runs
  boost::context::fiber caller_;  // where whoever resumed it goes on; empty while that runs
  stack stack_;
  stack callers_stack_;
  void* callers_fake_stack_ = nullptr;  // AddressSanitizer's
  void* fake_stack_ = nullptr;
  void* thread_ = nullptr;  // ThreadSanitizer's
  void* callers_thread_ = nullptr;
  exceptions exceptions_;  // the body's while it pauses, the caller's while it runs
  std::exception_ptr thrown_;
  bool over_ = false;
};

}  // namespace ferry::testing
