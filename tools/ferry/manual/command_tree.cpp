#include "command_tree.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/cli.hpp"
#include "ferry/config.hpp"
#include "ferry/nn/shape.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

namespace {

std::vector<std::string> split(std::string_view text, std::string_view at) {
  std::vector<std::string> parts;
  for (std::size_t end = text.find(at); end != std::string_view::npos; end = text.find(at)) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + at.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> accepted_words(std::string_view variable) {
  for (auto const& row : describe_settings(config{})) {
    if (row.variable == variable) return listed_words(row.accepted);
  }
  return {};
}

std::vector<std::string> preset_words() {
  std::vector<std::string> names;
  for (auto const& one : nn::presets()) names.emplace_back(one.name);
  return names;
}

/// Flags whose values are checked only when the command runs: these mean the same in every command that has them.
std::vector<std::string> words_of_flag(std::string_view flag) {
  if (flag == "--policy") return accepted_words("FERRY_POLICY");
  if (flag == "--device") return accepted_words("FERRY_DEVICE");
  if (flag == "--gpu") return hardware_names();
  if (flag == "--preset") return preset_words();
  return {};
}

/// "{a,b}" of a type "NAME:{a,b}", which is how CLI::IsMember describes itself.
std::optional<std::vector<std::string>> members(std::string_view type) {
  auto const open = type.find('{');
  auto const close = type.rfind('}');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  return split(type.substr(open + 1, close - open - 1), ",");
}

void add_value(option_entry& to, CLI::Option const& from) {
  if (from.get_type_size() == 0 || from.get_items_expected_max() == 0) return;
  std::string const type = from.get_type_name();
  to.placeholder = type.substr(0, type.find(':'));
  to.initial = from.get_default_str();
  to.optional_value = from.get_expected_min() == 0;
  to.kind = to.placeholder.find("FILE") != std::string::npos ? value_kind::file : value_kind::text;
  auto words = members(type);
  if (words && to.placeholder == "TEXT") to.placeholder = "WORD";
  for (auto const& name : to.names) {
    if (words) break;
    if (auto known = words_of_flag(name); !known.empty()) words = std::move(known);
  }
  if (!words) return;
  to.kind = value_kind::words;
  to.words = std::move(*words);
}

option_entry entry_of(CLI::Option const& from) {
  option_entry to;
  for (auto const& name : from.get_snames()) to.names.push_back("-" + name);
  for (auto const& name : from.get_lnames()) to.names.push_back("--" + name);
  to.positional = to.names.empty();
  if (to.positional) to.names.push_back(from.get_name(true));
  to.required = from.get_required();
  to.several = from.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll || from.get_expected_max() > 1;
  to.group = from.get_group();
  to.description = from.get_description();
  add_value(to, from);
  return to;
}

void add_options(command_entry& to, CLI::App const& from) {
  for (auto const* const option : from.get_options()) {
    if (!option->get_group().empty()) to.options.push_back(entry_of(*option));
  }
}

bool is_call(std::string_view line) {
  return line.starts_with("ferry ") || line.starts_with("FERRY_") || line.find("| ferry ") != std::string_view::npos;
}

bool is_heading(std::string_view line) { return line.starts_with("Example") && line.ends_with(":"); }

}  // namespace

std::vector<std::string> listed_words(std::string_view text) {
  std::vector<std::string> words;
  for (auto const& part : split(text, ", ")) {
    for (auto& word : split(part, " or ")) words.push_back(std::move(word));
  }
  return words;
}

std::string typed_part(std::string_view word) {
  auto const end = word.find_first_of("=:");
  if (end == std::string_view::npos) return std::string(word);
  bool const goes_on = word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ", end + 1) == std::string_view::npos;
  return std::string(goes_on ? word.substr(0, end + 1) : word);
}

footer_parts parts_of(std::string_view footer) {
  footer_parts parts;
  for (auto const& whole : split(footer, "\n")) {
    auto const begin = whole.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    std::string line = whole.substr(begin);
    if (line.starts_with("$ ")) line.erase(0, 2);
    if (is_call(line)) {
      parts.examples.push_back(std::move(line));
    } else if (!is_heading(line)) {
      parts.notes.push_back(std::move(line));
    }
  }
  return parts;
}

command_entry tree_of(CLI::App const& program) {
  command_entry to{program.get_name(), program.get_description(), program.get_footer(), {}, {}};
  add_options(to, program);
  for (auto const* const command : program.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    if (command->get_name().empty()) {  // a group of options, which belong to the command itself
      add_options(to, *command);
    } else {
      to.commands.push_back(tree_of(*command));
    }
  }
  return to;
}

}  // namespace ferry::command
