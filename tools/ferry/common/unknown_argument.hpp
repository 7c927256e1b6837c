// What a command line has that its command does not know: said with the name that was meant.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ferry::command {

/// The innermost command that was chosen: of `ferry bench link --gpu x` that is `link`.
[[nodiscard]] CLI::App const& chosen_command(CLI::App const& program);
/// "ferry bench link"
[[nodiscard]] std::string full_name(CLI::App const& command);

/// The first argument that nobody took, and what was meant: a name like it, or the command that has it.
/// Requires: there is one.
[[nodiscard]] std::string words_of_unknown(CLI::App const& program);

/// What was given to `whole` before the name of its `part` is the part's too. Throws: `setting_error` if it has no such
/// flag.
void require_flags_of_part(CLI::App const& whole, CLI::App const& part);

}  // namespace ferry::command
