#include "ferry/nn/shape.hpp"

#include <fmt/format.h>

#include <array>
#include <climits>

#include "ferry/error.hpp"

namespace ferry::nn {

std::string_view to_string(attention_form form) noexcept {
  return form == attention_form::whole ? "explicit" : "tiled";
}

void require_valid(gpt_shape const& shape) {
  struct limit {
    char const* flag;
    int value;
    int most;
  };
  // The products below must fit an int, which is what kernels count in.
  for (limit const& of : {limit{"--layers", shape.layers, 10'000}, limit{"--width", shape.width, 1 << 16},
                          limit{"--heads", shape.heads, 1 << 16}, limit{"--context", shape.context, 1 << 20},
                          limit{"--vocab", shape.vocabulary, 1 << 24}}) {
    if (of.value < 1 || of.value > of.most) {
      throw invalid_argument(fmt::format("{}={}: give a number from 1 to {}", of.flag, of.value, of.most));
    }
  }
  if (shape.width % shape.heads != 0) {
    int fewer = shape.heads;
    while (shape.width % fewer != 0) --fewer;
    throw invalid_argument(fmt::format("--heads={} does not divide --width={}: give for instance --heads={}",
                                       shape.heads, shape.width, fewer));
  }
}

std::span<preset const> presets() noexcept {
  static constexpr std::array all{
      preset{"tiny", {.layers = 2, .width = 64, .heads = 2, .context = 64, .vocabulary = 256}, 8},
      preset{"small", {.layers = 8, .width = 256, .heads = 4, .context = 128, .vocabulary = 256}, 8},
      preset{"deep", {.layers = 16, .width = 128, .heads = 4, .context = 128, .vocabulary = 256}, 4},
      preset{"medium", {.layers = 12, .width = 512, .heads = 8, .context = 256, .vocabulary = 256}, 4},
      preset{"gpt2", {.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257}, 1},
  };
  return all;
}

}  // namespace ferry::nn
