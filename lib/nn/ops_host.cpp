// The operations on the host device: kernels in serial mode, their blocks in parallel by oneTBB.
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <span>
#include <type_traits>

#include "ferry/error.hpp"
#include "ferry/nn/ops.hpp"
#include "nn/attention_host.hpp"
#include "nn/gemm_host.hpp"
#include "nn/kernel_ops.hpp"

namespace ferry::nn {

namespace {

/// What a task should touch at least, to be worth its scheduling.
constexpr long bytes_per_task = 64L << 10;

class host_backend {
 public:
  explicit host_backend(device& on) : device_(on) {}

  [[nodiscard]] kernels::kernel_table const& kernels() const noexcept { return kernels_; }

  template <typename... Parameters>
  void launch(stream_ref stream, label const& name, std::span<memory_access const> accesses, launch_shape const& shape,
              kernels::block_runner<Parameters...> kernel, std::type_identity_t<Parameters>... arguments) const {
    int const blocks = static_cast<int>(shape.blocks);
    long const grain = std::max(1L, bytes_per_task / std::max(1L, shape.floats_per_block * 4));
    device_.launch(stream, name, accesses, [=] {
      tbb::parallel_for(
          tbb::blocked_range<int>(0, blocks, static_cast<std::size_t>(grain)),
          [=](tbb::blocked_range<int> const& range) { kernel(range.begin(), range.end(), arguments...); });
    });
  }

 private:
  device& device_;
  kernels::kernel_table const& kernels_ = kernels::kernels_of_this_cpu();
};

class host_ops final : public kernel_ops<host_backend> {
 public:
  explicit host_ops(device& on) : kernel_ops(host_backend(on)), device_(on), attention_(kernels()) {}

  [[nodiscard]] std::string math_mode() const override { return gemm_library(); }

  void gemm(stream_ref stream, label const& name, gemm_call const& call) override {
    require_valid(call);
    long const m = call.m, n = call.n, k = call.k;
    memory_access accesses[5]{in(call.a.data, m * k), in(call.b.data, k * n), out(call.out, m * n)};
    std::size_t count = 3;
    if (call.bias != nullptr) accesses[count++] = in(call.bias, n);
    if (call.residual != nullptr) accesses[count++] = in(call.residual, m * n);
    device_.launch(stream, name, {accesses, count}, [this, call] { parallel_gemm(call, kernels()); });
  }

  void attention_probabilities(stream_ref stream, float* probabilities, float const* qkv,
                               attention_shape const& shape) override {
    memory_access const accesses[]{out(probabilities, squares(shape)), in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention probabilities", accesses,
                   [=, this] { attention_.probabilities(probabilities, qkv, shape); });
  }

  void attention_mix(stream_ref stream, float* y, float const* probabilities, float const* qkv,
                     attention_shape const& shape) override {
    memory_access const accesses[]{out(y, values(shape)), in(probabilities, squares(shape)),
                                   in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention mix", accesses, [=, this] { attention_.mix(y, probabilities, qkv, shape); });
  }

  void attention_backward(stream_ref stream, float* dqkv, float* dprobabilities, float const* dout,
                          float const* probabilities, float const* qkv, attention_shape const& shape) override {
    memory_access const accesses[]{out(dqkv, 3 * values(shape)), out(dprobabilities, squares(shape)),
                                   in(dout, values(shape)), in(probabilities, squares(shape)),
                                   in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention backward", accesses,
                   [=, this] { attention_.backward(dqkv, dprobabilities, dout, probabilities, qkv, shape); });
  }

  // A thread's own tiles are nearer to it than any workspace.
  void tiled_attention_forward(stream_ref stream, float* y, float const* qkv, float*,
                               attention_shape const& shape) override {
    memory_access const accesses[]{out(y, values(shape) + statistics(shape)), in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention", accesses, [=, this] { attention_.tiled_forward(y, qkv, shape); });
  }

  void tiled_attention_backward(stream_ref stream, float* dqkv, float const* dout, float const* y, float const* qkv,
                                float*, attention_shape const& shape) override {
    memory_access const accesses[]{out(dqkv, 3 * values(shape)), in(dout, values(shape)),
                                   in(y, values(shape) + statistics(shape)), in(qkv, 3 * values(shape))};
    device_.launch(stream, "attention backward", accesses,
                   [=, this] { attention_.tiled_backward(dqkv, dout, y, qkv, shape); });
  }

 private:
  static long values(attention_shape const& shape) { return static_cast<long>(shape.rows()) * shape.C; }
  static long squares(attention_shape const& shape) { return statistics(shape) * shape.T; }
  static long statistics(attention_shape const& shape) { return static_cast<long>(shape.rows()) * shape.heads; }

  device& device_;
  host_attention attention_;
};

}  // namespace

std::unique_ptr<ops> make_host_ops(device& on) {
  if (!on.capabilities().host_addressable) {
    throw invalid_argument("the host cannot compute on this device's memory; set FERRY_DEVICE=host");
  }
  return std::make_unique<host_ops>(on);
}

}  // namespace ferry::nn
