// A device on which time is real, for tests that care about bytes and order and not about what carries them: the host
// device with its stream-order checker, or, in programs built for it, the CUDA device over the emulated runtime, which
// checks the same.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/host_device.hpp"

#if defined(FERRY_CUDASIM)
#include "cudasim/cudasim.hpp"
#include "ferry/cuda_device.hpp"
#endif

namespace ferry::testing {

#if defined(FERRY_CUDASIM)

inline cudasim::direction emulated(copy_direction direction) {
  return direction == copy_direction::device_to_host ? cudasim::direction::device_to_host
                                                     : cudasim::direction::host_to_device;
}

/// The emulation begins anew unless something of it is in use. Functions launched on the device may dereference its
/// memory, which no real GPU permits.
inline std::unique_ptr<device> make_real_device(host_device_options const& options) {
  if (cudasim::live().none()) {
    cudasim::reset({.protect_device_memory = false, .kernels = cudasim::mode::serial});
  }
  auto made = make_cuda_device(
      {.device_bytes = options.device_bytes, .pinned_bytes = options.pinned_bytes, .order = &cudasim::order()});
  cudasim::set_link(0, cudasim::direction::device_to_host, options.device_to_host.gbps,
                    options.device_to_host.latency_us);
  cudasim::set_link(0, cudasim::direction::host_to_device, options.host_to_device.gbps,
                    options.host_to_device.latency_us);
  if (options.before_operation) {
    cudasim::set_before_operation([hook = options.before_operation](char const* kind) { hook(label(kind)); });
  }
  return made;
}

inline void set_link_of(device&, copy_direction direction, double gbps) {
  cudasim::set_link(0, emulated(direction), gbps);
}

#else

inline std::unique_ptr<device> make_real_device(host_device_options options) {
  options.check_order = true;
  return make_host_device(std::move(options));
}

inline void set_link_of(device& of, copy_direction direction, double gbps) { of.set_link_gbps(direction, gbps); }

#endif

/// What the stream-order checker found; empty for a device without one.
inline std::vector<std::string> order_violations([[maybe_unused]] device const& checked) {
#if defined(FERRY_CUDASIM)
  if (dynamic_cast<cuda_device const*>(&checked) != nullptr) return cudasim::violations();
#endif
  auto const* const host = dynamic_cast<host_device const*>(&checked);
  return host != nullptr ? host->order_violations() : std::vector<std::string>{};
}

}  // namespace ferry::testing
