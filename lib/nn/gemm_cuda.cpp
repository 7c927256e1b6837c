#include "nn/gemm_cuda.hpp"

#include <fmt/format.h>

#include "ferry/error.hpp"

namespace ferry::nn {

namespace {

constexpr float one = 1.0F;
constexpr float zero = 0.0F;

cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

// What NVIDIA recommends; with less, cuBLAS takes slower kernels.
std::size_t cuda_products::workspace_bytes(int architecture) noexcept {
  return std::size_t{architecture >= 90 ? 32U : 4U} << 20;
}

cuda_products::cuda_products(cuda_device& on, cuda_ops_options const& options)
    : device_(on), workspace_(on, memory_space::device, workspace_bytes(on.architecture())), last_use_(on) {
  cuda::current_device const current(on.ordinal());
  cublas_.require(cublas_.create(&handle_), "cublasCreate");
  try {
    auto const mode = options.tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_PEDANTIC_MATH;
    cublas_.require(cublas_.set_math_mode(handle_, mode), "cublasSetMathMode");
    int version = 0;
    cublas_.require(cublas_.get_version(handle_, &version), "cublasGetVersion");
    math_mode_ = fmt::format("cuBLAS {}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100,
                             options.tf32 ? "TF32" : "FP32 (TF32 off)");
  } catch (...) {
    cublas_.destroy(handle_);
    throw;
  }
}

cuda_products::~cuda_products() {
  try {
    device_.synchronize(last_use_);  // the workspace goes back to the device, which may hand it out at once
  } catch (error const&) {           // work that failed is over too
  }
  try {
    cuda::current_device const current(device_.ordinal());
    cublas_.destroy(handle_);
  } catch (error const&) {  // a lost device, which has said so to whoever used it
  }
}

void cuda_products::use(stream_ref stream) {
  if (stream == stream_) return;
  device_.wait(stream, last_use_);
  stream_ = {};  // unknown until all of this has worked
  auto* const native = static_cast<cudaStream_t>(device_.native_handle(stream));
  cublas_.require(cublas_.set_stream(handle_, native), "cublasSetStream");
  // After each change of stream, because that makes cuBLAS go back to a workspace of its own.
  cublas_.require(cublas_.set_workspace(handle_, workspace_.data(), workspace_.bytes()), "cublasSetWorkspace");
  stream_ = stream;
}

cuda_products::turn::turn(cuda_products& of, stream_ref stream)
    : of_(of), lock_(of.mutex_), current_(of.device_.ordinal()), stream_(stream) {
  of_.use(stream);
}

cuda_products::turn::~turn() {
  try {
    of_.device_.record(of_.last_use_, stream_);
  } catch (error const&) {  // a lost device: the next call says so
  }
}

// cuBLAS counts by columns: a row-major matrix is the transpose of a column-major one, and so out = a b is asked for as
// its transpose, b' a'.
void cuda_products::turn::multiply(gemm_call const& call) const {
  int const a_stride = call.a.transposed ? call.m : call.k;
  int const b_stride = call.b.transposed ? call.k : call.n;
  auto const& cublas = of_.cublas_;
  cublas.require(
      cublas.gemm(of_.handle_, operation(call.b.transposed), operation(call.a.transposed), call.n, call.m, call.k, &one,
                  call.b.data, CUDA_R_32F, b_stride, call.a.data, CUDA_R_32F, a_stride, call.accumulate ? &one : &zero,
                  call.out, CUDA_R_32F, call.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx");
}

void cuda_products::turn::multiply(int count, int m, int n, int k, batch_operand const& a, batch_operand const& b,
                                   batch_result const& to, bool accumulate) const {
  auto const& cublas = of_.cublas_;
  cublas.require(
      cublas.gemm_strided_batched(of_.handle_, operation(b.transposed), operation(a.transposed), n, m, k, &one, b.data,
                                  CUDA_R_32F, static_cast<int>(b.stride), b.step, a.data, CUDA_R_32F,
                                  static_cast<int>(a.stride), a.step, accumulate ? &one : &zero, to.data, CUDA_R_32F,
                                  static_cast<int>(to.stride), to.step, count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace ferry::nn
