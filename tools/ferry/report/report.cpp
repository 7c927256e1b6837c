// `ferry report`: one HTML page of runs and comparisons.
#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
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

namespace ferry::command {

namespace {

struct report_flags {
  std::vector<std::string> inputs;
  std::string output = "report.html";
  std::string json_file;
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
      files.push_back(read_runs(through, label_of(path, flags.inputs)));
    });
  }
  shown.clear();
  return join(std::move(files));
}

void print(report_flags const& flags, run_data const& all, std::size_t bytes) {
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
  fmt::print("{}: {}\n", printable(flags.output), format_bytes(bytes));
}

exit_code run_report(report_flags const& flags) {
  if (flags.inputs.size() > most_inputs) {
    throw setting_error(
        fmt::format("{} files are too many for one page: give at most {}", flags.inputs.size(), most_inputs));
  }
  if (flags.output == flags.json_file) throw setting_error("-o and --json are the same file: give another");
  for (auto const& path : flags.inputs) {
    if (path == flags.output || path == flags.json_file) {
      throw setting_error(fmt::format("'{}' is read and would be written over: give another -o", printable(path)));
    }
  }
  require_usable_output(flags.output);
  require_usable_output(flags.json_file);
  auto const all = read_all(flags);
  auto const page = make_page(all);
  write_output(flags.output, page);
  if (!flags.json_file.empty()) write_output(flags.json_file, text_of(page_data(all, {})));
  if (!is_standard_output(flags.output) && !is_standard_output(flags.json_file)) print(flags, all, page.size());
  return success;
}

}  // namespace

runner add_report(CLI::App& program) {
  auto const flags = std::make_shared<report_flags>();
  CLI::App* const command = program.add_subcommand("report", "Makes one HTML page of runs and comparisons");
  command
      ->add_option("FILE", flags->inputs,
                   "Files of FERRY_TRACE and FERRY_STATS, and the JSON of ferry train, simulate and bench; several of "
                   "one run are put together, several runs are compared")
      ->required();
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_file_flag(*command, "-o,--output", flags->output, "The page; - is standard output", "Output")
      ->capture_default_str();
  add_file_flag(*command, "--json", flags->json_file, "Write the page's data here, as JSON; - is standard output",
                "Output");
  command->footer(
      "Examples:\n"
      "  FERRY_TRACE=trace.json FERRY_STATS=stats.jsonl ferry train --budget 30% --json run.json\n"
      "  ferry report run.json trace.json stats.jsonl -o report.html\n"
      "  ferry report auto.json offload.json -o compare.html");
  return [flags] { return run_report(*flags); };
}

}  // namespace ferry::command
