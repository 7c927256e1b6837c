#pragma once

#include <cstddef>

namespace ferry::testing {

inline constexpr std::size_t mib = std::size_t{1} << 20;

}  // namespace ferry::testing
