// Colours of standard output: only on a terminal, and not where NO_COLOR is set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry::command {

enum class colour : std::uint8_t { strong, good, warning, bad, faint };

/// Asked once, when first called.
[[nodiscard]] bool colours_wanted();

/// The same text, in that colour where colours are wanted. Pad first: the codes have no width.
[[nodiscard]] std::string in(colour which, std::string_view text);

}  // namespace ferry::command
