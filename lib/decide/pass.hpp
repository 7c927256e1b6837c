// Which way through the segments.
#pragma once

#include <cstdint>

namespace ferry::decide {

enum class pass : std::uint8_t { forward, backward };

}  // namespace ferry::decide
