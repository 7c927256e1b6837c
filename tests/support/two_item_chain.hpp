// A chain small enough for pencil and paper: each segment has an input x, made from the h of the segment before, and an
// inner h, made from x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferry/plan.hpp"
#include "support/mib.hpp"

namespace ferry::testing {

inline profile two_item_chain(std::uint32_t segments, std::size_t x_bytes = 4 * mib, std::size_t h_bytes = 16 * mib) {
  profile step;
  step.name = "a chain";
  for (std::uint32_t i = 0; i < segments; ++i) {
    std::vector<item_name> from;
    if (i > 0) from.push_back({i - 1, "h"});
    profile_segment segment{.forward_us = 1000, .backward_us = 2000, .items = {}};
    segment.items.push_back({.name = "x", .bytes = x_bytes, .recipe_us = 400, .inputs = from});
    segment.items.push_back({.name = "h", .bytes = h_bytes, .recipe_us = 600, .inputs = {{i, "x"}}});
    step.segments.push_back(segment);
  }
  for (std::uint32_t i = segments; i-- > 0;) {
    step.need_order.push_back({i, "h"});
    step.need_order.push_back({i, "x"});
  }
  step.check();
  return step;
}

inline hardware gpu_with_link(double gbps) {
  return {.name = "a GPU",
          .device_bytes = std::size_t{1} << 30,
          .host_bytes = std::size_t{4} << 30,
          .device_to_host = {gbps, 0},
          .host_to_device = {gbps, 0}};
}

}  // namespace ferry::testing
