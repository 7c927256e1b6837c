// Keys of the C interface.
#pragma once

#include "capi/status.hpp"
#include "ferry/item.hpp"

namespace ferry::capi {

/// Throws: `refusal`; `invalid_argument` for a name that is too long.
[[nodiscard]] item_key read_key(ferry_key const* given, char const* argument);

}  // namespace ferry::capi
