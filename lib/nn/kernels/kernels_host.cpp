// The kernels in serial mode, for the instruction set that this file is compiled for: FERRY_KERNELS is its name.
#include "nn/kernels/kernels.hpp"

#define FERRY_NAME_OF(word) #word
#define FERRY_NAME(word) FERRY_NAME_OF(word)

namespace ferry::nn::kernels::FERRY_KERNELS {

template <auto Kernel>
struct blocks_of;

template <typename... Arguments, void (*Kernel)(Arguments...)>
struct blocks_of<Kernel> {
  static void run(int first_block, int last_block, Arguments... arguments) {
    for (int i = first_block; i < last_block; ++i) {
      blockIdx.x = i;
      Kernel(arguments...);
    }
  }
};

extern kernel_table const table;
constinit kernel_table const table = table_of<block_runner, blocks_of>(FERRY_NAME(FERRY_KERNELS));

}  // namespace ferry::nn::kernels::FERRY_KERNELS
