// The kernels in serial mode, for the instruction set that this file is compiled for: FERRY_KERNELS is its name.
#include "nn/kernels/kernel_table.hpp"
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
kernel_table const table{
    .instruction_set = FERRY_NAME(FERRY_KERNELS),
    .layernorm_forward = blocks_of<layernorm_forward>::run,
    .layernorm_backward = blocks_of<layernorm_backward>::run,
    .gelu_forward = blocks_of<gelu_forward>::run,
    .gelu_backward = blocks_of<gelu_backward>::run,
    .add_bias = blocks_of<add_bias>::run,
    .add_bias_and_residual = blocks_of<add_bias_and_residual>::run,
    .partial_column_sums = blocks_of<partial_column_sums>::run,
    .add_partials = blocks_of<add_partials>::run,
    .set_to_zero = blocks_of<set_to_zero>::run,
    .embedding_forward = blocks_of<embedding_forward>::run,
    .token_embedding_backward = blocks_of<token_embedding_backward>::run,
    .position_embedding_backward = blocks_of<position_embedding_backward>::run,
    .causal_softmax_forward = blocks_of<causal_softmax_forward>::run,
    .causal_softmax_backward = blocks_of<causal_softmax_backward>::run,
    .tile_softmax_forward = blocks_of<tile_softmax_forward>::run,
    .tile_softmax_finish = blocks_of<tile_softmax_finish>::run,
    .row_dots = blocks_of<row_dots>::run,
    .tile_softmax_backward = blocks_of<tile_softmax_backward>::run,
    .cross_entropy = blocks_of<cross_entropy>::run,
    .add_losses = blocks_of<add_losses>::run,
    .partial_squares = blocks_of<partial_squares>::run,
    .finish_norm = blocks_of<finish_norm>::run,
    .adamw = blocks_of<adamw>::run,
};

}  // namespace ferry::nn::kernels::FERRY_KERNELS
