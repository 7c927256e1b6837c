// From a stream or event lent by value to a device's own object, with the checks that every device makes.
#pragma once

#include <fmt/format.h>

#include "ferry/device.hpp"
#include "ferry/error.hpp"

namespace ferry {

/// Throws: `invalid_argument` for none, or one of another device. `what`: "stream" or "event".
template <typename Native, typename Ref>
[[nodiscard]] Native& native_of(device const& owner, Ref lent, char const* what) {
  if (!lent) throw invalid_argument(fmt::format("no {} given; pass one that this device created", what));
  if (lent.owner() != &owner) {
    throw invalid_argument(fmt::format("the {} belongs to another device; use one of this device", what));
  }
  return *static_cast<Native*>(lent.native());
}

}  // namespace ferry
