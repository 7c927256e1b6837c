// The kernels of the chain. Each enqueues one operation on a compute stream and declares what it reads and
// writes, so that FERRY_CHECK_ORDER=on checks the demo's own stream order too.
//
// Work is cut into tiles of fixed size, which oneTBB's threads take in any order: a tile's bits depend on
// nothing but its inputs, so a kernel that runs again gives the same result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferry/device.hpp"

namespace matmul_chain {

/// Of one activation; weights are (width, width).
struct layer_shape {
  std::size_t rows = 0;
  std::size_t width = 0;

  [[nodiscard]] std::size_t activation_bytes() const noexcept { return rows * width * sizeof(float); }
  [[nodiscard]] std::size_t weight_bytes() const noexcept { return width * width * sizeof(float); }
};

/// values (count) = numbers between -scale and scale that only `seed` and the place decide.
void synthesize(ferry::stream_ref stream, float* values, std::size_t count, float scale, std::uint32_t seed);

/// y (rows, width) = relu(x (rows, width) w (width, width))
void forward(ferry::stream_ref stream, layer_shape shape, float const* x, float const* w, float* y);

/// *loss = mean of y (rows, width) squared; y = the loss's gradient by y.
void loss_and_gradient(ferry::stream_ref stream, layer_shape shape, float* y, double* loss);

/// dw (width, width) = x^T (width, rows) dy (rows, width)
void weight_gradient(ferry::stream_ref stream, layer_shape shape, float const* x, float const* dy, float* dw);

/// dx (rows, width) = dy (rows, width) w^T (width, width) where x > 0, and 0 elsewhere: x came out of a relu.
void input_gradient(ferry::stream_ref stream, layer_shape shape, float const* dy, float const* w, float const* x,
                    float* dx);

}  // namespace matmul_chain
