// The parameters: one flat array, and what lies where in it. Gradients and the optimiser's moments have the same
// layout, so one set of pointers serves all of them. Names are those of Hugging Face's GPT-2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferry/export.h"
#include "ferry/nn/shape.hpp"

namespace ferry::nn {

/// One named tensor of the flat array.
struct parameter {
  std::string name;  ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::size_t> shape;
  std::size_t offset = 0;  ///< in floats
  std::size_t count = 0;
};

/// Where the parameters of a block are, or their gradients.
struct block_parameters {
  float* ln1_weight;   // (C)
  float* ln1_bias;     // (C)
  float* qkv_weight;   // (C, 3C)
  float* qkv_bias;     // (3C)
  float* proj_weight;  // (C, C)
  float* proj_bias;    // (C)
  float* ln2_weight;   // (C)
  float* ln2_bias;     // (C)
  float* fc_weight;    // (C, 4C)
  float* fc_bias;      // (4C)
  float* out_weight;   // (4C, C)
  float* out_bias;     // (C)
};

/// The same of what stands around the blocks.
struct outer_parameters {
  float* wte;         // (V, C)
  float* wpe;         // (T, C)
  float* lnf_weight;  // (C)
  float* lnf_bias;    // (C)
  float* head;        // (V, C); wte itself if they are tied
};

/// What lies where in the flat array of a shape.
class parameter_layout {
 public:
  FERRY_API explicit parameter_layout(gpt_shape const& shape);

  [[nodiscard]] std::span<parameter const> all() const noexcept { return all_; }
  /// Length of the flat array, with the gaps that keep tensors aligned.
  [[nodiscard]] std::size_t floats() const noexcept { return floats_; }
  /// Weight decay is for the first so many: matrices come before biases and LayerNorm.
  [[nodiscard]] std::size_t decayed_floats() const noexcept { return decayed_floats_; }
  /// Numbers that are trained, without the gaps.
  [[nodiscard]] FERRY_API std::size_t trained() const noexcept;

  [[nodiscard]] FERRY_API outer_parameters outer(float* base) const noexcept;
  [[nodiscard]] FERRY_API block_parameters block(float* base, std::uint32_t layer) const noexcept;

  /// GPT-2's initial values: the same for a seed on every machine. values: (floats()).
  FERRY_API void initialize(std::span<float> values, std::uint64_t seed) const;

 private:
  enum outer_tensor : std::size_t { wte, wpe, head, lnf_weight, lnf_bias, outer_tensors };
  static constexpr std::size_t block_tensors = 12;

  std::size_t add(std::string name, std::vector<std::size_t> shape);

  int layers_;
  std::vector<parameter> all_;
  std::size_t floats_ = 0;
  std::size_t decayed_floats_ = 0;
  std::array<std::size_t, outer_tensors> outer_{};                     // offsets
  std::vector<std::array<std::size_t, block_tensors>> block_offsets_;  // in the order of block_parameters
};

}  // namespace ferry::nn
