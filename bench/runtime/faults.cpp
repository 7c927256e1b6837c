#include "runtime/faults.hpp"

#include <array>

namespace ferry::bench {

namespace {

constexpr std::array faults{fault{'a', "as planned", 1.0}, fault{'b', "half speed", 1.0 / 2},
                            fault{'c', "a third", 1.0 / 3}, fault{'e', "twice as fast", 2.0}};

}  // namespace

std::span<fault const> all_faults() { return faults; }

hardware with_fault(hardware on, fault const& which) {
  on.device_to_host.gbps *= which.speed;
  on.host_to_device.gbps *= which.speed;
  return on;
}

void change_link(sim_device& of, hardware const& true_link) {
  of.set_link(copy_direction::device_to_host, true_link.device_to_host);
  of.set_link(copy_direction::host_to_device, true_link.host_to_device);
}

}  // namespace ferry::bench
