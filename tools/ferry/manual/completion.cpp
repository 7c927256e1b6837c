// `ferry completion`: the scripts by which shells complete its commands.
#include "completion.hpp"

#include <fmt/core.h>

#include <memory>
#include <string>

#include "commands.hpp"
#include "common/cli.hpp"

namespace ferry::command {

bool is_plain(std::string_view word) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=:.,/+@%";
  return !word.empty() && word.find_first_not_of(plain) == std::string_view::npos;
}

std::string shell_word(std::string_view text) {
  std::string quoted = "'";
  for (char const letter : text) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

runner add_completion(CLI::App& program) {
  auto const shell = std::make_shared<std::string>();
  CLI::App* const command = program.add_subcommand("completion", "Prints the completion script of a shell");
  command->add_option("shell", *shell, "Which shell")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(
      "Examples:\n"
      "  ferry completion bash > ferry.bash    # then: source ferry.bash\n"
      "  ferry completion zsh > _ferry         # in a folder of $fpath, before compinit");
  // The tree is read when it is run: by then all commands have been added.
  return [shell, &program] {
    auto const tree = tree_of(program);
    fmt::print("{}", *shell == "bash" ? bash_completion(tree) : zsh_completion(tree));
    return success;
  };
}

}  // namespace ferry::command
