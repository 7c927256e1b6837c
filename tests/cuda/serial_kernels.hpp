// The emulation's serial mode for Ferry's kernels: launched, they run as the host device runs them, to the same bits.
#pragma once

namespace ferry::nn::testing {

/// Tells the emulation the serial form of every kernel, and its name. Stays through `cudasim::reset`.
void register_serial_kernels();

}  // namespace ferry::nn::testing
