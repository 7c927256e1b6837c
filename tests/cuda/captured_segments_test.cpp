// CUDA graphs: a trainer captures the kernels of a segment between Ferry's calls and replays them in every step, while
// Ferry's thread moves items. Nothing that Ferry does then is forbidden by a capture, and bytes come out right.
#include <cuda_runtime.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/cuda_fixture.hpp"

namespace ferry::testing {
namespace {

constexpr std::size_t floats = 16 << 10;
constexpr std::size_t bytes = floats * sizeof(float);
constexpr std::uint32_t segments = 6;

__global__ void scaled(float* out, float const* in, int count, float factor) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) out[i] = factor * in[i];
}
__global__ void filled(float* out, int count, float value) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) out[i] = value;
}

template <typename... Parameters, typename... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(1);
  how.blockDim = dim3(32);
  how.stream = stream;
  ASSERT_EQ(cudaLaunchKernelEx(&how, kernel, arguments...), cudaSuccess);
}

/// A segment's kernel as a graph, captured once for each pair of addresses that it is called with.
class captured_segment {
 public:
  void run(cudaStream_t stream, float* out, float const* in) {
    auto& graph = graphs_[{out, in}];
    if (graph == nullptr) graph = capture(stream, out, in);
    ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
  }
  [[nodiscard]] std::size_t captures() const { return graphs_.size(); }
  void destroy() {
    for (auto const& each : graphs_) EXPECT_EQ(cudaGraphExecDestroy(each.second), cudaSuccess);
  }

 private:
  static cudaGraphExec_t capture(cudaStream_t stream, float* out, float const* in) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    launch(stream, scaled, out, in, static_cast<int>(floats), 2.0F);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    cudaGraphExec_t made = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&made, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return made;
  }

  std::map<std::pair<float*, float const*>, cudaGraphExec_t> graphs_;
};

class CapturedSegments : public CudaTest {};

TEST_F(CapturedSegments, AreReplayedWhileItemsMove) {
  auto& dev = make();
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  auto const compute = stream_ref::from_native(dev, native);
  captured_segment forward;
  std::vector<float> back(floats);
  {
    config settings;
    settings.policy.kind = policy_kind::offload;
    settings.budget = byte_amount::exactly(4 * bytes);
    settings.host_budget = byte_amount::exactly(2 * segments * bytes);
    settings.chunk_bytes = 8 << 10;
    session on(dev, settings);
    memory const read(dev, memory_space::pinned, bytes);
    for (int step = 0; step < 4; ++step) {
      on.begin_step();
      auto memory_of_first = on.allocate(bytes, compute);
      launch(native, filled, memory_of_first.as<float>(), static_cast<int>(floats), 1.0F + static_cast<float>(step));
      auto x = on.save({0, 0, "x"}, std::move(memory_of_first), compute);
      for (std::uint32_t s = 1; s < segments; ++s) {
        auto out = on.allocate(bytes, compute);
        forward.run(native, out.as<float>(), x.as<float>());
        x = on.save({0, s, "x"}, std::move(out), compute);
      }
      x.end();
      for (std::uint32_t s = segments; s-- > 0;) {
        auto const item = on.restore({0, s, "x"}, compute);
        dev.copy(compute, "read", copy_direction::device_to_host, read.data(), item.data(), bytes);
        dev.synchronize(compute);
        cudasim::order().host_access(reads(read.data(), bytes), "read");
        float const expected = (1.0F + static_cast<float>(step)) * static_cast<float>(1U << s);
        EXPECT_EQ(read.as<float>()[0], expected) << "step " << step << ", segment " << s;
        EXPECT_EQ(read.as<float>()[floats - 1], expected);
      }
      on.end_step();
    }
    dev.synchronize(compute);
  }
  EXPECT_GT(forward.captures(), 0U);
  EXPECT_LT(forward.captures(), 4U * segments) << "addresses come again, and with them graphs";
  forward.destroy();
  device_.reset();
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess);
}

}  // namespace
}  // namespace ferry::testing
