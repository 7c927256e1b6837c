// `ferry plan`: what to keep, ferry and recompute under a budget, and what that is predicted to cost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/flags.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "common/progress.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "plan_flags.hpp"
#include "plan_text.hpp"

namespace ferry::command {

namespace {

void refuse(bool when, char const* why) {
  if (when) throw setting_error(why);
}

/// Flags that each make sense, but not together.
void require_no_contradiction(plan_flags const& flags) {
  auto const& step = flags.step;
  bool const is_case = !flags.case_file.empty();
  bool const has_step = !step.profile_file.empty() || !step.gpt.empty() || !step.gpu.empty() ||
                        !step.hardware_file.empty() || step.budget || step.host_budget;
  refuse(
      is_case && has_step,
      "--case has the step, the link and the limits in its file: leave out --profile, --gpt, --gpu, --hardware and the "
      "budgets");
  refuse(is_case && (flags.sweep > 0 || flags.why || !flags.plan_file.empty() || flags.not_insured),
         "--case takes only --json, --schedule, --first, --time-limit-ms, --effort and --seed");
  refuse(flags.effort > 0 && flags.time_limit_ms.has_value(),
         "--effort searches by moves, --time-limit-ms by the clock: leave one out");
  refuse(!is_case && (flags.schedule || flags.first), "--schedule and --first go with --case");
  refuse(flags.schedule && flags.json_file.empty(), "--schedule needs --json FILE: it says where");
  refuse(flags.sweep > 0 && step.budget.has_value(), "--sweep tries all budgets: leave out --budget, or --sweep");
  refuse(flags.sweep > 0 && (flags.why || !flags.plan_file.empty()),
         "--sweep makes many plans: leave out -o and --why, or --sweep");
  refuse(!flags.plan_file.empty() && flags.plan_file == flags.json_file,
         "-o and --json are the same file: give another");
}

/// Before the work: whether --why names something.
void require_item_or_segment(std::string const& why, profile const& step) {
  if (why.empty() || number_problem<std::size_t>(why, 0, step.segments.size() - 1).empty()) return;
  std::vector<std::string> names;
  for (auto const& segment : step.segments) {
    for (auto const& item : segment.items) {
      if (item.name == why) return;
      constexpr std::size_t most_told = 30;
      bool const told = std::ranges::find(names, item.name) != names.end();
      if (!told && names.size() < most_told) names.push_back(item.name);
    }
  }
  throw setting_error(
      fmt::format("--why='{}': there is no such item or segment; the items are {}, the segments 0 to {}",
                  printable(why), printable(fmt::format("{}", fmt::join(names, ", "))), step.segments.size() - 1));
}

void print(plan_flags const& flags, given_step const& given, plan const& made) {
  auto const share = 100.0 * static_cast<double>(made.budget_bytes) /
                     static_cast<double>(std::max<std::size_t>(given.keep_all_bytes, 1));
  auto const why = flags.why ? "\n" + reasons(made, *flags.why) : "";
  fmt::print("{}\nbudget {}, {:.3g}% of the {} that keeping all needs\n\n", printable(made.profile_name),
             format_bytes(made.budget_bytes), share, format_bytes(given.keep_all_bytes));
  fmt::print("{}\n{}\n{}{}", placement_table(made), forecast(made), timeline(made), why);
}

exit_code plan_step(plan_flags const& flags) {
  auto const given = load_step(flags.step);
  auto options = options_of(flags, given.step);
  auto const budget = device_budget(flags.step, given);
  if (!budget) throw setting_error("--budget BYTES is needed (12GiB, or 20%); --sweep 20 shows what budgets bring");
  options.budget_bytes = *budget;
  options.host_budget_bytes = host_budget(flags.step, given).value_or(0);
  if (flags.why) require_item_or_segment(*flags.why, given.step);
  require_usable_output(flags.plan_file);
  require_usable_output(flags.json_file);
  auto const made = [&] {
    progress shown;
    shown.show(options.effort > 0 ? fmt::format("planning, {} moves of each search", options.effort)
                                  : fmt::format("planning, {} at most", words_of_time(1000 * options.time_limit_ms)));
    try {
      return make_plan(given.step, given.on, options);
    } catch (infeasible_budget const& problem) {
      constexpr std::size_t kib = 1024;
      throw infeasible_budget(fmt::format("{}; the smallest that works is --budget {}KiB", printable(problem.what()),
                                          (problem.needed_bytes() + kib - 1) / kib),
                              problem.needed_bytes(), problem.limit_bytes());
    }
  }();
  if (!flags.plan_file.empty()) write_output(flags.plan_file, to_json(made));
  if (!flags.json_file.empty()) write_output(flags.json_file, text_of(report(made, given)));
  if (!flags.silent()) print(flags, given, made);
  return success;
}

exit_code run(plan_flags const& flags) {
  require_no_contradiction(flags);
  if (!flags.case_file.empty()) return plan_case(flags);
  return flags.sweep > 0 ? sweep_budgets(flags) : plan_step(flags);
}

void add_flags(CLI::App& command, plan_flags& into) {
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_step_flags(command, into.step, "all of it");
  constexpr char const* planning = "Planning";
  command.add_flag("--no-insure", into.not_insured, "Ferry also what could not be rebuilt if the link turns out slow")
      ->group(planning);
  auto const real = [&](char const* flag, double& to, double least, double most, char const* meaning) {
    command.add_option(flag, to, meaning)
        ->type_name("X")
        ->check(within(least, most))
        ->group(planning)
        ->capture_default_str();
  };
  real("--derate", into.derating, 0.01, 1, "Plan with this share of the link's bandwidth");
  real("--margin", into.margin, 0, 0.9, "Leave this share of the budget free for gaps");
  constexpr double an_hour_ms = 3'600'000;
  command
      .add_option("--time-limit-ms", into.time_limit_ms,
                  "End the search then, with the best so far [--effort; with --case what its length deserves]")
      ->type_name("MS")
      ->check(within(1.0, an_hour_ms))
      ->group(planning);
  constexpr std::uint64_t most_effort = 10'000'000;
  command
      .add_option("--effort", into.effort,
                  "Search by so many moves instead of by the clock: the same plan on every machine (FERRY_PLAN_EFFORT) "
                  "[60000 / segments, about a tenth of a second]")
      ->type_name("N")
      ->check(within<std::uint64_t>(1, most_effort))
      ->group(planning);
  command.add_option("--seed", into.seed, "Of the search")
      ->type_name("N")
      ->check(within<std::int64_t>(0, std::numeric_limits<std::int64_t>::max()))
      ->group(planning)
      ->capture_default_str();
  constexpr unsigned most_budgets = 1000;
  command
      .add_option("--sweep", into.sweep, "Instead of one plan: N budgets from the smallest to the one that keeps all")
      ->type_name("N")
      ->check(within(2U, most_budgets))
      ->group(planning);

  constexpr char const* output = "Output";
  add_file_flag(command, "-o,--output", into.plan_file,
                "Write the plan here, for FERRY_POLICY=plan=FILE; - is standard output", output);
  add_file_flag(command, "--json", into.json_file, "Write the numbers here, as JSON; - is standard output", output);
  command.add_option("--why", into.why, "Say why: of every item, of those of a name, or of a segment's")
      ->type_name("[ITEM|SEGMENT]")
      ->expected(0, 1)
      ->group(output);

  constexpr char const* cases = "Chains";
  add_file_flag(command, "--case", into.case_file,
                "Instead of a step: plan the chain in this file exactly as it is, neither insured nor derated", cases);
  command
      .add_flag("--schedule", into.schedule, "Put the timed schedule into --json too, as rows [start, end, op, arg]")
      ->group(cases);
  command.add_flag("--first", into.first, "Take the first plan, without the search")->group(cases);
  command.footer(
      "Exit code 3: no plan fits; the message names the smallest budget that one fits.\n\n"
      "Examples:\n"
      "  ferry plan --profile examples/profiles/gpt_7b_a100.json --gpu a100-80 --budget 20% -o plan.json\n"
      "  ferry plan --gpt 24,2048,16,1024,4 --gpu rtx4090 --budget 30% --why x\n"
      "  ferry plan --profile examples/profiles/chain_of_eight.json --gpu rtx4090 --sweep 5 --json sweep.json");
}

}  // namespace

plan_options options_of(plan_flags const& flags, profile const& step) {
  plan_options options;
  options.insured = !flags.not_insured;
  options.link_derating = flags.derating;
  options.fragmentation_margin = flags.margin;
  if (flags.time_limit_ms) {
    options.time_limit_ms = *flags.time_limit_ms;
  } else {
    options.effort = flags.effort > 0 ? flags.effort : quick_effort(step);
  }
  options.seed = flags.seed;
  return options;
}

runner add_plan(CLI::App& program) {
  auto const flags = std::make_shared<plan_flags>();
  CLI::App* const command =
      program.add_subcommand("plan", "Plans what to keep, ferry and recompute under a budget, and predicts the step");
  add_flags(*command, *flags);
  return [flags] { return run(*flags); };
}

}  // namespace ferry::command
