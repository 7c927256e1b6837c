// Parts of one piece of work side by side: what the planner searches. Threads of the standard library, made for the
// call, so that whoever links Ferry needs no other library for it.
// Shared with tools/: `ferry bench` runs its simulations by it.
//
// Threads: any; `in_parallel` returns when all parts are over.
#pragma once

#include <cstddef>
#include <functional>

namespace ferry::support {

/// Calls `part(i)` for each i below `count`, on at most as many threads as there are cores; inside of a part, or while
/// the caller is `alone_here`, one after the other. Throws: what a part has thrown, after all are over.
void in_parallel(std::size_t count, std::function<void(std::size_t)> const& part);

/// As long as it lives, its thread works alone.
class alone_here {
 public:
  alone_here() noexcept;
  alone_here(alone_here const&) = delete;
  alone_here& operator=(alone_here const&) = delete;
  ~alone_here();

 private:
  bool before_;
};

}  // namespace ferry::support
