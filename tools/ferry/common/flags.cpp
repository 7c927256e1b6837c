#include "common/flags.hpp"

#include "common/cli.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

CLI::Option* add_file_flag(CLI::App& command, char const* flag, std::string& to, char const* meaning,
                           char const* group) {
  CLI::Validator const some_name(
      [](std::string& text) { return std::string(text.empty() ? "is empty; give the name of a file" : ""); }, "");
  return command.add_option(flag, to, meaning)->type_name("FILE")->check(some_name)->group(group);
}

void set_by_flag(config& settings, std::string_view variable, std::string const& flag,
                 std::optional<std::string> const& value) {
  if (!value) return;
  try {
    settings.set(variable, *value);
  } catch (setting_error const& problem) {
    std::string_view text = problem.what();
    if (text.starts_with(variable)) text.remove_prefix(variable.size());
    throw setting_error(flag + std::string(text));
  }
}

}  // namespace ferry::command
