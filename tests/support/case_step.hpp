// A stored planner case as something to train: a profile with two items per stage, and the hardware that it names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferry/plan.hpp"
#include "plan/chain.hpp"

namespace ferry::testing {

/// Each stage's S without its output is one item, and its input another.
inline profile step_of(planning::chain const& c) {
  profile step;
  step.name = c.name;
  step.segments.resize(c.stages());
  auto const whole = [](double bytes) { return static_cast<std::size_t>(bytes); };
  for (std::uint32_t i = 0; i < c.stages(); ++i) {
    auto& segment = step.segments[i];
    segment.forward_us = c.forward_s[i] * 1e6;
    segment.backward_us = c.backward_s[i] * 1e6;
    segment.forward_scratch_bytes = whole(c.forward_scratch_bytes[i]);
    segment.backward_scratch_bytes = whole(c.backward_scratch_bytes[i] + c.boundary_bytes[i] + c.boundary_bytes[i + 1]);
    profile_item input{"x", whole(c.boundary_bytes[i]), std::nullopt, {}, 0};
    if (i > 0) {
      input.recipe_us = 0;
      input.inputs = {{i - 1, "s"}};
    }
    segment.items.push_back(input);
    double const output = i + 1 < c.stages() ? c.boundary_bytes[i + 1] : 0;
    segment.items.push_back(
        {"s", whole(std::max(1.0, c.saved_bytes[i] - output)), c.forward_s[i] * 1e6, {{i, "x"}}, 0});
  }
  for (auto i = static_cast<std::uint32_t>(c.stages()); i-- > 0;) {
    step.need_order.push_back({i, "s"});
    step.need_order.push_back({i, "x"});
  }
  return step;
}

/// The case's link and pinned memory. The device is large: its budget is given apart.
inline hardware hardware_of(planning::chain const& c) {
  hardware on;
  on.name = "case";
  // More than any case needs, and addresses for it are there under ThreadSanitizer too.
  constexpr std::size_t plenty = std::size_t{1} << 37;
  on.device_bytes = plenty;
  on.host_bytes = c.host_bytes < static_cast<double>(plenty) ? static_cast<std::size_t>(c.host_bytes) : plenty;
  on.device_to_host.gbps = std::min(c.d2h_bytes_per_s * 1e-9, 1e6);
  on.host_to_device.gbps = std::min(c.h2d_bytes_per_s * 1e-9, 1e6);
  return on;
}

/// The case's budget. Where memory is handed out in units, a case at its very floor needs a little more.
inline std::size_t budget_of(planning::chain const& c) {
  return static_cast<std::size_t>(c.device_bytes) + (std::size_t{1} << 20);
}

/// What all items of a step take together.
inline std::size_t bytes_of(profile const& step, double share = 1) {
  std::size_t all = 0;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) all += item.bytes;
  }
  return static_cast<std::size_t>(share * static_cast<double>(all));
}

}  // namespace ferry::testing
