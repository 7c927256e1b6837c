// The program's commands and options as plain values, read off its CLI::App: what the completion scripts and the manual
// page are made from, so that neither can say something else than `--help`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ferry::command {

/// What is typed behind an option, or as an argument.
enum class value_kind : std::uint8_t { none, text, file, words };

struct option_entry {
  std::vector<std::string> names;  ///< "-o", "--output"; for an argument without a name, its placeholder
  bool positional = false;
  bool several = false;   ///< may be given again
  bool required = false;  ///< an argument that has to be there
  bool optional_value = false;
  value_kind kind = value_kind::none;
  std::vector<std::string> words;  ///< with `value_kind::words`: "keep", and prefixes such as "every=N", "plan=FILE"
  std::string placeholder;         ///< "FILE"; empty without a value
  std::string initial;             ///< what holds if it is not given; empty if the description says it
  std::string group;
  std::string description;
};

struct command_entry {
  std::string name;
  std::string description;
  std::string footer;
  std::vector<option_entry> options;
  std::vector<command_entry> commands;
};

/// Without what is hidden from `--help`.
[[nodiscard]] command_entry tree_of(CLI::App const& program);

/// "auto, keep, every=N or plan=FILE", as settings say what they accept, word by word.
[[nodiscard]] std::vector<std::string> listed_words(std::string_view text);

/// What is typed of a word that goes on with a value: "every=" of "every=N"; all of any other.
[[nodiscard]] std::string typed_part(std::string_view word);

/// The lines of a footer that are calls of the program; and those that are not, without their headings.
struct footer_parts {
  std::vector<std::string> examples;
  std::vector<std::string> notes;
};
[[nodiscard]] footer_parts parts_of(std::string_view footer);

}  // namespace ferry::command
