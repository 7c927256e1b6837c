#include "cuda/serial_kernels.hpp"

#include "cudasim/cudasim.hpp"
#include "nn/kernels/kernel_table.hpp"
#include "nn/kernels/kernels.hpp"

namespace ferry::nn::testing {

namespace {

template <typename... Parameters>
using kernel_pointer = void (*)(Parameters...);

template <auto Kernel>
struct itself {
  static constexpr auto run = Kernel;
};

template <typename... Parameters>
void register_one(char const* name, void (*kernel)(Parameters...), kernels::block_runner<Parameters...> runner) {
  cudasim::register_serial(kernel, runner);
  cudasim::name_kernel(kernel, name);
}

constexpr int listed = 24;
static_assert(sizeof(kernels::kernel_table) == (listed + 1) * sizeof(void*), "a kernel is missing from the list below");

}  // namespace

void register_serial_kernels() {
  auto const on_gpu = kernels::gpu::table_of<kernel_pointer, itself>("emulated");
  auto const& here = kernels::kernels_of_this_cpu();
  register_one("layernorm_forward", on_gpu.layernorm_forward, here.layernorm_forward);
  register_one("layernorm_backward", on_gpu.layernorm_backward, here.layernorm_backward);
  register_one("gelu_forward", on_gpu.gelu_forward, here.gelu_forward);
  register_one("gelu_backward", on_gpu.gelu_backward, here.gelu_backward);
  register_one("add_bias", on_gpu.add_bias, here.add_bias);
  register_one("add_bias_and_residual", on_gpu.add_bias_and_residual, here.add_bias_and_residual);
  register_one("partial_column_sums", on_gpu.partial_column_sums, here.partial_column_sums);
  register_one("add_partials", on_gpu.add_partials, here.add_partials);
  register_one("set_to_zero", on_gpu.set_to_zero, here.set_to_zero);
  register_one("set_rows_to_zero", on_gpu.set_rows_to_zero, here.set_rows_to_zero);
  register_one("embedding_forward", on_gpu.embedding_forward, here.embedding_forward);
  register_one("token_embedding_backward", on_gpu.token_embedding_backward, here.token_embedding_backward);
  register_one("position_embedding_backward", on_gpu.position_embedding_backward, here.position_embedding_backward);
  register_one("causal_softmax_forward", on_gpu.causal_softmax_forward, here.causal_softmax_forward);
  register_one("causal_softmax_backward", on_gpu.causal_softmax_backward, here.causal_softmax_backward);
  register_one("tile_softmax_forward", on_gpu.tile_softmax_forward, here.tile_softmax_forward);
  register_one("tile_softmax_finish", on_gpu.tile_softmax_finish, here.tile_softmax_finish);
  register_one("row_dots", on_gpu.row_dots, here.row_dots);
  register_one("tile_softmax_backward", on_gpu.tile_softmax_backward, here.tile_softmax_backward);
  register_one("cross_entropy", on_gpu.cross_entropy, here.cross_entropy);
  register_one("add_losses", on_gpu.add_losses, here.add_losses);
  register_one("partial_squares", on_gpu.partial_squares, here.partial_squares);
  register_one("finish_norm", on_gpu.finish_norm, here.finish_norm);
  register_one("adamw", on_gpu.adamw, here.adamw);
}

namespace {

// When the program starts: it then says by the emulation's mode alone how kernels run.
[[maybe_unused]] bool const registered = (register_serial_kernels(), true);

}  // namespace

}  // namespace ferry::nn::testing
