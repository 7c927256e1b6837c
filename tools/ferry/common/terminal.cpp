#include "common/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

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

std::size_t terminal_columns() {
  std::string_view const said = [] {
    char const* const text = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): nothing here changes it
    return std::string_view(text == nullptr ? "" : text);
  }();
  std::size_t columns = 0;
  auto const [end, status] = std::from_chars(said.data(), said.data() + said.size(), columns);
  if (status == std::errc{} && end == said.data() + said.size() && columns > 0) return columns;
  winsize size{};
  bool const is_known = isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : std::numeric_limits<std::size_t>::max();
}

}  // namespace ferry::command
