// cuBLAS, found when the first operations on a GPU are made. To link it would cost every process a tenth of a second
// and 200 MB, those that never see a GPU included.
#pragma once

#include <cublas_v2.h>

#include <memory>
#include <type_traits>

#include "ferry/cuda_device.hpp"

namespace ferry::nn {

class cublas_library {
 public:
  /// Throws: `no_cuda` that says what to install if there is none.
  cublas_library();

  // Spelt out, because the header has a second function of each name for calls from before CUDA 11.
  using gemm_ex = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                     void const* alpha, void const* a, cudaDataType, int a_stride, void const* b,
                                     cudaDataType, int b_stride, void const* beta, void* c, cudaDataType, int c_stride,
                                     cublasComputeType_t, cublasGemmAlgo_t);
  using gemm_strided_batched_ex = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                                                     int k, void const* alpha, void const* a, cudaDataType,
                                                     int a_stride, long long a_step, void const* b, cudaDataType,
                                                     int b_stride, long long b_step, void const* beta, void* c,
                                                     cudaDataType, int c_stride, long long c_step, int count,
                                                     cublasComputeType_t, cublasGemmAlgo_t);
  static_assert(std::is_same_v<decltype(static_cast<gemm_ex>(&cublasGemmEx)), gemm_ex>);
  static_assert(std::is_same_v<decltype(static_cast<gemm_strided_batched_ex>(&cublasGemmStridedBatchedEx)),
                               gemm_strided_batched_ex>);

  decltype(&cublasCreate) create = nullptr;
  decltype(&cublasDestroy) destroy = nullptr;
  decltype(&cublasGetVersion) get_version = nullptr;
  decltype(&cublasGetStatusString) get_status_string = nullptr;
  decltype(&cublasSetStream) set_stream = nullptr;
  decltype(&cublasSetWorkspace) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  gemm_ex gemm = nullptr;
  gemm_strided_batched_ex gemm_strided_batched = nullptr;

  /// Throws: `cuda_error` unless the call succeeded.
  void require(cublasStatus_t status, char const* call, call_site where = call_site::current()) const;

 private:
  struct closer {
    void operator()(void* handle) const noexcept;
  };
  std::unique_ptr<void, closer> handle_;
};

}  // namespace ferry::nn
