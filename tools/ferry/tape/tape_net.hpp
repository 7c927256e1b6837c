// The net that a tape is drawn of: a plain chain of layers, small enough for pencil and paper.
//
// Layer i saves its input x and an inside h that is made from x; the next layer's x is made from h. The first x is
// given and cannot be rebuilt; what the last layer makes goes into the loss at once and is not saved. So L layers are 2
// L - 1 operations, each of which takes half of a layer's forward.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferry/plan.hpp"

namespace ferry::command {

struct plain_net {
  std::uint32_t layers = 4;
  std::size_t x_bytes = std::size_t{1} << 20;
  std::size_t h_bytes = std::size_t{2} << 20;
  double forward_us = 2000;   ///< of a layer
  double backward_us = 4000;  ///< of a layer
  double link_ratio = 0.6;    ///< how long the link takes for a layer's items, in its forwards
};

[[nodiscard]] profile profile_of(plain_net const& net);
/// A device that holds them all twice, with a link as the net asks for.
[[nodiscard]] hardware hardware_of(plain_net const& net);

}  // namespace ferry::command
