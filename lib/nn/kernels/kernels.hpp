// All kernels, and the one list of them. Compiled by nvcc (kernels.cu) and, once per instruction set, by the host
// compiler (kernels_host.cpp).
#pragma once

#include "nn/kernels/adamw.hpp"
#include "nn/kernels/bias.hpp"
#include "nn/kernels/cross_entropy.hpp"
#include "nn/kernels/embedding.hpp"
#include "nn/kernels/gelu.hpp"
#include "nn/kernels/kernel_table.hpp"
#include "nn/kernels/layernorm.hpp"
#include "nn/kernels/softmax.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// The table whose functions are `Form<kernel>::run`.
template <template <typename...> typename Function, template <auto Kernel> typename Form>
constexpr kernel_functions<Function> table_of(char const* instruction_set) {
  return {
      .instruction_set = instruction_set,
      .layernorm_forward = Form<layernorm_forward>::run,
      .layernorm_backward = Form<layernorm_backward>::run,
      .gelu_forward = Form<gelu_forward>::run,
      .gelu_backward = Form<gelu_backward>::run,
      .add_bias = Form<add_bias>::run,
      .add_bias_and_residual = Form<add_bias_and_residual>::run,
      .partial_column_sums = Form<partial_column_sums>::run,
      .add_partials = Form<add_partials>::run,
      .set_to_zero = Form<set_to_zero>::run,
      .set_rows_to_zero = Form<set_rows_to_zero>::run,
      .embedding_forward = Form<embedding_forward>::run,
      .token_embedding_backward = Form<token_embedding_backward>::run,
      .position_embedding_backward = Form<position_embedding_backward>::run,
      .causal_softmax_forward = Form<causal_softmax_forward>::run,
      .causal_softmax_backward = Form<causal_softmax_backward>::run,
      .tile_softmax_forward = Form<tile_softmax_forward>::run,
      .tile_softmax_finish = Form<tile_softmax_finish>::run,
      .row_dots = Form<row_dots>::run,
      .tile_softmax_backward = Form<tile_softmax_backward>::run,
      .cross_entropy = Form<cross_entropy>::run,
      .add_losses = Form<add_losses>::run,
      .partial_squares = Form<partial_squares>::run,
      .finish_norm = Form<finish_norm>::run,
      .adamw = Form<adamw>::run,
  };
}

}  // namespace ferry::nn::kernels::FERRY_KERNELS
