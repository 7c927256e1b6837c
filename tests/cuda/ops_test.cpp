// The operations on the emulated GPU. Its products are the host's, and in serial mode its kernels are too: so a result
// that differs from the host device's in a single bit has been put together in another way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/serial_kernels.hpp"
#include "cudasim/cudasim.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/error.hpp"
#include "ferry/host_device.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/ops_cuda.hpp"
#include "ferry/nn/staging.hpp"
#include "nn/error_bounds.hpp"
#include "nn/ops_fixture.hpp"
#include "support/same_bits.hpp"

namespace ferry::nn::testing {
namespace {

using ferry::testing::same_bits;

constexpr std::size_t device_bytes = std::size_t{256} << 20;

/// A device with operations of its kind, and tensors that go there and come back.
class scene {
 public:
  explicit scene(std::unique_ptr<device> on)
      : device_(std::move(on)),
        stream_(*device_, stream_kind::compute, "compute"),
        ops_(make_ops(*device_)),
        staging_(*device_, stream_, std::size_t{1} << 20) {}

  static std::unique_ptr<scene> on_host() {
    return std::make_unique<scene>(
        make_host_device({.device_bytes = device_bytes, .pinned_bytes = std::size_t{4} << 20, .compute_threads = 2}));
  }
  static std::unique_ptr<scene> on_gpu(cudasim::mode how = cudasim::mode::serial, int ordinal = 0) {
    register_serial_kernels();
    cudasim::reset({.kernels = how});
    return std::make_unique<scene>(make_gpu(ordinal));
  }
  static std::unique_ptr<device> make_gpu(int ordinal) {
    cuda_device_options options;
    options.ordinal = ordinal;
    options.device_bytes = device_bytes;
    options.pinned_bytes = std::size_t{4} << 20;
    options.order = &cudasim::order();
    return make_cuda_device(std::move(options));
  }

  float* put(std::vector<float> const& values) {
    memory_.emplace_back(*device_, memory_space::device, values.size() * sizeof(float));
    staging_.upload(memory_.back().data(), values.data(), values.size() * sizeof(float));
    return memory_.back().as<float>();
  }
  float* poisoned(std::size_t count) { return put(std::vector<float>(count, not_a_number)); }
  std::vector<float> get(float const* from, std::size_t count) {
    std::vector<float> values(count);
    staging_.download(values.data(), from, count * sizeof(float));
    return values;
  }
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] device& on() const noexcept { return *device_; }
  ops* operator->() const noexcept { return ops_.get(); }

 private:
  std::unique_ptr<device> device_;
  ferry::stream stream_;
  std::unique_ptr<ops> ops_;
  staging staging_;
  std::vector<memory> memory_;
};

void expect_no_mistakes() {
  for (auto const& mistake : cudasim::violations()) ADD_FAILURE() << mistake;
}

/// The same work on both, to the same bits.
template <typename Work>
void expect_host_bits(Work const& work) {
  auto const host = scene::on_host(), gpu = scene::on_gpu();
  auto const expected = work(*host), actual = work(*gpu);
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(expected[i], actual[i])) << "result " << i;
    for (float const value : actual[i]) ASSERT_FALSE(std::isnan(value)) << "result " << i;
  }
  expect_no_mistakes();
}

using all_results = std::vector<std::vector<float>>;

all_results products(scene& at, int m, int n, int k) {
  random_values random(7);
  auto const a = random(m * k), b = random(k * n), before = random(m * n), bias = random(n), residual = random(m * n);
  auto* const a_there = at.put(a);
  auto* const b_there = at.put(b);
  auto* const bias_there = at.put(bias);
  auto* const residual_there = at.put(residual);
  all_results all;
  for (int form = 0; form < 4; ++form) {
    for (int end = 0; end < 4; ++end) {
      bool const accumulate = end == 1;
      auto* const out = accumulate ? at.put(before) : at.poisoned(before.size());
      at->gemm(at.stream(), "product",
               {.m = m,
                .n = n,
                .k = k,
                .a = {a_there, (form & 1) != 0},
                .b = {b_there, (form & 2) != 0},
                .out = out,
                .accumulate = accumulate,
                .bias = end >= 2 ? bias_there : nullptr,
                .residual = end == 3 ? residual_there : nullptr});
      all.push_back(at.get(out, before.size()));
    }
  }
  return all;
}

all_results attention(scene& at, attention_shape const& shape) {
  random_values random(3);
  std::size_t const values = static_cast<std::size_t>(shape.rows()) * shape.C;
  std::size_t const statistics = static_cast<std::size_t>(shape.rows()) * shape.heads;
  auto* const qkv = at.put(random(3 * values, 2));
  auto* const dout = at.put(random(values));
  auto* const probabilities = at.poisoned(statistics * shape.T);
  auto* const dprobabilities = at.poisoned(statistics * shape.T);
  auto* const out = at.poisoned(values);
  auto* const dqkv = at.poisoned(3 * values);
  auto* const tiled_out = at.poisoned(values + statistics);
  auto* const tiled_dqkv = at.poisoned(3 * values);
  auto* const workspace = at.poisoned(ops::attention_workspace_floats(shape));
  at->attention_probabilities(at.stream(), probabilities, qkv, shape);
  at->attention_mix(at.stream(), out, probabilities, qkv, shape);
  at->attention_backward(at.stream(), dqkv, dprobabilities, dout, probabilities, qkv, shape);
  at->tiled_attention_forward(at.stream(), tiled_out, qkv, workspace, shape);
  at->tiled_attention_backward(at.stream(), tiled_dqkv, dout, tiled_out, qkv, workspace, shape);
  return {at.get(probabilities, statistics * shape.T), at.get(out, values), at.get(dqkv, 3 * values),
          at.get(tiled_out, values + statistics), at.get(tiled_dqkv, 3 * values)};
}

struct product_shape {
  int m, n, k;
};

TEST(CudaOps, ProductsHaveTheHostsBits) {
  for (auto const [m, n, k] : {product_shape{1, 1, 1}, {1, 300, 7}, {65, 33, 17}, {128, 512, 96}, {300, 3, 512}}) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
    expect_host_bits([m, n, k](scene& at) { return products(at, m, n, k); });
  }
}

TEST(CudaOps, AttentionHasTheHostsBits) {
  // One token; less than a tile; whole tiles; tiles of keys and queries that are cut off.
  for (attention_shape const& shape : {attention_shape{1, 1, 4, 2},
                                       {2, 17, 12, 3},
                                       {1, 64, 8, 1},
                                       {2, 128, 32, 4},
                                       {1, 256, 16, 2},
                                       {2, 330, 24, 3}}) {
    SCOPED_TRACE(::testing::Message() << "B " << shape.B << " T " << shape.T << " C " << shape.C);
    expect_host_bits([&](scene& at) { return attention(at, shape); });
  }
}

TEST(CudaOps, AttentionInFibersIsTheSameUpToRounding) {
  for (attention_shape const& shape : {attention_shape{2, 17, 12, 3}, {1, 70, 8, 2}}) {
    auto const host = scene::on_host(), gpu = scene::on_gpu(cudasim::mode::fibers);
    auto const expected = attention(*host, shape), actual = attention(*gpu, shape);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Values are below 16, and go through sums of at most T terms four times.
      expect_close(actual[i], widened(expected[i]), values(actual[i].size(), 16 * 4 * growth(shape.T) * unit),
                   "result");
    }
    expect_no_mistakes();
  }
}

TEST(CudaOps, AResidualWithoutABiasIsRefused) {
  auto const gpu = scene::on_gpu();
  auto* const x = gpu->put({1, 2, 3, 4});
  EXPECT_THROW(
      (*gpu)->gemm(gpu->stream(), "product", {.m = 2, .n = 2, .k = 2, .a = {x}, .b = {x}, .out = x, .residual = x}),
      invalid_argument);
}

TEST(CudaOps, CallsAllocateNothingAndLeaveTheCurrentGpuAsItWas) {
  auto const gpu = scene::on_gpu(cudasim::mode::serial, 1);
  attention_shape const shape{1, 70, 8, 2};
  auto* const qkv = gpu->put(random_values()(3 * 70 * 8));
  auto* const out = gpu->poisoned(70 * 8 + 70 * 2);
  auto* const workspace = gpu->poisoned(ops::attention_workspace_floats(shape));
  cudasim::reset_calls();
  (*gpu)->tiled_attention_forward(gpu->stream(), out, qkv, workspace, shape);
  (*gpu)->gemm(gpu->stream(), "product", {.m = 2, .n = 2, .k = 2, .a = {qkv}, .b = {qkv}, .out = out, .bias = qkv});
  (*gpu)->set_to_zero(gpu->stream(), out, 10);
  auto const calls = cudasim::calls();
  for (char const* const forbidden : {"cudaMalloc", "cudaMallocAsync", "cudaFree", "cudaDeviceSynchronize",
                                      "cudaStreamSynchronize", "cublasCreate_v2"}) {
    EXPECT_FALSE(calls.contains(forbidden)) << forbidden;
  }
  int current = -1;
  EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  gpu->on().synchronize(gpu->stream());
  expect_no_mistakes();
}

TEST(CudaOps, AnotherStreamWaitsForTheWorkspace) {
  auto const gpu = scene::on_gpu();
  stream const other(gpu->on(), stream_kind::compute, "other");
  auto* const a = gpu->put(random_values()(64));
  auto* const x = gpu->poisoned(64);
  auto* const y = gpu->poisoned(64);
  cudasim::reset_calls();
  for (int i = 0; i < 3; ++i) {
    (*gpu)->gemm(gpu->stream(), "here", {.m = 8, .n = 8, .k = 8, .a = {a}, .b = {a}, .out = x});
    (*gpu)->gemm(gpu->stream(), "here again", {.m = 8, .n = 8, .k = 8, .a = {a}, .b = {a}, .out = x});
    (*gpu)->gemm(other, "there", {.m = 8, .n = 8, .k = 8, .a = {a}, .b = {a}, .out = y});
  }
  auto const calls = cudasim::calls();
  EXPECT_EQ(calls.at("cublasSetStream_v2"), 6U);
  EXPECT_EQ(calls.at("cublasSetWorkspace_v2"), 6U);
  EXPECT_EQ(calls.at("cudaStreamWaitEvent"), 5U);  // the first finds a workspace that nobody has used
  other.synchronize();
  EXPECT_TRUE(same_bits(gpu->get(x, 64), gpu->get(y, 64)));
  expect_no_mistakes();
}

TEST(CudaOps, SayHowTheyMultiply) {
  EXPECT_NE((*scene::on_gpu())->math_mode().find("FP32 (TF32 off)"), std::string::npos);
  auto const gpu = scene::make_gpu(0);
  auto const fast = make_cuda_ops(dynamic_cast<cuda_device&>(*gpu), {.tf32 = true});
  EXPECT_NE(fast->math_mode().find("TF32"), std::string::npos);
  EXPECT_EQ(fast->math_mode().find("off"), std::string::npos);
}

TEST(CudaOps, NothingIsLeftBehind) {
  auto gpu = scene::on_gpu();
  auto* const a = gpu->put(random_values()(64));
  auto* const x = gpu->poisoned(64);
  (*gpu)->gemm(gpu->stream(), "product", {.m = 8, .n = 8, .k = 8, .a = {a}, .b = {a}, .out = x});
  gpu->on().synchronize(gpu->stream());  // the tensors go before the stream does
  gpu.reset();
  EXPECT_TRUE(cudasim::live().none()) << cudasim::live().text();
  expect_no_mistakes();
}

TEST(CudaOps, EndWhenTheirWorkspaceIsNoLongerUsed) {
  auto const gpu = scene::on_gpu();
  auto* const a = gpu->put(random_values()(64));
  auto* const x = gpu->poisoned(64);
  {
    auto const brief = make_ops(gpu->on());
    brief->gemm(gpu->stream(), "product", {.m = 8, .n = 8, .k = 8, .a = {a}, .b = {a}, .out = x});
  }
  expect_no_mistakes();
  gpu->on().synchronize(gpu->stream());
}

TEST(CudaOps, AProductThatFailsIsAnErrorWithItsPlace) {
  auto const gpu = scene::on_gpu();
  auto* const x = gpu->put({1, 2, 3, 4});
  auto* const y = gpu->poisoned(4);
  gemm_call const call{.m = 2, .n = 2, .k = 2, .a = {x}, .b = {x}, .out = y};
  cudasim::fail("cublasGemmEx", 1, cudaErrorMemoryAllocation);
  try {
    (*gpu)->gemm(gpu->stream(), "product", call);
    FAIL() << "expected cuda_error";
  } catch (cuda_error const& failed) {
    EXPECT_EQ(failed.where().call, "cublasGemmEx");
    EXPECT_NE(failed.where().code, 0);
    EXPECT_NE(std::string(failed.where().file).find("gemm_cuda.cpp"), std::string::npos);
  }
  (*gpu)->gemm(gpu->stream(), "product", call);  // and the next is fine
  EXPECT_EQ(gpu->get(y, 4), (std::vector<float>{7, 10, 15, 22}));
  expect_no_mistakes();
}

TEST(CudaOps, ALaunchThatFailsIsAnErrorWithItsPlace) {
  auto const gpu = scene::on_gpu();
  auto* const x = gpu->poisoned(8);
  cudasim::fail("cudaLaunchKernelEx", 1, cudaErrorIllegalAddress);
  try {
    (*gpu)->set_to_zero(gpu->stream(), x, 8);
    FAIL() << "expected cuda_error";
  } catch (cuda_error const& failed) {
    EXPECT_EQ(failed.where().call, "cudaLaunchKernelEx");
    EXPECT_TRUE(failed.where().sticky);
  }
}

}  // namespace
}  // namespace ferry::nn::testing
