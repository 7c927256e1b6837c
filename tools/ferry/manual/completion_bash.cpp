// bash: two generated functions say what a command has and what an option takes; the one that asks them is always the
// same.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "completion.hpp"

namespace ferry::command {

namespace {

// Bash cuts words at '=' and ':' as well, and replaces only what is behind the last of these.
constexpr std::string_view machinery = R"(
_ferry_files() { # names that go on from $cur, which may be quoted
  local file
  cur="${cur#[\"\']}"
  cur="${cur//\\/}"
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
  compopt -o filenames 2>/dev/null
}

_ferry_offer() { # WORD...: those that go on from $cur
  local word
  for word in "$@"; do
    case "$word" in
      *=FILE)
        if [[ "$cur" == "${word%FILE}"* ]]; then
          prefix+="${word%FILE}"
          cur="${cur#"${word%FILE}"}"
          COMPREPLY=()
          _ferry_files
          return
        fi
        word="${word%FILE}"
        ;;
    esac
    [[ "$word" == "$cur"* ]] && COMPREPLY+=("$word")
  done
  [[ ${#COMPREPLY[@]} == 1 && "${COMPREPLY[0]}" == *[=:] ]] && compopt -o nospace 2>/dev/null
}

_ferry() {
  local IFS=$' \t\n' cur="" prefix="" path=ferry option="" commands options valued kind values
  local line="${COMP_LINE:0:COMP_POINT}" blanks word piece count=0 i
  local words=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    blanks="${line%%[! $'\t']*}"
    line="${line#"$blanks"}"
    piece="${line:0:${#COMP_WORDS[i]}}"
    line="${line:${#piece}}"
    if [[ $i == 0 || -n "$blanks" ]]; then
      words[count]="$piece"
      count=$((count + 1))
    else
      words[count - 1]+="$piece"
    fi
  done
  COMPREPLY=()
  cur="${words[count - 1]}"
  for ((i = 1; i < count - 1; ++i)); do
    word="${words[i]}"
    _ferry_command "$path"
    if [[ -n "$option" ]]; then
      option=""
    elif [[ " $valued " == *" $word "* ]]; then
      option="$word"
    elif [[ " $commands " == *" $word "* ]]; then
      path+=" $word"
    fi
  done
  _ferry_command "$path"
  if [[ -z "$option" && "$cur" == --*=* ]]; then
    option="${cur%%=*}"
    prefix="$option="
    cur="${cur#*=}"
  fi
  if [[ -n "$option" ]]; then
    _ferry_value "$path $option"
  elif [[ "$cur" == -* ]]; then
    kind=words values="$options"
  elif [[ -n "$commands" ]]; then
    kind=words values="$commands"
  else
    _ferry_value "$path"
    if [[ "$kind" == text && -z "$cur" ]]; then kind=words values="$options"; fi
  fi
  case "$kind" in
    files) _ferry_files ;;
    words) _ferry_offer $values ;;
  esac
  # What stands before the last place where bash cuts stays on the line.
  local stays="$prefix$cur" cuts=""
  [[ "$COMP_WORDBREAKS" == *=* ]] && cuts+="="
  [[ "$COMP_WORDBREAKS" == *:* ]] && cuts+=":"
  if [[ -n "$cuts" ]]; then stays="${stays%"${stays##*[$cuts]}"}"; else stays=""; fi
  for ((i = 0; i < ${#COMPREPLY[@]}; ++i)); do
    word="$prefix${COMPREPLY[i]}"
    COMPREPLY[i]="${word#"$stays"}"
  done
}

complete -F _ferry ferry
)";

std::string joined(std::vector<std::string> const& words) { return fmt::format("{}", fmt::join(words, " ")); }

/// As the script splits them again. "plan=FILE" stays as it is, for the names of files.
std::string offered(std::vector<std::string> const& words) {
  std::vector<std::string> plain;
  for (auto const& word : words) {
    if (!is_plain(word)) continue;
    plain.push_back(word.ends_with("=FILE") ? word : typed_part(word));
  }
  return joined(plain);
}

/// A line of the case statement of _ferry_command for each command.
void add_command(std::string& to, command_entry const& command, std::string const& path) {
  std::vector<std::string> commands, options, valued;
  for (auto const& one : command.commands) commands.push_back(one.name);
  for (auto const& one : command.options) {
    if (one.positional) continue;
    for (auto const& name : one.names) {
      options.push_back(name);
      if (one.kind != value_kind::none && !one.optional_value) valued.push_back(name);
    }
  }
  to += fmt::format("    {}) commands={} options={} valued={} ;;\n", shell_word(path), shell_word(joined(commands)),
                    shell_word(joined(options)), shell_word(joined(valued)));
  for (auto const& one : command.commands) add_command(to, one, path + " " + one.name);
}

/// A line of the case statement of _ferry_value for each option that takes more than any text, and each argument.
void add_values(std::string& to, command_entry const& command, std::string const& path) {
  bool first_argument = true;
  for (auto const& one : command.options) {
    if (one.kind != value_kind::file && one.kind != value_kind::words) continue;
    if (one.positional && !std::exchange(first_argument, false)) continue;
    std::vector<std::string> places;
    for (auto const& name : one.names) places.push_back(shell_word(one.positional ? path : path + " " + name));
    to += fmt::format("    {}) ", fmt::join(places, " | "));
    to += one.kind == value_kind::file ? "kind=files ;;\n"
                                       : fmt::format("kind=words values={} ;;\n", shell_word(offered(one.words)));
  }
  for (auto const& one : command.commands) add_values(to, one, path + " " + one.name);
}

}  // namespace

std::string bash_completion(command_entry const& program) {
  std::string text =
      "# bash completion of ferry: `source <(ferry completion bash)`, or a file of that in\n"
      "# ~/.local/share/bash-completion/completions/ferry. Generated by `ferry completion bash`.\n"
      "# shellcheck shell=bash\n\n";
  text +=
      "_ferry_command() { # PATH: sets commands, options and valued, the options that take a value\n  case \"$1\" in\n";
  add_command(text, program, program.name);
  text += "    *) commands='' options='' valued='' ;;\n  esac\n}\n\n";
  text += "_ferry_value() { # PATH [OPTION]: sets kind and values\n  kind=text values=''\n  case \"$1\" in\n";
  add_values(text, program, program.name);
  text += "  esac\n}\n";
  text += machinery;
  return text;
}

}  // namespace ferry::command
