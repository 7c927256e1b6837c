#include "tape/tape_net.hpp"

#include <fmt/format.h>

#include <optional>

#include "ferry/config.hpp"

namespace ferry::command {

profile profile_of(plain_net const& net) {
  profile step;
  step.name = fmt::format("{} layers, each with its input x of {} and its inside h of {}", net.layers,
                          format_bytes(net.x_bytes), format_bytes(net.h_bytes));
  double const operation_us = net.forward_us / 2;
  for (std::uint32_t i = 0; i < net.layers; ++i) {
    profile_segment layer;
    layer.forward_us = i + 1 < net.layers ? net.forward_us : operation_us;
    layer.backward_us = net.backward_us;
    profile_item x{"x", net.x_bytes, std::nullopt, {}, 0};
    if (i > 0) {
      x.recipe_us = operation_us;
      x.inputs = {{i - 1, "h"}};
    }
    layer.items = {x, {"h", net.h_bytes, operation_us, {{i, "x"}}, 0}};
    step.segments.push_back(layer);
  }
  for (std::uint32_t i = net.layers; i-- > 0;) {
    step.need_order.push_back({i, "h"});
    step.need_order.push_back({i, "x"});
  }
  return step;
}

hardware hardware_of(plain_net const& net) {
  hardware on;
  on.name = "a plain device";
  std::size_t const layer_bytes = net.x_bytes + net.h_bytes;
  constexpr std::size_t for_rounding = 1024;  // of an item's bytes to what is allocated, at the most
  on.device_bytes = 2 * net.layers * (layer_bytes + for_rounding);
  on.host_bytes = on.device_bytes;
  constexpr double bytes_per_us_of_one_gbps = 1000;
  double const gbps = static_cast<double>(layer_bytes) / (net.link_ratio * net.forward_us) / bytes_per_us_of_one_gbps;
  on.device_to_host = on.host_to_device = {gbps, 0};
  return on;
}

}  // namespace ferry::command
