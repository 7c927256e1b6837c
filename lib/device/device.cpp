// Where the types of devices, and of what they throw, live (see lib/support/error.cpp), and what a device does that has
// nothing of its own to do.
#include "ferry/device.hpp"

#include "ferry/cuda_device.hpp"
#include "ferry/host_device.hpp"
#include "ferry/sim_device.hpp"

namespace ferry {

stream_ref device::adopt_stream(void*) {
  throw invalid_argument("this device has no streams but its own; make one with ferry::stream");
}

device::~device() = default;
host_device::~host_device() = default;
sim_device::~sim_device() = default;
cuda_device::~cuda_device() = default;

deadlock_error::~deadlock_error() = default;
cuda_error::~cuda_error() = default;
no_cuda::~no_cuda() = default;

}  // namespace ferry
