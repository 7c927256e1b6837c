// Profiles by formula: what a step of a well-known model looks like on a given GPU, for planning without running it. An
// operation takes as long as its FLOPs or its bytes need, whichever is longer, at the rates that the hardware sustains.
//
// Threads: values; any thread.
#pragma once

#include "ferry/export.h"
#include "ferry/plan.hpp"

namespace ferry {

/// A GPT-2-like transformer. Its items are those of the transformer core: x, ln1, qkv, att, heads, mid, ln2, fc, act.
struct gpt_dimensions {
  int layers = 12;
  int width = 768;
  int heads = 12;
  int context = 1024;  ///< tokens of a sequence
  int batch = 8;       ///< sequences
  int vocabulary = 50257;
  int element_bytes = 2;  ///< of an activation
  /// Attention in tiles, whose backward rebuilds the probabilities itself; without it they are an item, `att`.
  bool flash_attention = true;
  int hidden = 0;  ///< features of the hidden layer; 0: four times the width
};

/// A Llama-like transformer: RMSNorm, rotated positions, groups of queries that share keys and values, a gated hidden
/// layer, no biases. Its items: x, ln1, qkv, att, heads, mid, ln2, gate, up, act; with `qk_norm` qk after qkv.
struct llama_dimensions {
  int layers = 32;
  int width = 4096;
  int heads = 32;
  int kv_heads = 8;    ///< of keys and of values; divides `heads`
  int head_width = 0;  ///< 0: width / heads
  int hidden = 14336;
  int context = 4096;  ///< tokens of a sequence
  int batch = 1;       ///< sequences
  int vocabulary = 128256;
  int element_bytes = 2;  ///< of an activation
  bool flash_attention = true;
  int window = 0;        ///< a query sees so many tokens back; 0: all
  bool qk_norm = false;  ///< queries and keys are normalised before the attention
  bool qkv_bias = false;
};

/// Trained numbers; `tied`: the head's weight is the token embedding. Throws: as the profile does.
[[nodiscard]] FERRY_API std::size_t parameter_count(gpt_dimensions const& of, bool tied);
[[nodiscard]] FERRY_API std::size_t parameter_count(llama_dimensions const& of, bool tied);

/// As `gpt_profile`. Throws: `invalid_argument` that names the member and the fix.
[[nodiscard]] FERRY_API profile llama_profile(llama_dimensions const& of, hardware const& on);

/// A segment per block, and one for the head and the loss. The first block's input is made from the tokens, by a recipe
/// that reads nothing. Throws: `invalid_argument` that names the member and the fix.
[[nodiscard]] FERRY_API profile gpt_profile(gpt_dimensions const& of, hardware const& on);

/// A residual network of bottleneck blocks, trained in half precision.
struct resnet_dimensions {
  int depth = 50;  ///< 50, 101 or 152
  int batch = 64;
  int image = 224;  ///< pixels of a side
};

/// A segment for the stem, one per bottleneck block, and one for the classifier. The images have no recipe.
/// Throws: `invalid_argument` that names the member and the fix.
[[nodiscard]] FERRY_API profile resnet_profile(resnet_dimensions const& of, hardware const& on);

}  // namespace ferry
