// Functions of one value that kernels share. The same polynomials everywhere, so that a host compiler can turn
// loops over them into vector code, and so that no device's own approximation shows in the results.
#pragma once

#include <math.h>

#include "nn/kernels/kernel.hpp"

namespace ferry::nn::kernels::FERRY_KERNELS {

/// e^x to within 2 units in the last place, for x from -87 to 88; beyond these as at these. Of no number, none.
FERRY_KERNEL_FUNCTION float exponential(float x) {
  constexpr float log2_e = 1.44269504088896341F;
  constexpr float ln2_high = 0.693359375F;  // few bits, so that n times it is exact
  constexpr float ln2_low = -2.12194440e-4F;
  float const clamped = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  float const scaled = clamped == clamped ? clamped * log2_e : 0.0F;  // what is no number is no integer either
  int const n = static_cast<int>(scaled + (scaled < 0.0F ? -0.5F : 0.5F));
  float const whole = static_cast<float>(n);
  float const r = (clamped - whole * ln2_high) - whole * ln2_low;  // in [-ln(2)/2, ln(2)/2]
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  float const e_r = p * r * r + r + 1.0F;
  float const power = __builtin_bit_cast(float, (n + 127) << 23);
  return e_r * power;
}

/// tanh by way of e^x: its absolute error is what matters to GELU, and that stays below 2e-7.
FERRY_KERNEL_FUNCTION float hyperbolic_tangent(float x) { return 1.0F - 2.0F / (exponential(2.0F * x) + 1.0F); }

}  // namespace ferry::nn::kernels::FERRY_KERNELS
