// A sim device for tests of one class: so many bytes in each tier, and kernels that all take the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "ferry/sim_device.hpp"

namespace ferry::testing {

inline std::unique_ptr<sim_device> make_sim_of(std::size_t bytes, std::chrono::nanoseconds kernel) {
  sim_device_options options;
  options.device_bytes = options.pinned_bytes = bytes;
  options.kernel_cost = [kernel](label const&, auto) { return kernel; };
  return make_sim_device(options);
}

}  // namespace ferry::testing
