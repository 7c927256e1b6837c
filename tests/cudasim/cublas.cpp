// cuBLAS by Ferry's own products on the host: the same tiles, so the same bits as on the host device.
//
// cuBLAS is column-major. A column-major matrix is the transpose of the row-major one with the same bytes, so
// C = op(A) op(B) is computed as C' = op(B)' op(A)'.
#include <cublas_v2.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "nn/gemm_host.hpp"
#include "resolve.hpp"

struct cublasContext {
  int device = 0;
  std::uint64_t generation = 0;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace cudasim {

namespace {

/// One operand as it is stored, row-major: `rows` of `columns` floats, `stride` apart.
struct stored_matrix {
  float const* data = nullptr;
  int rows = 0, columns = 0;
  long stride = 0;
  bool transposed = false;
  long long next = 0;  ///< floats from one product of a batch to the next

  [[nodiscard]] bool dense() const { return stride == columns; }
  [[nodiscard]] std::size_t bytes(int batch) const {
    auto const last = static_cast<long long>(rows - 1) * stride + columns + (batch - 1) * next;
    return static_cast<std::size_t>(last) * sizeof(float);
  }
};

/// out (m, n) = a (m, k) b (k, n), row-major, `batch` times.
struct product {
  int m = 0, n = 0, k = 0;
  stored_matrix a, b, out;
  bool accumulate = false;
  int batch = 1;
  bool batched = false;
};

/// The arguments of a call, column-major as they come.
struct gemm_arguments {
  cublasOperation_t transa, transb;
  int m, n, k;
  void const* alpha;
  void const* A;
  cudaDataType Atype;
  int lda;
  long long strideA;
  void const* B;
  cudaDataType Btype;
  int ldb;
  long long strideB;
  void const* beta;
  void* C;
  cudaDataType Ctype;
  int ldc;
  long long strideC;
  int batch;
  bool batched;
  cublasComputeType_t compute;
};

std::mutex handles_mutex;
std::unordered_map<cublasHandle_t, std::unique_ptr<cublasContext>> handles;

/// A copy of the handle's state; none if there is no such handle.
std::optional<cublasContext> find(cublasHandle_t handle) {
  std::lock_guard const lock(handles_mutex);
  auto const found = handles.find(handle);
  if (found == handles.end() || found->second->generation != sim().generation) return std::nullopt;
  return *found->second;
}

cublasStatus_t status_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case cudaErrorInsufficientDriver:
    case cudaErrorCudartUnloading:
    case cudaErrorNoDevice:
      return CUBLAS_STATUS_NOT_INITIALIZED;
    case cudaErrorNotPermitted:
      return CUBLAS_STATUS_INTERNAL_ERROR;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

/// Counts, faults and states as for every call. cuBLAS leaves the thread's last CUDA error alone.
template <typename Body>
cublasStatus_t blas_call(char const* function, call_rules const& rules, Body const& body) {
  cudaError_t const forbidden = begin_call(function, rules);
  if (forbidden != cudaSuccess) return status_of(forbidden);
  try {
    return body();
  } catch (...) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  }
}

/// Changes a handle's state.
template <typename Change>
cublasStatus_t with_handle(cublasHandle_t handle, Change const& change) {
  std::lock_guard const lock(handles_mutex);
  auto const found = handles.find(handle);
  if (found == handles.end() || found->second->generation != sim().generation) return CUBLAS_STATUS_NOT_INITIALIZED;
  return change(*found->second);
}

cublasStatus_t check(gemm_arguments const& call) {
  auto const known = [](cublasOperation_t t) { return t == CUBLAS_OP_N || t == CUBLAS_OP_T || t == CUBLAS_OP_C; };
  if (call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (!known(call.transa) || !known(call.transb)) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.alpha == nullptr || call.beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  bool const strides = call.lda >= std::max(1, call.transa == CUBLAS_OP_N ? call.m : call.k) &&
                       call.ldb >= std::max(1, call.transb == CUBLAS_OP_N ? call.k : call.n) &&
                       call.ldc >= std::max(1, call.m);
  if (!strides) return CUBLAS_STATUS_INVALID_VALUE;
  bool const single = call.Atype == CUDA_R_32F && call.Btype == CUDA_R_32F && call.Ctype == CUDA_R_32F;
  bool const full = call.compute == CUBLAS_COMPUTE_32F || call.compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  float const alpha = *static_cast<float const*>(call.alpha);
  float const beta = *static_cast<float const*>(call.beta);
  bool const simple = alpha == 1.0F && (beta == 0.0F || beta == 1.0F);
  return single && full && simple ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// `rows` x `columns` as the product takes it.
stored_matrix operand(void const* data, int rows, int columns, int stride, cublasOperation_t how, long long next) {
  bool const transposed = how != CUBLAS_OP_N;
  return {static_cast<float const*>(data),
          transposed ? columns : rows,
          transposed ? rows : columns,
          stride,
          transposed,
          next};
}

product row_major(gemm_arguments const& call) {
  return {.m = call.n,
          .n = call.m,
          .k = call.k,
          .a = operand(call.B, call.n, call.k, call.ldb, call.transb, call.strideB),
          .b = operand(call.A, call.k, call.m, call.lda, call.transa, call.strideA),
          .out = operand(call.C, call.n, call.m, call.ldc, CUBLAS_OP_N, call.strideC),
          .accumulate = *static_cast<float const*>(call.beta) == 1.0F,
          .batch = call.batch,
          .batched = call.batched};
}

void run(product const& with) {
  auto* const out = const_cast<float*>(with.out.data);
  bool const dense = with.a.dense() && with.b.dense() && with.out.dense();
  if (dense && !with.batched) {
    ferry::nn::gemm_call const call{.m = with.m,
                                    .n = with.n,
                                    .k = with.k,
                                    .a = {with.a.data, with.a.transposed},
                                    .b = {with.b.data, with.b.transposed},
                                    .out = out,
                                    .accumulate = with.accumulate};
    ferry::nn::parallel_gemm(call, ferry::nn::kernels::kernels_of_this_cpu());
    return;
  }
  for (long long i = 0; i < with.batch; ++i) {
    ferry::nn::sgemm(with.m, with.n, with.k, {with.a.data + i * with.a.next, with.a.stride, with.a.transposed},
                     {with.b.data + i * with.b.next, with.b.stride, with.b.transposed}, out + i * with.out.next,
                     with.out.stride, with.accumulate);
  }
}

/// False, and reported, if it is not the device's own memory.
bool translate(char const* what, stored_matrix& matrix, int batch, int device) {
  auto const found = locate(fmt::format("the product's matrix {} is", what), matrix.data, matrix.bytes(batch));
  if (found.in && (found.in->where != space::device || found.in->device == device)) {
    matrix.data = static_cast<float const*>(sim().memory.bytes_at(matrix.data));
    return true;
  }
  if (found.in) {
    sim().report(fmt::format("memory of another device: the product's matrix {} is '{}' of device {}", what,
                             found.in->name.view(), found.in->device));
  } else if (!found.wrong) {
    sim().report(fmt::format("host pointer: the product's matrix {} is memory of the host", what));
  }
  return false;
}

bool has_workspace(char const* function, cublasContext const& handle) {
  if (handle.workspace != nullptr) return true;
  sim().report(
      fmt::format("product without a workspace: {} before cublasSetWorkspace, or after cublasSetStream, which "
                  "takes it away; results need not be reproducible",
                  function));
  return false;
}

operation work_of(char const* function, cublasContext const& handle, product with, int device) {
  operation work{.name = operation_name(function), .kind = "gemm"};
  work.cost.what = work_cost::kind::gemm;
  work.cost.amount = 2.0 * with.m * with.n * with.k * with.batch;
  work.accesses = {ferry::reads(with.a.data, with.a.bytes(with.batch)),
                   ferry::reads(with.b.data, with.b.bytes(with.batch)),
                   ferry::writes(with.out.data, with.out.bytes(with.batch))};
  if (has_workspace(function, handle) && handle.workspace_bytes > 0) {
    work.accesses.push_back(ferry::writes(handle.workspace, handle.workspace_bytes));
  }
  bool const good = translate("A", with.b, with.batch, device) && translate("B", with.a, with.batch, device) &&
                    translate("C", with.out, with.batch, device);
  if (good) {
    work.run = [with](stream_state&) { run(with); };
  } else {
    work.accesses.clear();
    work.run = [](stream_state& on) { on.device.break_with(cudaErrorIllegalAddress); };
  }
  return work;
}

cublasStatus_t multiply(char const* function, cublasHandle_t handle, gemm_arguments const& call) {
  return blas_call(function, by_handle, [&] {
    auto const state = find(handle);
    if (!state) return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t const possible = check(call);
    if (possible != CUBLAS_STATUS_SUCCESS) return possible;
    auto const [stream, error] = resolve_stream(function, state->stream);
    if (error != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
    bool const elsewhere = stream->device.index != this_thread().device || state->device != stream->device.index;
    if (elsewhere) {
      sim().report(
          fmt::format("stream of another device: {} with a handle of device {} on the stream {} while device {} "
                      "is current",
                      function, state->device, stream->name.view(), this_thread().device));
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (call.m == 0 || call.n == 0 || call.k == 0 || call.batch == 0) return CUBLAS_STATUS_SUCCESS;
    return status_of(submit(*stream, work_of(function, *state, row_major(call), stream->device.index)));
  });
}

}  // namespace

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return blas_call("cublasCreate_v2", allocating, [&] {
    if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    auto made = std::make_unique<cublasContext>();
    made->device = this_thread().device;
    made->generation = sim().generation;
    *handle = made.get();
    std::lock_guard const lock(handles_mutex);
    handles[*handle] = std::move(made);
    ++sim().cublas_handles;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return blas_call("cublasDestroy_v2", destroying, [&] {
    std::lock_guard const lock(handles_mutex);
    auto const found = handles.find(handle);
    if (found == handles.end()) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (found->second->generation == sim().generation) --sim().cublas_handles;
    handles.erase(found);
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  return blas_call("cublasGetVersion_v2", any_time, [&] {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId) {
  return blas_call("cublasSetStream_v2", by_handle, [&] {
    return with_handle(handle, [&](cublasContext& state) {
      state.stream = streamId;
      state.workspace = nullptr;
      state.workspace_bytes = 0;
      return CUBLAS_STATUS_SUCCESS;
    });
  });
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* streamId) {
  return blas_call("cublasGetStream_v2", by_handle, [&] {
    return with_handle(handle, [&](cublasContext& state) {
      *streamId = state.stream;
      return CUBLAS_STATUS_SUCCESS;
    });
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t workspaceSizeInBytes) {
  return blas_call("cublasSetWorkspace_v2", by_handle, [&] {
    if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace != nullptr) {
      auto const found = locate("the workspace of cuBLAS is", workspace, workspaceSizeInBytes);
      if (!found.in || found.in->where != space::device) return CUBLAS_STATUS_INVALID_VALUE;
    }
    return with_handle(handle, [&](cublasContext& state) {
      state.workspace = workspace;
      state.workspace_bytes = workspaceSizeInBytes;
      return CUBLAS_STATUS_SUCCESS;
    });
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return blas_call("cublasSetMathMode", by_handle, [&] {
    return with_handle(handle, [&](cublasContext& state) {
      state.math = mode;
      return CUBLAS_STATUS_SUCCESS;
    });
  });
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return blas_call("cublasGetMathMode", by_handle, [&] {
    return with_handle(handle, [&](cublasContext& state) {
      *mode = state.math;
      return CUBLAS_STATUS_SUCCESS;
    });
  });
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, void const* alpha, void const* A, cudaDataType Atype, int lda, void const* B,
                            cudaDataType Btype, int ldb, void const* beta, void* C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t computeType, cublasGemmAlgo_t) {
  return multiply("cublasGemmEx", handle, {transa, transb, m, n,    k, alpha, A,   Atype, lda, 0,     B,
                                           Btype,  ldb,    0, beta, C, Ctype, ldc, 0,     1,   false, computeType});
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, void const* alpha, void const* A, cudaDataType Atype,
                                          int lda, long long int strideA, void const* B, cudaDataType Btype, int ldb,
                                          long long int strideB, void const* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long int strideC, int batchCount, cublasComputeType_t computeType,
                                          cublasGemmAlgo_t) {
  return multiply("cublasGemmStridedBatchedEx", handle,
                  {transa, transb, m,       n,    k, alpha, A,   Atype,   lda,        strideA, B,
                   Btype,  ldb,    strideB, beta, C, Ctype, ldc, strideC, batchCount, true,    computeType});
}

}  // extern "C"
