// What CUDA there is on this machine.
#pragma once

#include "ferry/cuda_device.hpp"

namespace ferry::cuda {

/// The number of GPUs. Throws: `no_cuda` that says why there is none.
[[nodiscard]] int require_gpus();
/// Throws: `cuda_error`. The link's speed only if it was measured before.
[[nodiscard]] cuda_description describe(int ordinal);

}  // namespace ferry::cuda
