#include "common/printable.hpp"

#include <cstddef>

namespace ferry::command {

namespace {

/// Bytes of the character that `text` begins with; 0 if it is none, or one that controls the terminal.
std::size_t character_bytes(std::string_view text) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const first = byte(0);
  if (first < 0x80) return (first >= ' ' && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  std::size_t const length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  // Between the second byte's limits lie what is too long for its value, surrogates and what is beyond Unicode; and
  // the second block of control characters.
  unsigned const second = byte(1);
  bool const excluded = (first == 0xc2 && second < 0xa0) || (first == 0xe0 && second < 0xa0) ||
                        (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
                        (first == 0xf4 && second >= 0x90);
  return excluded ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    std::size_t const bytes = character_bytes(text);
    shown += bytes == 0 ? "?" : text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

}  // namespace ferry::command
