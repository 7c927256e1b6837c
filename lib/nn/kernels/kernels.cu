// The kernels for a GPU, and what launches them.
#include "nn/kernels/kernels.hpp"

#include "ferry/cuda_device.hpp"

namespace ferry::nn::kernels {

namespace gpu {

template <auto Kernel>
struct launch_of;

template <typename... Parameters, void (*Kernel)(Parameters...)>
struct launch_of<Kernel> {
  static void run(CUstream_st* stream, int blocks, int threads, Parameters... arguments) {
    if (blocks == 0) return;
    cudaLaunchConfig_t how{};
    how.gridDim = dim3(static_cast<unsigned>(blocks));
    how.blockDim = dim3(static_cast<unsigned>(threads));
    how.dynamicSmemBytes = 0;
    how.stream = stream;
    cuda::require(cudaLaunchKernelEx(&how, Kernel, arguments...), "cudaLaunchKernelEx");
  }
};

}  // namespace gpu

cuda_kernel_table const& cuda_kernels() noexcept {
  static constexpr cuda_kernel_table table = gpu::table_of<block_launcher, gpu::launch_of>("cuda");
  return table;
}

}  // namespace ferry::nn::kernels
