// The emulated cuBLAS: what it multiplies, to the bits of the host device, and what it refuses.
#include <cublas_v2.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "nn/gemm_host.hpp"
#include "world.hpp"

namespace cuda_test {
namespace {

using ::testing::IsEmpty;

std::vector<float> some_values(std::size_t count, float phase) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = std::sin(static_cast<float>(i) * 0.7F + phase);
  return result;
}

/// A row-major product by way of cuBLAS's column-major one.
struct product {
  int m = 70, n = 90, k = 50;
  bool a_transposed = false, b_transposed = false, accumulate = false;
  int padding = 0;  ///< floats behind every row of the result
  std::vector<float> a = some_values(static_cast<std::size_t>(m * k), 0);
  std::vector<float> b = some_values(static_cast<std::size_t>(k * n), 1);
  std::vector<float> out = some_values(static_cast<std::size_t>(m * (n + padding)), 2);

  [[nodiscard]] std::vector<float> by_cublas() const;
  [[nodiscard]] std::vector<float> on_the_host() const;
};

std::vector<float> product::by_cublas() const {
  cudaStream_t const stream = make_stream();
  cublasHandle_t handle = nullptr;
  EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  float* const workspace = make_device_floats(256);
  EXPECT_EQ(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetWorkspace(handle, workspace, 1024), CUBLAS_STATUS_SUCCESS);
  float* const da = make_device_floats(a.size());
  float* const db = make_device_floats(b.size());
  float* const dout = make_device_floats(out.size());
  write(da, a);
  write(db, b);
  write(dout, out);
  float const one = 1;
  float const beta = accumulate ? 1.0F : 0.0F;
  EXPECT_EQ(cublasGemmEx(handle, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n,
                         m, k, &one, db, CUDA_R_32F, b_transposed ? k : n, da, CUDA_R_32F, a_transposed ? m : k, &beta,
                         dout, CUDA_R_32F, n + padding, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  auto result = read_back(dout, out.size());
  for (auto* each : {da, db, dout, workspace}) cudaFree(each);
  cublasDestroy(handle);
  cudaStreamDestroy(stream);
  return result;
}

std::vector<float> product::on_the_host() const {
  auto result = out;
  if (padding == 0) {
    ferry::nn::gemm_call const call{.m = m,
                                    .n = n,
                                    .k = k,
                                    .a = {a.data(), a_transposed},
                                    .b = {b.data(), b_transposed},
                                    .out = result.data(),
                                    .accumulate = accumulate};
    ferry::nn::parallel_gemm(call, ferry::nn::kernels::kernels_of_this_cpu());
  } else {
    ferry::nn::sgemm(m, n, k, {a.data(), a_transposed ? m : k, a_transposed},
                     {b.data(), b_transposed ? k : n, b_transposed}, result.data(), n + padding, accumulate);
  }
  return result;
}

TEST(Cublas, ProductsHaveTheBitsOfTheHostDevice) {
  for (int i = 0; i < 16; ++i) {
    start_anew();
    product task{.a_transposed = (i & 1) != 0,
                 .b_transposed = (i & 2) != 0,
                 .accumulate = (i & 4) != 0,
                 .padding = (i & 8) != 0 ? 6 : 0};
    EXPECT_EQ(task.by_cublas(), task.on_the_host()) << "case " << i;
    EXPECT_THAT(cudasim::violations(), IsEmpty());
    EXPECT_TRUE(cudasim::live().none()) << cudasim::live().text();
  }
}

TEST(Cublas, ProductsAreRight) {
  start_anew();
  product const task{.a_transposed = true};
  auto const result = task.by_cublas();
  for (int row = 0; row < task.m; row += 23) {
    for (int column = 0; column < task.n; column += 31) {
      double sum = 0;
      for (int i = 0; i < task.k; ++i) {
        sum += static_cast<double>(task.a[static_cast<std::size_t>(i * task.m + row)]) *
               task.b[static_cast<std::size_t>(i * task.n + column)];
      }
      EXPECT_NEAR(result[static_cast<std::size_t>(row * task.n + column)], sum, 1e-4);
    }
  }
}

TEST(Cublas, BatchesMultiplyEachOfTheirMatrices) {
  world const w;
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  float* const workspace = make_device_floats(64);
  cublasSetStream(handle, w.compute);
  cublasSetWorkspace(handle, workspace, 256);
  auto const values = some_values(world::count, 0);
  write(w.device[0], values);
  float const one = 1;
  float const zero = 0;
  // 4 products of 4 x 4 matrices, out = a b, row-major: cuBLAS gets b first.
  ASSERT_EQ(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, w.device[0] + 64, CUDA_R_32F, 4,
                                       16, w.device[0], CUDA_R_32F, 4, 16, &zero, w.device[1], CUDA_R_32F, 4, 16, 4,
                                       CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  w.finish();
  auto const result = read_back(w.device[1], 64);
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<float> expected(16);
    ferry::nn::sgemm(4, 4, 4, {values.data() + i * 16, 4, false}, {values.data() + 64 + i * 16, 4, false},
                     expected.data(), 4, false);
    for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(result[i * 16 + k], expected[k]);
  }
  cublasDestroy(handle);
  cudaFree(workspace);
  EXPECT_THAT(cudasim::violations(), IsEmpty());
}

TEST(Cublas, RefusesWhatIsNotSinglePrecision) {
  world const w;
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  float* const workspace = make_device_floats(64);
  cublasSetStream(handle, w.compute);
  cublasSetWorkspace(handle, workspace, 256);
  auto const multiply = [&](cudaDataType type, cublasComputeType_t compute, float alpha, int stride) {
    float const zero = 0;
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &alpha, w.device[0], type, stride, w.device[0], type,
                        4, &zero, w.device[1], type, 4, compute, CUBLAS_GEMM_DEFAULT);
  };
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(CUDA_R_16BF, CUBLAS_COMPUTE_32F, 1, 4), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 1, 4), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F, 2, 4), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 3), CUBLAS_STATUS_INVALID_VALUE);
  cudasim::fail("cublasGemmEx", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 4), CUBLAS_STATUS_ALLOC_FAILED);
  w.finish();
  cublasDestroy(handle);
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 4), CUBLAS_STATUS_NOT_INITIALIZED);
  cudaFree(workspace);
}

TEST(Cublas, IsFoundAtRunTime) {
  for (char const* name : {"cublasCreate_v2", "cublasDestroy_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2",
                           "cublasSetMathMode", "cublasGetMathMode", "cublasGetVersion_v2", "cublasGemmEx",
                           "cublasGemmStridedBatchedEx", "cublasGetStatusString"}) {
    EXPECT_NE(dlsym(RTLD_DEFAULT, name), nullptr) << name;
  }
}

}  // namespace
}  // namespace cuda_test
