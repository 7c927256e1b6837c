// What all kinds of operations have in common.
#include "ferry/nn/ops.hpp"

#include "ferry/cuda_device.hpp"
#include "ferry/nn/ops_cuda.hpp"
#include "nn/attention_tiles.hpp"
#include "nn/kernel_ops.hpp"

namespace ferry::nn {

ops::~ops() = default;

std::size_t ops::workspace_floats(int rows, int columns) noexcept {
  return static_cast<std::size_t>(blocks_for(rows, rows_per_block)) * 2 * columns;
}

std::size_t ops::attention_workspace_floats(attention_shape const& shape) noexcept {
  return tile_scratch::floats(shape.heads, shape.T);
}

std::size_t ops::norm_workspace_doubles(std::size_t count) noexcept {
  return static_cast<std::size_t>(blocks_for(static_cast<long>(count), values_per_block));
}

std::unique_ptr<ops> make_ops(device& on) {
  if (auto* const gpu = dynamic_cast<cuda_device*>(&on)) return make_cuda_ops(*gpu);
  return make_host_ops(on);
}

}  // namespace ferry::nn
