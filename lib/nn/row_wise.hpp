// Operations whose rows depend on nothing but the same rows of their inputs, as recipes: they make whatever rows the
// context asks for, by the kernels that make them all, and so to the same bits.
//
// Matrix products and attention are not among them: how they are cut, and so their bits, may depend on the shape.
#pragma once

#include <cstdint>

#include "ferry/item.hpp"
#include "ferry/nn/ops.hpp"

namespace ferry::nn {

[[nodiscard]] inline row_range rows_of(recipe_context const& c) noexcept {
  return {static_cast<int>(c.first_row), static_cast<int>(c.rows)};
}

/// output, input 0 (rows, C); weight, bias (C)
inline void layernorm_rows(ops& with, recipe_context const& c, float const* weight, float const* bias, int C) {
  auto const rows = rows_of(c);
  with.layernorm_forward(c.stream, c.output_as<float>() + rows.offset(C), c.input_as<float>(0) + rows.offset(C), weight,
                         bias, rows.count, C);
}

/// output, input 0 (rows, columns)
inline void gelu_rows(ops& with, recipe_context const& c, int columns) {
  auto const rows = rows_of(c);
  with.gelu_forward(c.stream, c.output_as<float>() + rows.offset(columns), c.input_as<float>(0) + rows.offset(columns),
                    rows.count, columns);
}

/// output (B, T, C); tokens (B, T); wte (V, C); wpe (T, C)
inline void embedding_rows(ops& with, recipe_context const& c, std::int32_t const* tokens, float const* wte,
                           float const* wpe, int T, int C, int V) {
  with.embedding_forward(c.stream, c.output_as<float>(), tokens, wte, wpe, rows_of(c), T, C, V);
}

}  // namespace ferry::nn
