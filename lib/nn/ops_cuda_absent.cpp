// The operations on a GPU in a build without CUDA: says so.
#include "ferry/nn/ops_cuda.hpp"

namespace ferry::nn {

std::unique_ptr<ops> make_cuda_ops(cuda_device&, cuda_ops_options const&) {
  throw no_cuda("this build has no CUDA; build with -DFERRY_CUDA=ON, or use FERRY_DEVICE=host");
}

}  // namespace ferry::nn
