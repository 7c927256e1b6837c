#include "ferry/nn/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "nn/random.hpp"

namespace ferry::nn {

namespace {

constexpr std::size_t alignment = 64;  // floats: a whole number of cache lines and of vectors

struct tensor_of_block {
  char const* name;
  std::size_t rows, columns;  ///< in units of C; rows 0 for a vector
};

/// In the order of block_parameters.
constexpr tensor_of_block tensors_of_block[]{
    {"ln_1.weight", 0, 1},        {"ln_1.bias", 0, 1},        {"attn.c_attn.weight", 1, 3}, {"attn.c_attn.bias", 0, 3},
    {"attn.c_proj.weight", 1, 1}, {"attn.c_proj.bias", 0, 1}, {"ln_2.weight", 0, 1},        {"ln_2.bias", 0, 1},
    {"mlp.c_fc.weight", 1, 4},    {"mlp.c_fc.bias", 0, 4},    {"mlp.c_proj.weight", 4, 1},  {"mlp.c_proj.bias", 0, 1},
};

float random_normal(std::uint64_t seed, std::uint64_t index) {
  constexpr double unit = 1.0 / 4294967296.0;
  std::uint64_t const bits = random_bits(seed, index);
  double const radius = std::sqrt(-2.0 * std::log((static_cast<double>(bits >> 32) + 1.0) * unit));
  double const angle = 2.0 * std::numbers::pi * static_cast<double>(bits & 0xFFFFFFFFU) * unit;
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace

parameter_layout::parameter_layout(gpt_shape const& shape) : layers_(shape.layers) {
  std::size_t const C = shape.width;
  std::size_t const V = shape.vocabulary;
  std::size_t const T = shape.context;
  block_offsets_.resize(shape.layers);
  auto const add_blocks = [&](bool matrices) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (std::size_t i = 0; i < block_tensors; ++i) {
        auto const& [name, rows, columns] = tensors_of_block[i];
        if ((rows > 0) != matrices) continue;
        std::vector<std::size_t> dimensions{columns * C};
        if (matrices) dimensions.insert(dimensions.begin(), rows * C);
        block_offsets_[layer][i] = add(fmt::format("transformer.h.{}.{}", layer, name), std::move(dimensions));
      }
    }
  };
  outer_[wte] = add("transformer.wte.weight", {V, C});
  outer_[wpe] = add("transformer.wpe.weight", {T, C});
  outer_[head] = shape.tied ? outer_[wte] : add("lm_head.weight", {V, C});
  add_blocks(true);
  decayed_floats_ = floats_;
  add_blocks(false);
  outer_[lnf_weight] = add("transformer.ln_f.weight", {C});
  outer_[lnf_bias] = add("transformer.ln_f.bias", {C});
}

std::size_t parameter_layout::add(std::string name, std::vector<std::size_t> shape) {
  std::size_t const count = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>{});
  std::size_t const offset = floats_;
  all_.push_back({std::move(name), std::move(shape), offset, count});
  floats_ += (count + alignment - 1) / alignment * alignment;
  return offset;
}

std::size_t parameter_layout::trained() const noexcept {
  std::size_t sum = 0;
  for (auto const& one : all_) sum += one.count;
  return sum;
}

outer_parameters parameter_layout::outer(float* base) const noexcept {
  return {base + outer_[wte], base + outer_[wpe], base + outer_[lnf_weight], base + outer_[lnf_bias],
          base + outer_[head]};
}

block_parameters parameter_layout::block(float* base, std::uint32_t layer) const noexcept {
  auto const& at = block_offsets_[layer];
  return {base + at[0], base + at[1], base + at[2], base + at[3], base + at[4],  base + at[5],
          base + at[6], base + at[7], base + at[8], base + at[9], base + at[10], base + at[11]};
}

void parameter_layout::initialize(std::span<float> values, std::uint64_t seed) const {
  constexpr float spread = 0.02F;
  float const residual_spread = spread / std::sqrt(2.0F * static_cast<float>(layers_));
  std::ranges::fill(values, 0.0F);
  for (auto const& one : all_) {
    auto const here = values.subspan(one.offset, one.count);
    if (one.shape.size() == 1) {
      // Biases stay zero.
      if (one.name.ends_with("weight")) std::ranges::fill(here, 1.0F);
      continue;
    }
    // What is added to the residual stream 2L times starts smaller, so that its sum starts at the same size.
    float const scale = one.name.ends_with("c_proj.weight") ? residual_spread : spread;
    for (std::size_t i = 0; i < one.count; ++i) here[i] = scale * random_normal(seed, one.offset + i);
  }
}

}  // namespace ferry::nn
