#include "common/unknown_argument.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli.hpp"
#include "common/printable.hpp"
#include "ferry/error.hpp"
#include "support/parse.hpp"

namespace ferry::command {

namespace {

std::vector<std::string> flags_of(CLI::App const& command) {
  std::vector<std::string> names;
  for (auto const* option : command.get_options()) {
    for (auto const& name : option->get_lnames()) names.push_back("--" + name);
    for (auto const& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<CLI::App const*> parts_of(CLI::App const& command) {
  return command.get_subcommands([](auto const*) { return true; });
}

/// " did you mean --budget?", or nothing.
std::string words_of_nearest(std::string const& asked, std::vector<std::string> const& names) {
  std::vector<std::string_view> const candidates(names.begin(), names.end());
  auto const meant = support::nearest(asked, candidates);
  return meant.empty() ? std::string() : fmt::format("; did you mean {}?", meant);
}

void find_owners(CLI::App const& command, std::string const& flag, std::vector<std::string>& into) {
  if (std::ranges::count(flags_of(command), flag) > 0) into.push_back(fmt::format("`{}`", full_name(command)));
  for (auto const* part : parts_of(command)) find_owners(*part, flag, into);
}

/// "; `ferry bench` and `ferry plan` have it", or nothing. Of the same family first.
std::string words_of_owners(CLI::App const& command, std::string const& flag) {
  std::vector<std::string> owners;
  for (auto const* family = &command; family != nullptr && owners.empty(); family = family->get_parent())
    find_owners(*family, flag, owners);
  if (owners.empty()) return {};
  constexpr std::size_t most = 3;
  if (owners.size() > most) {
    owners.resize(most);
    owners.emplace_back("others");
  }
  std::string text = "; " + owners.front();
  for (std::size_t i = 1; i < owners.size(); ++i) text += (i + 1 < owners.size() ? ", " : " and ") + owners[i];
  return text + (owners.size() > 1 ? " have it" : " has it");
}

/// The outermost one that was given what it does not know.
CLI::App const& command_that_stopped(CLI::App const& program) {
  auto const chosen = program.get_subcommands();
  return chosen.empty() || !program.remaining().empty() ? program : command_that_stopped(*chosen.back());
}

std::string words_of_unknown_flag(CLI::App const& command, std::string const& asked) {
  std::string const flag = asked.substr(0, asked.find('='));
  auto hint = words_of_nearest(flag, flags_of(command));
  if (hint.empty()) hint = words_of_owners(command, flag);
  return fmt::format("{} is not a flag of `{}`{}", printable(flag), full_name(command), hint);
}

std::string words_of_unknown_word(CLI::App const& command, std::string const& word) {
  std::vector<std::string> names;
  for (auto const* part : parts_of(command)) names.push_back(part->get_name());
  if (names.empty()) return fmt::format("`{}` has no use for '{}'", full_name(command), printable(word));
  return fmt::format("'{}' is not a command of `{}`{}", printable(word), full_name(command),
                     words_of_nearest(word, names));
}

}  // namespace

CLI::App const& chosen_command(CLI::App const& program) {
  auto const chosen = program.get_subcommands();
  return chosen.empty() ? program : chosen_command(*chosen.back());
}

std::string full_name(CLI::App const& command) {
  auto const* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : fmt::format("{} {}", full_name(*parent), command.get_name());
}

std::string words_of_unknown(CLI::App const& program) {
  auto const& command = command_that_stopped(program);
  auto const unknown = command.remaining();
  auto const is_flag = [](std::string const& one) { return one.size() > 1 && one.front() == '-'; };
  auto const flag = std::ranges::find_if(unknown, is_flag);  // what follows it may be its value
  auto const said =
      flag == unknown.end() ? words_of_unknown_word(command, unknown.front()) : words_of_unknown_flag(command, *flag);
  return fmt::format("{}{} see `{} --help`", said, said.back() == '?' ? "" : ";", full_name(command));
}

void require_flags_of_part(CLI::App const& whole, CLI::App const& part) {
  for (auto const* option : whole.get_options()) {
    auto const name = option->get_name();
    if (option->count() == 0 || part.get_option_no_throw(name) != nullptr) continue;
    throw setting_error(fmt::format("{} is not a flag of `{}`: leave it out", name, full_name(part)));
  }
}

}  // namespace ferry::command
