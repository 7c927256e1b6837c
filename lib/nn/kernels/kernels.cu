// The kernels for a GPU.
#include "nn/kernels/kernels.hpp"
