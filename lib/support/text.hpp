// Text from outside in messages: it must neither break the line nor talk to the terminal. Threads: any thread.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ferry::support {

/// At most `longest` bytes of it, and "..." for the rest; control characters are replaced.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t longest);

/// 'text', on one line and cut if it is long.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace ferry::support
