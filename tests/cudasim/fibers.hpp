// Runs a grid of a kernel: one fiber per CUDA thread, block after block, on the calling thread.
//
// Between two barriers the threads of a block run one after the other, in an order that tests choose: what depends on
// the order is a mistake in the kernel, and shows. Barriers and shuffles that not all take part in are reported, and
// released so that the kernel ends.
#pragma once

#include <functional>
#include <string>

#include "emulation.hpp"

namespace cudasim {

struct grid_run {
  std::string kernel;  ///< its name, for reports
  dim3 grid;
  dim3 block;
  thread_order order = thread_order::forward;
  std::uint64_t seed = 0;
};

/// Requires: a block of 1 to 1024 threads.
void run_in_fibers(grid_run const& how, std::function<void()> const& thread_body);

}  // namespace cudasim
