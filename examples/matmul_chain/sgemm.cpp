#include "sgemm.hpp"

#include <stdexcept>

#if defined(MATMUL_CHAIN_ONEDNN)

#include <dnnl.h>
#include <omp.h>

namespace matmul_chain {

void sgemm(std::size_t m, std::size_t n, std::size_t k, operand a, operand b, float* c, std::size_t c_stride) {
  // oneDNN would wake OpenMP's threads beside oneTBB's. The setting belongs to the calling thread, and which of
  // oneTBB's threads gets a tile is not known beforehand.
  omp_set_num_threads(1);
  auto const size = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  auto const status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', size(m), size(n), size(k), 1.0F,
                                 a.data, size(a.stride), b.data, size(b.stride), 0.0F, c, size(c_stride));
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused a matrix product");
}

}  // namespace matmul_chain

#else

#include <cblas.h>

// OpenBLAS only, hence weak: other libraries start no threads, or are told by their own variables.
extern "C" [[gnu::weak]] void openblas_set_num_threads(int threads);

namespace matmul_chain {

namespace {

bool use_one_thread() {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
  return true;
}

}  // namespace

void sgemm(std::size_t m, std::size_t n, std::size_t k, operand a, operand b, float* c, std::size_t c_stride) {
  [[maybe_unused]] static bool const once = use_one_thread();
  auto const size = [](std::size_t value) { return static_cast<int>(value); };
  auto const order = [](operand const& x) { return x.transposed ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, order(a), order(b), size(m), size(n), size(k), 1.0F, a.data, size(a.stride), b.data,
              size(b.stride), 0.0F, c, size(c_stride));
}

}  // namespace matmul_chain

#endif
