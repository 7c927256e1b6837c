// The host's kernels, compiled for one instruction set: functions that run a range of blocks one after the other.
// Different ranges may run at the same time; how a launch is cut into ranges shows in no result.
#pragma once

#include "nn/kernels/adamw_step.hpp"

namespace ferry::nn::kernels {

template <typename... Arguments>
using block_runner = void (*)(int first_block, int last_block, Arguments...);

struct kernel_table {
  char const* instruction_set;

  // The kernels' parameters are explained where they are: each in the header that is named here.
  // layernorm.hpp
  block_runner<float*, float const*, float const*, float const*, int> layernorm_forward;
  block_runner<float*, float*, float const*, float const*, float const*, int, int, int, int> layernorm_backward;
  // gelu.hpp
  block_runner<float*, float const*, int> gelu_forward;
  block_runner<float*, float*, float const*, int, int, int> gelu_backward;
  // bias.hpp
  block_runner<float*, long, float const*, int> add_bias;
  block_runner<float*, long, float const*, float const*, int> add_bias_and_residual;
  block_runner<float*, float const*, int, int, int> partial_column_sums;
  block_runner<float*, float const*, int, long, int, int, int> add_partials;
  block_runner<float*, long, int> set_to_zero;
  // embedding.hpp
  block_runner<float*, int const*, float const*, float const*, int, int, int> embedding_forward;
  block_runner<float*, float const*, int const*, int, int, int> token_embedding_backward;
  block_runner<float*, float const*, int, int, int, int> position_embedding_backward;
  // softmax.hpp
  block_runner<float*, int, float> causal_softmax_forward;
  block_runner<float*, float const*, int, float> causal_softmax_backward;
  block_runner<float*, float*, float*, float*, long, int, int, int, float, int> tile_softmax_forward;
  block_runner<float*, long, float*, float const*, float const*, int> tile_softmax_finish;
  block_runner<float*, float const*, float const*, long, int> row_dots;
  block_runner<float*, float*, float const*, float const*, int, int, float> tile_softmax_backward;
  // cross_entropy.hpp
  block_runner<float*, float*, int const*, int, float> cross_entropy;
  block_runner<double*, float const*, int, double> add_losses;
  // adamw.hpp
  block_runner<double*, float const*, long, int> partial_squares;
  block_runner<float*, double const*, int, float> finish_norm;
  block_runner<float*, float const*, float*, float*, float const*, long, int, adamw_step> adamw;
};

/// The table for the best instruction set that this CPU has.
[[nodiscard]] kernel_table const& kernels_of_this_cpu() noexcept;

}  // namespace ferry::nn::kernels
