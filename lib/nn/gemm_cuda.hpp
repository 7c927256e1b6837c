// Matrix products on a GPU, by cuBLAS.
//
// Same shapes, same bits: cuBLAS promises that only if its workspace is its caller's own, and only for one stream at a
// time. So there is one workspace, and work on another stream waits for what used it last.
//
// Threads: any.
#pragma once

#include <mutex>
#include <string>

#include "ferry/cuda_device.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/ops_cuda.hpp"
#include "nn/cublas_library.hpp"

namespace ferry::nn {

/// As many row-major matrices as a batch has, each somewhere in a larger one.
struct batch_operand {
  float const* data = nullptr;
  long stride = 0;  ///< floats from one stored row to the next
  long step = 0;    ///< floats from one matrix to the next
  bool transposed = false;
};
struct batch_result {
  float* data = nullptr;
  long stride = 0;
  long step = 0;
};

class cuda_products {
 public:
  /// Throws: `no_cuda` without cuBLAS; `cuda_error`; `out_of_device_memory` for the workspace.
  cuda_products(cuda_device& on, cuda_ops_options const& options);
  ~cuda_products();

  /// What is said to cuBLAS in one go, on one stream; the GPU is current as long.
  class turn {
   public:
    turn(cuda_products& of, stream_ref stream);
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn();

    /// out = a b, + out if the call accumulates; without its bias and residual.
    void multiply(gemm_call const& call) const;
    /// `count` products: out (m, n) = a (m, k) b (k, n), + out if `accumulate`.
    void multiply(int count, int m, int n, int k, batch_operand const& a, batch_operand const& b,
                  batch_result const& to, bool accumulate) const;

   private:
    cuda_products& of_;
    std::lock_guard<std::mutex> lock_;
    cuda::current_device current_;
    stream_ref stream_;
  };

  /// Of this GPU's own memory.
  [[nodiscard]] static std::size_t workspace_bytes(int architecture) noexcept;
  /// "cuBLAS 13.0.2, FP32 (TF32 off)"
  [[nodiscard]] std::string const& math_mode() const noexcept { return math_mode_; }

 private:
  void use(stream_ref stream);

  cuda_device& device_;
  cublas_library cublas_;
  std::string math_mode_;
  memory workspace_;
  event last_use_;  ///< of the workspace
  std::mutex mutex_;
  cublasHandle_t handle_ = nullptr;
  stream_ref stream_;  ///< that cuBLAS was told
};

}  // namespace ferry::nn
