#include "nn/cublas_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "ferry/cuda_device.hpp"

// The header renames most functions ("cublasCreate" is "cublasCreate_v2"): the name to look up is the expanded one.
#define FERRY_SYMBOL_OF(name) #name
#define FERRY_SYMBOL(name) FERRY_SYMBOL_OF(name)

namespace ferry::nn {

namespace {

std::string loader_problem() {
  char const* const text = dlerror();
  return text != nullptr ? text : "unknown";
}

/// The program itself may have it: linked in, or loaded by another library for all to use.
void* open_library() {
  void* const program = dlopen(nullptr, RTLD_NOW);
  if (program != nullptr) {
    if (dlsym(program, FERRY_SYMBOL(cublasCreate)) != nullptr) return program;
    dlclose(program);
  }
  std::string problems;
  for (char const* const name : {"libcublas.so.13", "libcublas.so.12"}) {
    // It has threads and GPU memory of its own, which do not survive that its code goes away: hence no unloading.
    if (void* const found = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); found != nullptr) return found;
    problems += (problems.empty() ? "" : "; ") + loader_problem();
  }
  throw no_cuda(
      fmt::format("no cuBLAS ({}): install libcublas of the CUDA toolkit 12 or 13, or put its folder on "
                  "LD_LIBRARY_PATH; or use FERRY_DEVICE=host",
                  problems));
}

template <typename Function>
void find(void* library, char const* symbol, Function& to) {
  void* const found = dlsym(library, symbol);
  if (found == nullptr) {
    throw no_cuda(fmt::format(
        "this cuBLAS has no {} ({}): install libcublas of the CUDA toolkit 12 or 13; or use FERRY_DEVICE=host", symbol,
        loader_problem()));
  }
  to = reinterpret_cast<Function>(found);
}

}  // namespace

void cublas_library::closer::operator()(void* handle) const noexcept { dlclose(handle); }

cublas_library::cublas_library() : handle_(open_library()) {
  auto* const library = handle_.get();
  find(library, FERRY_SYMBOL(cublasCreate), create);
  find(library, FERRY_SYMBOL(cublasDestroy), destroy);
  find(library, FERRY_SYMBOL(cublasGetVersion), get_version);
  find(library, FERRY_SYMBOL(cublasGetStatusString), get_status_string);
  find(library, FERRY_SYMBOL(cublasSetStream), set_stream);
  find(library, FERRY_SYMBOL(cublasSetWorkspace), set_workspace);
  find(library, FERRY_SYMBOL(cublasSetMathMode), set_math_mode);
  find(library, FERRY_SYMBOL(cublasGemmEx), gemm);
  find(library, FERRY_SYMBOL(cublasGemmStridedBatchedEx), gemm_strided_batched);
}

void cublas_library::require(cublasStatus_t status, char const* call, call_site where) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string const reason = get_status_string(status);
  throw cuda_error(
      fmt::format("{} failed: {} (status {}), at {}:{}", call, reason, static_cast<int>(status), where.file,
                  where.line),
      {.call = call, .reason = reason, .code = static_cast<int>(status), .file = where.file, .line = where.line});
}

}  // namespace ferry::nn
