// Standard output's colours, only on a terminal and not where NO_COLOR is set, and its width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferry::command {

enum class colour : std::uint8_t { strong, good, warning, bad, faint };

/// Asked once, when first called.
[[nodiscard]] bool colours_wanted();

/// The same text, in that colour where colours are wanted. Pad first: the codes have no width.
[[nodiscard]] std::string in(colour which, std::string_view text);

/// What COLUMNS says, else what the terminal is wide; the largest of all numbers where there is no terminal.
[[nodiscard]] std::size_t terminal_columns();

}  // namespace ferry::command
