#include "manual_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "commands.hpp"

namespace ferry::command {

namespace {

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff_text(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", roff_text(text)); }

/// Which every command has: said once, of all.
bool is_help(option_entry const& option) {
  return std::find(option.names.begin(), option.names.end(), "--help") != option.names.end();
}

/// "-o, --output FILE"
std::string heading_of(option_entry const& option) {
  if (option.positional) return italic(option.names.front()) + (option.several ? " ..." : "");
  std::string text;
  for (auto const& name : option.names) text += (text.empty() ? "" : ", ") + bold(name);
  if (option.placeholder.empty()) return text;
  return text + " " + italic(option.placeholder);
}

std::string text_of(option_entry const& option) {
  std::string text = roff_text(option.description);
  // Words that the description names itself are not said twice.
  auto const named = [&](std::string const& word) { return option.description.find(word) != std::string::npos; };
  if (!option.words.empty() && !std::all_of(option.words.begin(), option.words.end(), named)) {
    text += fmt::format(": {}", roff_text(fmt::format("{}", fmt::join(option.words, ", "))));
  }
  if (!option.initial.empty()) text += fmt::format(" [{}]", roff_text(option.initial));
  return text + "\n";
}

std::string synopsis_of(command_entry const& command, std::string const& path) {
  std::string text = bold(path);
  if (!command.commands.empty()) return text + " " + italic("COMMAND") + " ...\n";
  auto const is_option = [](option_entry const& one) { return !one.positional && !is_help(one); };
  if (std::any_of(command.options.begin(), command.options.end(), is_option)) text += " [" + italic("OPTION") + "]...";
  for (auto const& one : command.options) {
    if (!one.positional) continue;
    auto const words = fmt::format("{}", fmt::join(one.words, "|"));
    auto const name = (words.empty() ? italic(one.names.front()) : bold(words)) + (one.several ? "..." : "");
    text += one.required ? " " + name : fmt::format(" [{}]", name);
  }
  return text + "\n";
}

void add_synopses(std::string& to, command_entry const& command, std::string const& path) {
  if (command.commands.empty()) to += ".br\n" + synopsis_of(command, path);
  for (auto const& one : command.commands) add_synopses(to, one, path + " " + one.name);
}

void add_options(std::string& to, command_entry const& command) {
  std::string group;
  for (auto const& one : command.options) {
    if (is_help(one)) continue;
    if (one.group != group && one.group != "Options" && one.group != "Positionals") {
      to += fmt::format(".PP\n{}:\n", roff_text(one.group));
    }
    group = one.group;
    to += fmt::format(".TP\n{}\n{}", heading_of(one), text_of(one));
  }
}

void add_command(std::string& to, command_entry const& command, std::string const& path) {
  to +=
      fmt::format(".SS {}\n{}", roff_text(path), command.commands.empty() ? synopsis_of(command, path) + ".PP\n" : "");
  to += roff_text(command.description) + ".\n";
  add_options(to, command);
  for (auto const& note : parts_of(command.footer).notes) to += fmt::format(".PP\n{}\n", roff_text(note));
  for (auto const& one : command.commands) add_command(to, one, path + " " + one.name);
}

void add_examples(std::string& to, command_entry const& command) {
  for (auto const& call : parts_of(command.footer).examples) to += fmt::format(".PP\n.nf\n{}\n.fi\n", roff_text(call));
  for (auto const& one : command.commands) add_examples(to, one);
}

void add_settings(std::string& to, std::vector<setting_description> const& settings) {
  to +=
      ".SH ENVIRONMENT\nFlags go before these. A value that does not parse or is out of range, and a FERRY_ variable "
      "that does not exist, are errors.\n";
  for (auto const& one : settings) {
    to += fmt::format(".TP\n{} [{}]\n{}; accepts {}\n", bold(one.variable), roff_text(one.initial),
                      roff_text(one.meaning), roff_text(one.accepted));
  }
  to += fmt::format(".TP\n{}\nset to anything, nothing is printed in colours\n", bold("NO_COLOR"));
}

constexpr std::string_view files = R"(.SH FILES
.TP
\fIFILE\fR.state
beside the model that \fBferry train \-\-save\fR \fIFILE\fR writes: what \fB\-\-resume\fR goes on from
.PP
Profiles, hardware, plans, traces and statistics are JSON; docs/formats.md of the sources describes them. Files are
replaced only as a whole.
.SH SEE ALSO
.BR perf (1),
.BR nvidia\-smi (1);
README.md and docs/ of the sources
)";

}  // namespace

std::vector<exit_meaning> exit_meanings() {
  return {{success, "done"},
          {failure, "failed: a file, a device, memory; the message says what and where"},
          {wrong_usage, "wrong flags or settings; nothing was done"},
          {infeasible, "no plan fits the budget; the message names the smallest that works"},
          {was_interrupted, "interrupted; what was done by then has been saved and printed"}};
}

std::string roff_text(std::string_view text) {
  std::string result;
  for (char const letter : text) {
    bool const begins_line = result.empty() || result.back() == '\n';
    if (begins_line && (letter == '.' || letter == '\'')) result += "\\&";
    switch (letter) {
      case '\\':
        result += "\\e";
        break;
      case '-':  // as typed, not a hyphen
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

std::string manual_page(command_entry const& program, std::string_view version,
                        std::vector<setting_description> const& settings) {
  std::string text = fmt::format(
      ".\\\" Generated by `ferry manual`.\n.TH FERRY 1 \"\" \"ferry {}\" \"User Commands\"\n.nh\n.ad l\n", version);
  text += ".SH NAME\nferry \\- keeps, ferries or recomputes a trainer's activations under byte budgets\n";
  text += ".SH SYNOPSIS\n" + bold("ferry") + " [" + bold("--help") + "] [" + bold("--version") + "]\n";
  add_synopses(text, program, program.name);
  text += ".SH DESCRIPTION\n" + roff_text(program.description) +
          "\n.PP\nResults go to standard output, errors to standard error in one line each; progress is shown on a "
          "terminal only. Every command has " +
          bold("--help") + ".\n";
  text += ".SH COMMANDS\n";
  for (auto const& one : program.commands) add_command(text, one, program.name + " " + one.name);
  add_settings(text, settings);
  text += ".SH EXIT STATUS\n";
  for (auto const& one : exit_meanings()) {
    text += fmt::format(".TP\n{}\n{}\n", bold(std::to_string(one.code)), roff_text(one.meaning));
  }
  text += ".SH EXAMPLES\n";
  add_examples(text, program);
  text += files;
  return text;
}

}  // namespace ferry::command
