#include "support/text.hpp"

#include <algorithm>

namespace ferry::support {

std::string one_line(std::string_view text, std::size_t longest) {
  std::string result(text.substr(0, longest));
  auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(result.begin(), result.end(), is_control, '?');
  if (text.size() > longest) result += "...";
  return result;
}

std::string quoted(std::string_view text) { return '\'' + one_line(text, 80) + '\''; }

}  // namespace ferry::support
