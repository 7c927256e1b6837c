// The states of cuBLAS by name and in words. The texts are the emulation's own.
#include <cublas_v2.h>

namespace {

struct status_entry {
  cublasStatus_t code;
  char const* name;
  char const* text;
};

constexpr status_entry statuses[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "the operation succeeded"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialised"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "out of memory"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "invalid argument"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks what the operation needs"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "memory could not be mapped"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the work failed on the device"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the operation is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "a licence is missing"},
};

}  // namespace

extern "C" {

char const* cublasGetStatusName(cublasStatus_t status) {
  for (auto const& each : statuses) {
    if (each.code == status) return each.name;
  }
  return "unrecognized status";
}

char const* cublasGetStatusString(cublasStatus_t status) {
  for (auto const& each : statuses) {
    if (each.code == status) return each.text;
  }
  return "unrecognized status";
}

}  // extern "C"
