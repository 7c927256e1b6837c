// What the flags of several commands have in common: checks of their texts, and settings that are given by a flag.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "common/cli.hpp"
#include "ferry/config.hpp"

namespace ferry::command {

/// Empty if all of `text` is a number of that type within the limits, otherwise why not.
template <typename Number>
std::string number_problem(std::string_view text, Number least, Number most) {
  Number value{};
  char const* const end = text.data() + text.size();
  auto const [stop, status] = std::from_chars(text.data(), end, value);
  if (status == std::errc::invalid_argument || stop != end) {
    return fmt::format("'{}' is not a {}number", text, std::numeric_limits<Number>::is_integer ? "whole " : "");
  }
  bool const inside = status == std::errc{} && value >= least && value <= most;  // which "nan" never is
  return inside ? "" : fmt::format("{} is out of range; give a number from {} to {}", text, least, most);
}

/// Asked of the text, because the library takes "-1" for the largest of all unsigned numbers.
template <typename Number>
CLI::Validator within(Number least, Number most) {
  return {[=](std::string& text) { return number_problem(text, least, most); }, ""};
}

/// A flag that names a file. Refuses "$FILE" of a script that forgot to set it.
CLI::Option* add_file_flag(CLI::App& command, char const* flag, std::string& to, char const* meaning,
                           char const* group);

/// A setting by its flag, which goes before its variable and is what an error has to name. Throws: `setting_error`.
void set_by_flag(config& settings, std::string_view variable, std::string const& flag,
                 std::optional<std::string> const& value);

}  // namespace ferry::command
