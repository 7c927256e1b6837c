// Which process something was made in. After fork() the child has Ferry's memory but none of its threads: whoever would
// wait for one of them waits for ever, so what was made before says so instead, and its destructors leave it alone.
// Threads: any.
#pragma once

#include <cstdint>

namespace ferry::support {

class process_mark {
 public:
  process_mark() noexcept : forks_(forks()) {}

  [[nodiscard]] bool is_this_process() const noexcept { return forks_ == forks(); }
  /// Throws: `forked_process`, which names `what` was made before the fork.
  void require(char const* what) const {
    if (!is_this_process()) refuse(what);
  }

 private:
  /// How many forks lie between the process that first asked and this one: one load, and no system call.
  [[nodiscard]] static std::uint32_t forks() noexcept;
  [[noreturn]] static void refuse(char const* what);

  std::uint32_t forks_;
};

}  // namespace ferry::support
