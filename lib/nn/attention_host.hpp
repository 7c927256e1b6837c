// Attention on the host: a task takes one head of one sequence, and everything it makes on the way stays in its
// thread's cache.
#pragma once

#include "ferry/nn/ops.hpp"
#include "nn/kernels/kernel_table.hpp"

namespace ferry::nn {

/// Parameters as in `ops`; each call returns when the work is done. Call inside the arena that is to run it.
class host_attention {
 public:
  explicit host_attention(kernels::kernel_table const& kernels) : kernels_(kernels) {}

  void probabilities(float* probabilities, float const* qkv, attention_shape const& shape) const;
  void mix(float* out, float const* probabilities, float const* qkv, attention_shape const& shape) const;
  void backward(float* dqkv, float* dprobabilities, float const* dout, float const* probabilities, float const* qkv,
                attention_shape const& shape) const;
  void tiled_forward(float* out, float const* qkv, attention_shape const& shape) const;
  void tiled_backward(float* dqkv, float const* dout, float const* out, float const* qkv,
                      attention_shape const& shape) const;

 private:
  kernels::kernel_table const& kernels_;
};

}  // namespace ferry::nn
