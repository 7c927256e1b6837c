// What a GPT is made of, in numbers.
//
// Letters: L layers, C features, V words, T tokens in a sequence, B sequences in a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ferry/export.h"

namespace ferry::nn {

enum class attention_form : std::uint8_t {
  whole,  ///< keeps the (T, T) probabilities of every head: large, cheap to rebuild
  tiled,  ///< keeps a number per row of them; backward rebuilds the rest tile by tile
};
[[nodiscard]] FERRY_API std::string_view to_string(attention_form form) noexcept;

/// The sizes of a GPT.
struct gpt_shape {
  int layers = 6;
  int width = 256;  ///< C
  int heads = 4;
  int context = 128;     ///< T
  int vocabulary = 256;  ///< V
  bool tied = true;      ///< the head's weight is the token embedding
  attention_form attention = attention_form::tiled;

  friend bool operator==(gpt_shape const&, gpt_shape const&) noexcept = default;
};

/// Throws: `invalid_argument` that names the flag of `ferry train` and the fix.
FERRY_API void require_valid(gpt_shape const& shape);

/// A shape that has a name.
struct preset {
  std::string_view name;
  gpt_shape shape;
  int batch;
};
[[nodiscard]] FERRY_API std::span<preset const> presets() noexcept;

}  // namespace ferry::nn
