// Which kernels this CPU gets.
#include "nn/kernels/kernel_table.hpp"

namespace ferry::nn::kernels {

namespace baseline {
extern kernel_table const table;
}
#if defined(FERRY_KERNELS_X86)
namespace avx2 {
extern kernel_table const table;
}
namespace avx512 {
extern kernel_table const table;
}
#endif

kernel_table const& kernels_of_this_cpu() noexcept {
#if defined(FERRY_KERNELS_X86)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw")) {
    return avx512::table;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::table;
#endif
  return baseline::table;
}

}  // namespace ferry::nn::kernels
