// Attention on a GPU: the tiles of the host's attention in the same order, those of all heads of a sequence at once.
#pragma once

#include "ferry/nn/ops.hpp"
#include "nn/gemm_cuda.hpp"
#include "nn/kernels/kernel_table.hpp"

namespace ferry::nn {

/// Parameters as in `ops`; each call enqueues on the stream.
class cuda_attention {
 public:
  cuda_attention(cuda_products& products, kernels::cuda_kernel_table const& kernels)
      : products_(products), kernels_(kernels) {}

  void probabilities(stream_ref stream, float* probabilities, float const* qkv, attention_shape const& shape) const;
  void mix(stream_ref stream, float* out, float const* probabilities, float const* qkv,
           attention_shape const& shape) const;
  void backward(stream_ref stream, float* dqkv, float* dprobabilities, float const* dout, float const* probabilities,
                float const* qkv, attention_shape const& shape) const;
  void tiled_forward(stream_ref stream, float* out, float const* qkv, float* workspace,
                     attention_shape const& shape) const;
  void tiled_backward(stream_ref stream, float* dqkv, float const* dout, float const* out, float const* qkv,
                      float* workspace, attention_shape const& shape) const;

 private:
  cuda_products& products_;
  kernels::cuda_kernel_table const& kernels_;
};

}  // namespace ferry::nn
