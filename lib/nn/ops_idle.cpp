// Operations that do nothing.
#include "ferry/nn/ops.hpp"

namespace ferry::nn {

namespace {

class idle_ops final : public ops {
 public:
  void gemm(stream_ref, label const&, gemm_call const&) override {}
  void layernorm_forward(stream_ref, float*, float const*, float const*, float const*, int, int) override {}
  void layernorm_backward(stream_ref, float*, float*, float*, float const*, float const*, float const*, float*, int,
                          int, bool, bool) override {}
  void gelu_forward(stream_ref, float*, float const*, int, int) override {}
  void gelu_backward(stream_ref, float*, float*, float const*, float*, int, int, bool) override {}
  void bias_backward(stream_ref, float*, float const*, float*, int, int, bool) override {}
  void embedding_forward(stream_ref, float*, std::int32_t const*, float const*, float const*, row_range, int, int,
                         int) override {}
  void embedding_backward(stream_ref, float*, float*, float const*, std::int32_t const*, int, int, int, int,
                          bool) override {}
  void attention_probabilities(stream_ref, float*, float const*, attention_shape const&) override {}
  void attention_mix(stream_ref, float*, float const*, float const*, attention_shape const&) override {}
  void attention_backward(stream_ref, float*, float*, float const*, float const*, float const*,
                          attention_shape const&) override {}
  void tiled_attention_forward(stream_ref, float*, float const*, float*, attention_shape const&) override {}
  void tiled_attention_backward(stream_ref, float*, float const*, float const*, float const*, float*,
                                attention_shape const&) override {}
  void cross_entropy(stream_ref, float*, float*, std::int32_t const*, int, int, float) override {}
  void add_losses(stream_ref, double*, float const*, int, double) override {}
  void set_to_zero(stream_ref, float*, std::size_t) override {}
  void gradient_norm(stream_ref, float*, float const*, double*, std::size_t, float) override {}
  void adamw(stream_ref, float*, float const*, float*, float*, float const*, std::size_t, adamw_step const&) override {}
};

}  // namespace

std::unique_ptr<ops> make_idle_ops() { return std::make_unique<idle_ops>(); }

}  // namespace ferry::nn
