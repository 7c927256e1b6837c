// Profiles by formula: what a step of a well-known model looks like on a given GPU, for planning without running it. An
// operation takes as long as its FLOPs or its bytes need, whichever is longer, at the rates that the hardware sustains.
//
// Threads: values; any thread.
#pragma once

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
};

/// A segment per block, and one for the head and the loss. The first block's input is made from the tokens, by a recipe
/// that reads nothing. Throws: `invalid_argument` that names the member and the fix.
[[nodiscard]] profile gpt_profile(gpt_dimensions const& of, hardware const& on);

/// A residual network of bottleneck blocks, trained in half precision.
struct resnet_dimensions {
  int depth = 50;  ///< 50, 101 or 152
  int batch = 64;
  int image = 224;  ///< pixels of a side
};

/// A segment for the stem, one per bottleneck block, and one for the classifier. The images have no recipe.
/// Throws: `invalid_argument` that names the member and the fix.
[[nodiscard]] profile resnet_profile(resnet_dimensions const& of, hardware const& on);

}  // namespace ferry
