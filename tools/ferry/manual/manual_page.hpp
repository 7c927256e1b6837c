// The manual page as roff, in man(7)'s macros.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command_tree.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

struct exit_meaning {
  int code;
  std::string_view meaning;
};
/// Of every command.
[[nodiscard]] std::vector<exit_meaning> exit_meanings();

/// Text that roff prints as it is: no escapes, and no requests where a line begins.
[[nodiscard]] std::string roff_text(std::string_view text);

[[nodiscard]] std::string manual_page(command_entry const& program, std::string_view version,
                                      std::vector<setting_description> const& settings);

}  // namespace ferry::command
