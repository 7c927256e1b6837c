#include "ferry/nn/ops_cuda.hpp"

#include <cuda_runtime_api.h>

#include "nn/attention_cuda.hpp"
#include "nn/gemm_cuda.hpp"
#include "nn/kernel_ops.hpp"
#include "nn/kernels/kernel_table.hpp"

namespace ferry::nn {

namespace {

class cuda_backend {
 public:
  explicit cuda_backend(cuda_device& on) : device_(on) {}

  [[nodiscard]] kernels::cuda_kernel_table const& kernels() const noexcept { return kernels_; }

  template <typename... Parameters>
  void launch(stream_ref stream, label const&, std::span<memory_access const>, launch_shape const& shape,
              kernels::block_launcher<Parameters...> kernel, std::type_identity_t<Parameters>... arguments) const {
    cuda::current_device const current(device_.ordinal());
    auto* const native = static_cast<cudaStream_t>(device_.native_handle(stream));
    kernel(native, static_cast<int>(shape.blocks), shape.threads, arguments...);
  }

 private:
  cuda_device& device_;
  kernels::cuda_kernel_table const& kernels_ = kernels::cuda_kernels();
};

class cuda_ops final : public kernel_ops<cuda_backend> {
 public:
  cuda_ops(cuda_device& on, cuda_ops_options const& options)
      : kernel_ops(cuda_backend(on)), products_(on, options), attention_(products_, kernels()) {}

  [[nodiscard]] std::string math_mode() const override { return products_.math_mode(); }

  void gemm(stream_ref stream, label const& name, gemm_call const& call) override {
    require_valid(call);
    cuda_products::turn(products_, stream).multiply(call);
    if (call.residual != nullptr) {
      launch(stream, name, {}, {call.m, call.n}, kernels().add_bias_and_residual, call.out, call.n, call.bias,
             call.residual, call.n);
    } else if (call.bias != nullptr) {
      launch(stream, name, {}, {call.m, call.n}, kernels().add_bias, call.out, call.n, call.bias, call.n);
    }
  }

  void attention_probabilities(stream_ref stream, float* probabilities, float const* qkv,
                               attention_shape const& shape) override {
    attention_.probabilities(stream, probabilities, qkv, shape);
  }
  void attention_mix(stream_ref stream, float* y, float const* probabilities, float const* qkv,
                     attention_shape const& shape) override {
    attention_.mix(stream, y, probabilities, qkv, shape);
  }
  void attention_backward(stream_ref stream, float* dqkv, float* dprobabilities, float const* dout,
                          float const* probabilities, float const* qkv, attention_shape const& shape) override {
    attention_.backward(stream, dqkv, dprobabilities, dout, probabilities, qkv, shape);
  }
  void tiled_attention_forward(stream_ref stream, float* y, float const* qkv, float* workspace,
                               attention_shape const& shape) override {
    attention_.tiled_forward(stream, y, qkv, workspace, shape);
  }
  void tiled_attention_backward(stream_ref stream, float* dqkv, float const* dout, float const* y, float const* qkv,
                                float* workspace, attention_shape const& shape) override {
    attention_.tiled_backward(stream, dqkv, dout, y, qkv, workspace, shape);
  }

 private:
  cuda_products products_;
  cuda_attention attention_;
};

}  // namespace

std::unique_ptr<ops> make_cuda_ops(cuda_device& on, cuda_ops_options const& options) {
  return std::make_unique<cuda_ops>(on, options);
}

}  // namespace ferry::nn
