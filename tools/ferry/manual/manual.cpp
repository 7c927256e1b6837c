// `ferry manual`: the manual page, made from the commands' own flags and the table of settings. What `ferry --help`
// says of the whole program is added here too, from the same exit codes.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "manual_page.hpp"

namespace ferry::command {

namespace {

std::string footer_of_program() {
  std::string text = "Exit codes:\n";
  for (auto const& one : exit_meanings()) text += fmt::format("  {:<4}{}\n", one.code, one.meaning);
  return text + "\nExample:\n  ferry train --budget 20%";
}

}  // namespace

runner add_manual(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("manual", "Prints the manual page");
  command->footer(
      "Examples:\n"
      "  ferry manual > ferry.1    # then: man ./ferry.1\n"
      "  ferry manual | man -l -");
  program.footer(footer_of_program());
  return [&program] {
    fmt::print("{}", manual_page(tree_of(program), FERRY_VERSION, describe_settings(config{})));
    return success;
  };
}

}  // namespace ferry::command
