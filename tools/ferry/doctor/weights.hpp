// The weights of a model by their shapes: what states are counted from. Values; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "doctor/model.hpp"

namespace ferry::command {

/// Alike weights.
struct weight_group {
  std::size_t rows = 0;
  std::size_t columns = 1;  ///< 1: vectors
  std::size_t count = 1;
  bool block = false;  ///< inside a block; else embedding, head or last norm
  [[nodiscard]] bool matrices() const noexcept { return columns > 1; }
  [[nodiscard]] std::size_t numbers() const noexcept { return rows * columns * count; }
};

/// All of them. Requires: completed.
[[nodiscard]] std::vector<weight_group> weights_of(model const& of);

}  // namespace ferry::command
