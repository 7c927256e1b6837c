// A second line of execution on the thread there is: it runs when it is resumed and until it pauses. So what two
// threads might do side by side is done in an order that somebody chooses.
//
// Sanitizers are told of every change of stacks. Threads: all of a fiber happens on the thread that made it.
#pragma once

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
  [[nodiscard]] bool is_over() const noexcept;

 private:
  struct state;
  state* state_;
};

}  // namespace ferry::testing
