// `ferry bench`: link, break-even and policies, on this machine or on hardware that is not there, and the settings that
// follow.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/bench_subject.hpp"
#include "bench/recommend.hpp"
#include "commands.hpp"
#include "common/cli.hpp"
#include "common/flags.hpp"
#include "common/interrupt.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "common/terminal.hpp"
#include "common/unknown_argument.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

/// Words to standard output, unless that is a file's.
class output {
 public:
  explicit output(bench_flags const& flags) : flags_(flags) {
    if (!flags.svg_file.empty() && flags.svg_file == flags.json_file) {
      throw setting_error("--svg and --json are the same file: give another");
    }
    require_usable_output(flags.svg_file);
    require_usable_output(flags.json_file);
    require_usable_output(flags.written_hardware_file);
    if (!flags.written_hardware_file.empty() && flags.written_hardware_file == flags.json_file) {
      throw setting_error("--write-hardware and --json are the same file: give another");
    }
  }
  void words(std::string const& text) const {
    for (auto const* file : {&flags_.svg_file, &flags_.json_file, &flags_.written_hardware_file}) {
      if (is_standard_output(*file)) return;
    }
    fmt::print("{}", text);
  }
  void picture(std::string const& text) const {
    if (!flags_.svg_file.empty()) write_output(flags_.svg_file, text);
  }
  void json(nlohmann::ordered_json const& value) const {
    if (!flags_.json_file.empty()) write_output(flags_.json_file, text_of(value));
  }
  void hardware(std::string const& text) const {
    if (!flags_.written_hardware_file.empty()) write_output(flags_.written_hardware_file, text);
  }
  [[nodiscard]] exit_code end() const {
    if (!interrupted()) return success;
    words("interrupted\n");
    return was_interrupted;
  }

 private:
  bench_flags const& flags_;
};

std::string words_of_noise(contest const& all) {
  if (all.noise <= 0) return {};
  return fmt::format("\nsteps vary by about {:.1f}% here{}\n", 100 * all.noise,
                     all.means_little() ? ": something else is running, and these figures mean little" : "");
}

/// Where another curve is below `auto`, unless that would be said of noise.
std::string words_of_lost(contest const& all) {
  auto const lost = all.lost();
  std::string text;
  for (auto const& one : lost) {
    text += in(colour::warning, fmt::format("auto is {:.1f}% above {} at {}", 100 * (one.ratio - 1), one.by,
                                            format_bytes(one.budget_bytes))) +
            "\n";
  }
  if (lost.empty() && !all.interrupted && !all.means_little())
    text += "\nauto is on or below every other curve at every budget\n";
  return text;
}

std::string words_of(contest const& all) {
  auto const step = all.unlimited_us > 0
                        ? fmt::format("a step takes {:.4g} ms with unlimited memory", 1e-3 * all.unlimited_us)
                        : "a step with unlimited memory was not measured";
  bool const names_hardware = all.step.ends_with(fmt::format(" on {}", all.hardware));
  return fmt::format("{}\n{}keeping all holds {}, {}\n\n{}", printable(all.step),
                     names_hardware ? "" : fmt::format("on {}; ", printable(all.hardware)),
                     format_bytes(all.keep_all_bytes), step, table_of(all)) +
         words_of_noise(all) + words_of_lost(all);
}

exit_code run_link(bench_flags const& flags) {
  output const to(flags);
  bench_subject const on(flags);
  progress shown;
  constexpr std::size_t largest = std::size_t{256} << 20;
  auto const all = on.link(shown, largest);
  auto const advice = all.interrupted ? std::vector<recommendation>{} : recommend(nullptr, &all, on.settings());
  auto value = json_of(all);
  value["recommended"] = json_of(advice);
  to.json(value);
  if (!all.interrupted) to.hardware(hardware_file_of(all.beside, all.device));
  to.words(table_of(all));
  if (!all.interrupted) to.words("\n" + exports_of(advice, on.words()));
  return to.end();
}

exit_code run_break_even(bench_flags const& flags) {
  output const to(flags);
  bench_subject const on(flags);
  progress shown;
  auto const all = on.weigh_all(shown);
  to.picture(svg_of(all));
  to.json(json_of(all));
  to.words(text_of(all));
  return to.end();
}

exit_code run_policies(bench_flags const& flags) {
  output const to(flags);
  bench_subject const on(flags);
  progress shown;
  auto const all = on.policies(shown);
  auto const advice = recommend(&all, nullptr, on.settings());
  auto value = json_of(all);
  value["recommended"] = json_of(advice);
  to.picture(svg_of(all));
  to.json(value);
  to.words(words_of(all));
  if (!all.interrupted) to.words("\n" + words_of_advice(all, advice, on.words()));
  return to.end();
}

/// All of it, in short. What there is when it is interrupted is written all the same.
exit_code run_all(bench_flags const& flags) {
  output const to(flags);
  bench_subject const on(flags);
  progress shown;
  nlohmann::ordered_json value{{"ferry_bench", 1}, {"what", "all"}};
  std::optional<link_result> link;
  if (!on.simulated()) {
    constexpr std::size_t largest = std::size_t{64} << 20;
    link = on.link(shown, largest);
    value["link"] = json_of(*link);
    to.words(table_of(*link) + "\n");
  }
  if (!interrupted()) {
    auto const even = on.weigh_all(shown);
    value["breakeven"] = json_of(even);
    to.words(text_of(even) + "\n");
  }
  if (!interrupted()) {
    auto const all = on.policies(shown);
    value["policies"] = json_of(all);
    to.picture(svg_of(all));
    to.words(words_of(all));
    if (!all.interrupted) {
      auto const advice = recommend(&all, link ? &*link : nullptr, on.settings());
      value["recommended"] = json_of(advice);
      to.words("\n" + words_of_advice(all, advice, on.words()));
    }
  }
  value["interrupted"] = interrupted();
  to.json(value);
  return to.end();
}

void add_output_flags(CLI::App& command, bench_flags& into, char const* picture) {
  constexpr char const* group = "Output";
  if (picture != nullptr) add_file_flag(command, "--svg", into.svg_file, picture, group);
  add_file_flag(command, "--json", into.json_file, "Write the numbers here, as JSON; - is standard output", group);
}

void add_device_flag(CLI::App& command, bench_flags& into) {
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command
      .add_option("--device", into.device,
                  "host, cuda or cuda:N measures this machine; sim simulates a GPU [as FERRY_DEVICE; sim with --gpu]")
      ->type_name("NAME")
      ->group("Hardware");
}

void add_contest_flags(CLI::App& command, bench_flags& into) {
  constexpr char const* group = "Policies";
  constexpr std::size_t most_budgets = 100;
  constexpr std::size_t most_rounds = 1000;
  command
      .add_option("--budgets", into.budgets,
                  "Budgets to try, from the smallest to the one that keeps all [12; on this machine 4]")
      ->type_name("N")
      ->check(within<std::size_t>(2, most_budgets))
      ->group(group);
  command.add_option("--rounds", into.rounds, "On this machine: timed steps of each policy and budget")
      ->type_name("N")
      ->check(within<std::size_t>(1, most_rounds))
      ->group(group)
      ->capture_default_str();
  constexpr double longest_ms = 60'000;
  command.add_option("--plan-ms", into.plan_ms, "On a simulated device: search so long for each plan")
      ->type_name("MS")
      ->check(within(1.0, longest_ms))
      ->group(group)
      ->capture_default_str();
}

}  // namespace

runner add_bench(CLI::App& program) {
  auto const flags = std::make_shared<bench_flags>();
  CLI::App* const command = program.add_subcommand(
      "bench", "Measures the link, moving against rebuilding, and policies; recommends settings");
  command->require_subcommand(0, 1);
  add_device_flag(*command, *flags);
  add_step_flags(*command, flags->step, "all of it");
  add_contest_flags(*command, *flags);
  add_output_flags(*command, *flags, "Draw step time over device bytes here");
  command->footer(
      "Examples:\n"
      "  ferry bench                                     this machine: all three in short, then what to export\n"
      "  ferry bench link                                the link alone\n"
      "  ferry bench breakeven --gpt 32,4096,32,2048,4 --gpu rtx4090 --svg even.svg\n"
      "  ferry bench policies --gpt 96,4096,32,2048,1 --gpu a100-80 --svg pareto.svg --json pareto.json");

  CLI::App* const link = command->add_subcommand(
      "link", "Copies by size and chunk, pinned and pageable; what they cost each other and computation");
  add_device_flag(*link, *flags);
  link->add_option("--largest", flags->largest, "The largest copy [256MiB]")->type_name("BYTES")->group("Hardware");
  add_output_flags(*link, *flags, nullptr);
  add_file_flag(*link, "--write-hardware", flags->written_hardware_file,
                "Write what was measured here, as a hardware file for --hardware of other commands", "Output");
  link->footer(
      "Examples:\n"
      "  ferry bench link --json link.json\n"
      "  ferry bench link --write-hardware here.json && ferry plan --gpt 12,768,12,1024,4 --hardware here.json "
      "--budget 40%");

  CLI::App* const even = command->add_subcommand("breakeven", "Moving against rebuilding, item by item and by shape");
  add_device_flag(*even, *flags);
  add_step_flags(*even, flags->step, "all of it");
  add_output_flags(*even, *flags, "Draw the break-even curves here");
  even->footer("Example:\n  ferry bench breakeven --gpt 32,4096,32,2048,4 --gpu rtx4090 --svg even.svg");

  CLI::App* const policies =
      command->add_subcommand("policies", "Step time over device bytes, for Ferry's policies and for what others do");
  add_device_flag(*policies, *flags);
  add_step_flags(*policies, flags->step, "all of it");
  add_contest_flags(*policies, *flags);
  add_output_flags(*policies, *flags, "Draw step time over device bytes here");
  policies->footer("Example:\n  ferry bench policies --gpt 32,4096,32,2048,4 --gpu a100-80 --svg pareto.svg");

  return [=] {
    for (CLI::App const* const part : command->get_subcommands()) require_flags_of_part(*command, *part);
    listen_for_interrupts();
    if (link->parsed()) return run_link(*flags);
    if (even->parsed()) return run_break_even(*flags);
    if (policies->parsed()) return run_policies(*flags);
    return run_all(*flags);
  };
}

}  // namespace ferry::command
