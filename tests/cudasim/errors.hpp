// What the emulation knows of CUDA's error codes.
#pragma once

#include "cuda_runtime_api.h"

namespace cudasim {

/// Errors that break a device's context: every later call that needs it returns them again.
[[nodiscard]] bool is_sticky(cudaError_t error) noexcept;

}  // namespace cudasim
