// `ferry env`: every setting with its value, where that comes from, and what it means.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/flags.hpp"
#include "common/output_file.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

struct flags {
  std::string json_file;
  bool reference = false;
};

/// The environment, and what is wrong with it.
struct environment {
  config settings;
  std::set<std::string> accepted;   ///< variables
  std::set<std::string> rejected;   ///< variables
  std::vector<std::string> errors;  ///< one line for each rejected
};

// One at a time: this is where errors point their reader for help, so it has to list the settings even
// when one of them is wrong.
environment read_environment() {
  environment result;
  std::vector<std::string> good;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string const text = *entry;
    std::string const variable = text.substr(0, text.find('='));
    try {
      static_cast<void>(config::from_entries({text}));
      good.push_back(text);
      result.accepted.insert(variable);
    } catch (setting_error const& problem) {
      result.rejected.insert(variable);
      result.errors.emplace_back(problem.what());
    }
  }
  result.settings = config::from_entries(good);
  return result;
}

char const* source_of(std::string const& variable, environment const& current) {
  return current.accepted.contains(variable) ? "environment" : "default";
}

void print_settings(environment const& current) {
  for (setting_description const& row : describe_settings(current.settings)) {
    char const* const note = current.rejected.contains(row.variable) ? ", the value given is wrong" : "";
    fmt::print("{:<24} = {:<10} ({}{})\n    {}; accepts {}\n", row.variable, row.value,
               source_of(row.variable, current), note, row.meaning, row.accepted);
  }
}

std::string capitalized(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() += 'A' - 'a';
  return text;
}

/// As links name headings.
std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  }
  return text;
}

void print_table(std::vector<setting_description> const& rows) {
  fmt::print("\n| variable | default | meaning | accepts |\n| --- | --- | --- | --- |\n");
  for (setting_description const& row : rows) {
    fmt::print("| [`{}`](#{}) | `{}` | {} | {} |\n", row.variable, lower_case(row.variable), row.initial, row.meaning,
               row.accepted);
  }
}

/// docs/settings.md: defaults only, the same wherever it is made.
void print_reference() {
  fmt::print(
      "<!-- Written by scripts/docs from the settings' table in the code; changes here are lost. -->\n"
      "# Settings\n\n"
      "Every setting is an environment variable and a member of `ferry::config`; in C, `ferry_settings_set` takes the\n"
      "variable's name. A value that does not parse or is out of range, and a `FERRY_` variable that does not exist, "
      "are\n"
      "errors that say what is accepted. `ferry env` shows the settings in force and where each comes from. A setting\n"
      "that changed nothing is named at the end of a run (`FERRY_LOG=info`, `session::explain`).\n");
  auto const rows = describe_settings(config{});
  print_table(rows);
  std::string group;
  for (setting_description const& row : rows) {
    if (row.group != group) fmt::print("\n## {}\n", row.group);
    group = row.group;
    fmt::print("\n### {}\n\n{}.\n\n- default: `{}`\n- accepts: {}\n- in C++: `ferry::config::{}`\n\n{}\n", row.variable,
               capitalized(row.meaning), row.initial, row.accepted, row.member, row.details);
  }
}

nlohmann::ordered_json json_of(environment const& current) {
  auto settings = nlohmann::ordered_json::array();
  for (setting_description const& row : describe_settings(current.settings)) {
    settings.push_back({{"variable", row.variable},
                        {"value", row.value},
                        {"source", source_of(row.variable, current)},
                        {"default", row.initial},
                        {"meaning", row.meaning},
                        {"accepted", row.accepted}});
  }
  return {{"settings", std::move(settings)}, {"errors", current.errors}};
}

exit_code run(flags const& chosen) {
  if (chosen.reference) {
    print_reference();
    return success;
  }
  require_usable_output(chosen.json_file);
  environment const current = read_environment();
  if (!chosen.json_file.empty()) write_output(chosen.json_file, text_of(json_of(current)));
  if (!is_standard_output(chosen.json_file)) print_settings(current);
  // Standard output first, so that the errors end what a terminal shows.
  std::fflush(stdout);
  for (std::string const& problem : current.errors) fmt::print(stderr, "ferry: {}\n", problem);
  return current.errors.empty() ? success : wrong_usage;
}

}  // namespace

runner add_env(CLI::App& program) {
  auto const chosen = std::make_shared<flags>();
  CLI::App* const command = program.add_subcommand("env", "Settings: values, where they come from, what they mean");
  auto* const json = add_file_flag(*command, "--json", chosen->json_file,
                                   "Write the settings to this file too, as JSON; - is standard output", "Options");
  command
      ->add_flag("--reference", chosen->reference,
                 "Print docs/settings.md instead: defaults, and what each setting affects")
      ->excludes(json);
  command->footer("Examples:\n  ferry env\n  FERRY_POLICY=offload ferry env --json -");
  return [chosen] { return run(*chosen); };
}

}  // namespace ferry::command
