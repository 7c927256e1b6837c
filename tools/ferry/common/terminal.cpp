#include "common/terminal.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace ferry::command {

bool colours_wanted() {
  static bool const wanted = [] {
    char const* const refused = std::getenv("NO_COLOR");
    char const* const kind = std::getenv("TERM");
    bool const dumb = kind == nullptr || std::string_view(kind) == "dumb";
    return isatty(STDOUT_FILENO) == 1 && !dumb && (refused == nullptr || *refused == '\0');
  }();
  return wanted;
}

std::string in(colour which, std::string_view text) {
  constexpr std::array<std::string_view, 5> codes{"\033[1m", "\033[32m", "\033[33m", "\033[31m", "\033[2m"};
  if (!colours_wanted()) return std::string(text);
  return std::string(codes[static_cast<std::size_t>(which)]) + std::string(text) + "\033[0m";
}

}  // namespace ferry::command
