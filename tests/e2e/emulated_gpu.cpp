// The emulated GPU that the command runs on: kernels run as the host device runs them, so that losses are the same and
// training takes no longer.
#include "cudasim/cudasim.hpp"

namespace {

[[maybe_unused]] bool const set_up = (cudasim::reset({.kernels = cudasim::mode::serial}), true);

}  // namespace
