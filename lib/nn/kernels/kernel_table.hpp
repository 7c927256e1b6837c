// Tables of the kernels: one function for each, by which a launch runs it.
//
// The host has a table for each instruction set, of functions that run a range of blocks one after the other. Different
// ranges may run at the same time; how a launch is cut into ranges shows in no result. A GPU has a table of functions
// that enqueue the kernel on a stream.
#pragma once

#include "ferry/nn/adamw_step.hpp"

struct CUstream_st;  // what a cudaStream_t points to

namespace ferry::nn::kernels {

template <typename... Arguments>
using block_runner = void (*)(int first_block, int last_block, Arguments...);

/// No blocks, no launch. Throws: `cuda_error` if CUDA refuses it. Requires: the stream's GPU is current, `threads` is a
/// multiple of 32.
template <typename... Arguments>
using block_launcher = void (*)(CUstream_st* stream, int blocks, int threads, Arguments...);

template <template <typename...> typename Function>
struct kernel_functions {
  char const* instruction_set;

  // The kernels' parameters are explained where they are: each in the header that is named here.
  // layernorm.hpp
  Function<float*, float const*, float const*, float const*, int> layernorm_forward;
  Function<float*, float*, float const*, float const*, float const*, int, int, int, int> layernorm_backward;
  // gelu.hpp
  Function<float*, float const*, int> gelu_forward;
  Function<float*, float*, float const*, int, int, int> gelu_backward;
  // bias.hpp
  Function<float*, long, float const*, int> add_bias;
  Function<float*, long, float const*, float const*, int> add_bias_and_residual;
  Function<float*, float const*, int, int, int> partial_column_sums;
  Function<float*, float const*, int, long, int, int, int> add_partials;
  Function<float*, long, int> set_to_zero;
  Function<float*, long, int> set_rows_to_zero;
  // embedding.hpp
  Function<float*, int const*, float const*, float const*, int, int, int> embedding_forward;
  Function<float*, float const*, int const*, int, int, int> token_embedding_backward;
  Function<float*, float const*, int, int, int, int> position_embedding_backward;
  // softmax.hpp
  Function<float*, int, float> causal_softmax_forward;
  Function<float*, float const*, int, float> causal_softmax_backward;
  Function<float*, float*, float*, float*, long, int, int, int, int, float, int> tile_softmax_forward;
  Function<float*, long, float*, long, float const*, float const*, int, int> tile_softmax_finish;
  Function<float*, float const*, float const*, long, int, int> row_dots;
  Function<float*, float*, float const*, long, float const*, int, int, int, float> tile_softmax_backward;
  // cross_entropy.hpp
  Function<float*, float*, int const*, int, float> cross_entropy;
  Function<double*, float const*, int, double> add_losses;
  // adamw.hpp
  Function<double*, float const*, long, int> partial_squares;
  Function<float*, double const*, int, float> finish_norm;
  Function<float*, float const*, float*, float*, float const*, long, int, adamw_step> adamw;
};

using kernel_table = kernel_functions<block_runner>;
using cuda_kernel_table = kernel_functions<block_launcher>;

/// The table for the best instruction set that this CPU has.
[[nodiscard]] kernel_table const& kernels_of_this_cpu() noexcept;
/// The table for GPUs; in builds that have CUDA.
[[nodiscard]] cuda_kernel_table const& cuda_kernels() noexcept;

}  // namespace ferry::nn::kernels
