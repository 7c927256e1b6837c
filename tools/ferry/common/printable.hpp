// Text from outside, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ferry::command {

/// The same, with a '?' for every control character and every byte that is not part of UTF-8; line ends and tabs stay.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace ferry::command
