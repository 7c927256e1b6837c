// Where a compute stream's work runs: inside of a oneTBB arena, so that its parallel loops have the stream's threads
// and no others.
//
// Two files define it, and a library has one of them: compute_arena.cpp, or compute_arena_alone.cpp for the bundle, in
// which oneTBB's library is not. There work runs on the stream's thread as it is, and whatever loops it has choose
// their own threads.
#pragma once

#include <memory>

#include "ferry/device.hpp"

namespace ferry {

class compute_arena {
 public:
  explicit compute_arena(unsigned threads);
  compute_arena(compute_arena const&) = delete;
  compute_arena& operator=(compute_arena const&) = delete;
  ~compute_arena();

  /// On the calling thread, and on others if `work` has parallel loops. Throws: what `work` throws.
  void run(unique_function<void()>& work);

 private:
  struct inside;
  std::unique_ptr<inside> inside_;
};

}  // namespace ferry
