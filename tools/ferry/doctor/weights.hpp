// The weights of a model by their shapes: what states are counted from. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "doctor/model.hpp"

namespace ferry::command {

enum class weight_place : std::uint8_t { embedding, block, head };

/// Alike weights.
struct weight_group {
  std::size_t rows = 0;
  std::size_t columns = 1;  ///< 1: vectors
  std::size_t count = 1;
  weight_place place = weight_place::block;
  bool linear = false;  ///< a linear layer of a block: adapters go beside it
  [[nodiscard]] bool matrices() const noexcept { return columns > 1; }
  [[nodiscard]] std::size_t numbers() const noexcept { return rows * columns * count; }
};

/// All of them. Requires: completed.
[[nodiscard]] std::vector<weight_group> weights_of(model const& of);
/// Without those of frozen blocks and, if there are any, of the embedding.
[[nodiscard]] std::vector<weight_group> unfrozen(model const& of);
/// Two matrices beside each linear layer of a block: into `rank` features and out of them.
[[nodiscard]] std::vector<weight_group> adapters_of(model const& of, int rank);

[[nodiscard]] std::size_t numbers_in(std::vector<weight_group> const& all) noexcept;

}  // namespace ferry::command
