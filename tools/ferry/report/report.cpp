// `ferry report`: one HTML page of runs and comparisons, or a picture of one step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <istream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/flags.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "common/progress.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "plan/json_reader.hpp"
#include "report/page.hpp"
#include "report/page_data.hpp"
#include "report/run_reader.hpp"
#include "report/step_svg.hpp"

namespace ferry::command {

namespace {

struct report_flags {
  std::vector<std::string> inputs;
  std::string output = "report.html";
  bool output_given = false;
  std::string json_file;
  std::string svg_file;
  std::optional<std::uint32_t> step;
  std::string title;

  /// A picture alone is no reason to write a page that nobody has asked for.
  [[nodiscard]] bool wants_page() const { return svg_file.empty() || output_given; }
};

constexpr std::size_t most_inputs = 64;

/// "runs/a/stats.jsonl" is "stats.jsonl", unless another file is called that too.
std::string label_of(std::string const& path, std::vector<std::string> const& all) {
  auto const name_of = [](std::string const& one) { return one.substr(one.find_last_of('/') + 1); };
  auto const name = name_of(path);
  std::size_t same = 0;
  for (auto const& one : all) same += name_of(one) == name ? 1 : 0;
  return same > 1 ? path : name;
}

/// A file on its way to the reader, with what is read so far on the progress line.
class watched_source final : public std::streambuf {
 public:
  watched_source(std::streambuf& from, progress& shown, std::string name)
      : from_(from), shown_(shown), name_(std::move(name)) {}

 private:
  std::streamsize xsgetn(char* to, std::streamsize most) override {
    auto const count = from_.sgetn(to, most);
    constexpr std::size_t often = std::size_t{16} << 20;
    std::size_t const before = bytes_;
    bytes_ += static_cast<std::size_t>(std::max<std::streamsize>(count, 0));
    if (before == 0 || before / often != bytes_ / often) {
      shown_.show(fmt::format("reading {}: {}", name_, format_bytes(bytes_)));
    }
    return count;
  }

  std::streambuf& from_;
  progress& shown_;
  std::string name_;
  std::size_t bytes_ = 0;
};

run_data read_all(report_flags const& flags) {
  std::vector<run_data> files;
  progress shown;
  for (auto const& path : flags.inputs) {
    planning::with_file(path, [&](std::istream& in) {
      watched_source watched(*in.rdbuf(), shown, printable(path));
      std::istream through(&watched);
      files.push_back(read_runs(through, label_of(path, flags.inputs), flags.step ? *flags.step : unknown));
    });
  }
  shown.clear();
  return join(std::move(files));
}

void print(report_flags const& flags, run_data const& all, std::string_view page, std::string_view picture) {
  for (auto const& one : all.runs) {
    fmt::print("{}: {} steps, {} items{}\n", printable(fmt::format("{}", fmt::join(one.files, " + "))),
               one.steps.size(), one.items.size(),
               one.trace ? fmt::format(", {} steps traced", one.trace->all_steps) : "");
    for (auto const& note : one.notes) fmt::print("  {}\n", note);
  }
  for (auto const& one : all.comparisons) fmt::print("{}: {} policies compared\n", one.label, one.rows.size());
  for (auto const& one : all.benches) fmt::print("{}: {} curves\n", one.label, one.curves.size());
  for (auto const& one : all.tables) fmt::print("{}: a table of {} rows\n", one.label, one.rows.size());
  for (auto const& note : all.notes) fmt::print("{}\n", note);
  if (!page.empty()) fmt::print("{}: {}\n", printable(flags.output), format_bytes(page.size()));
  if (!picture.empty()) fmt::print("{}: {}\n", printable(flags.svg_file), format_bytes(picture.size()));
}

/// Throws: `setting_error` if there is not exactly one trace, or no such step in it.
std::string picture_of(report_flags const& flags, run_data const& all) {
  run const* traced = nullptr;
  for (auto const& one : all.runs) {
    if (!one.trace) continue;
    if (traced != nullptr) throw setting_error("--svg draws a step of one trace: give the files of one run");
    traced = &one;
  }
  if (traced == nullptr) throw setting_error("--svg needs a trace: give a file that FERRY_TRACE has written");
  auto const step = flags.step ? static_cast<double>(*flags.step) : unknown;
  return step_svg(*traced, step_to_draw(*traced, step), flags.title);
}

void check_outputs(report_flags const& flags) {
  struct named {
    char const* flag;
    std::string const& path;
  };
  std::string const none;
  std::array const outputs{named{"-o", flags.wants_page() ? flags.output : none}, named{"--svg", flags.svg_file},
                           named{"--json", flags.json_file}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].path.empty()) continue;
    for (std::size_t k = 0; k < i; ++k) {
      if (outputs[k].path != outputs[i].path) continue;
      throw setting_error(fmt::format("{} and {} are the same file: give another", outputs[k].flag, outputs[i].flag));
    }
    if (std::ranges::find(flags.inputs, outputs[i].path) != flags.inputs.end()) {
      throw setting_error(fmt::format("'{}' is read and would be written over: give another {}",
                                      printable(outputs[i].path), outputs[i].flag));
    }
    require_usable_output(outputs[i].path);
  }
}

exit_code run_report(report_flags const& flags) {
  if (flags.inputs.size() > most_inputs) {
    throw setting_error(
        fmt::format("{} files are too many for one page: give at most {}", flags.inputs.size(), most_inputs));
  }
  check_outputs(flags);
  auto const all = read_all(flags);
  auto const picture = flags.svg_file.empty() ? std::string() : picture_of(flags, all);
  auto const page = flags.wants_page() ? make_page(all) : std::string();
  if (!page.empty()) write_output(flags.output, page);
  if (!picture.empty()) write_output(flags.svg_file, picture);
  if (!flags.json_file.empty()) write_output(flags.json_file, text_of(page_data(all, {})));
  bool const occupied = (flags.wants_page() && is_standard_output(flags.output)) ||
                        is_standard_output(flags.svg_file) || is_standard_output(flags.json_file);
  if (!occupied) print(flags, all, page, picture);
  return success;
}

}  // namespace

runner add_report(CLI::App& program) {
  auto const flags = std::make_shared<report_flags>();
  CLI::App* const command =
      program.add_subcommand("report", "Makes one HTML page of runs and comparisons, or draws a step");
  command
      ->add_option("FILE", flags->inputs,
                   "Files of FERRY_TRACE and FERRY_STATS, and the JSON of ferry train, simulate and bench; several of "
                   "one run are put together, several runs are compared")
      ->required();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  auto* const output =
      add_file_flag(*command, "-o,--output", flags->output, "The page; - is standard output", "Output");
  output->capture_default_str();
  add_file_flag(*command, "--json", flags->json_file, "Write the page's data here, as JSON; - is standard output",
                "Output");
  auto* const svg = add_file_flag(
      *command, "--svg", flags->svg_file,
      "Draw one step of a trace here, and make no page unless -o asks for it; - is standard output", "Output");
  command->add_option("--step", flags->step, "Which step --svg draws, as the trace numbers them; the last if left out")
      ->check(within<std::uint32_t>(0, std::numeric_limits<std::uint32_t>::max()))
      ->needs(svg)
      ->group("Output");
  command->add_option("--title", flags->title, "What stands above the step; its number and time if left out")
      ->needs(svg)
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  FERRY_TRACE=trace.json FERRY_STATS=stats.jsonl ferry train --budget 30% --json run.json\n"
      "  ferry report run.json trace.json stats.jsonl -o report.html\n"
      "  ferry report auto.json offload.json -o compare.html\n"
      "  ferry report trace.json --step 7 --svg step.svg");
  return [flags, output] {
    flags->output_given = output->count() > 0;
    return run_report(*flags);
  };
}

}  // namespace ferry::command
