// Completion scripts. They hold all that they offer, so that a key press starts no program.
#pragma once

#include <string>
#include <string_view>

#include "command_tree.hpp"

namespace ferry::command {

/// Needs bash 3.2 or newer, and no package beside it.
[[nodiscard]] std::string bash_completion(command_entry const& program);
/// A function for zsh's completion system, to be put into a folder of $fpath as _ferry.
[[nodiscard]] std::string zsh_completion(command_entry const& program);

/// Neither blanks nor what a shell expands. Only such words are offered.
[[nodiscard]] bool is_plain(std::string_view word);
/// A text as one word of a shell.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace ferry::command
