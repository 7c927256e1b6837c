// `ferry simulate`: the real session and store through a profiled step, on hardware that is not there.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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
#include "common/step_flags.hpp"
#include "common/timeline.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"
#include "ferry/simulate.hpp"
#include "simulate/enough_budget.hpp"
#include "simulate_trace.hpp"

namespace ferry::command {

namespace {

struct simulate_flags {
  step_flags step;
  std::string plan_file;
  std::optional<std::string> policy;
  std::uint32_t steps = simulation_options{}.steps;
  std::vector<std::string> slow;
  std::string trace_file, json_file;
};

/// "d2h=2": everything on that engine takes twice as long.
std::vector<sim_slow_down> read_slow_down(std::string const& text) {
  auto const refusal = [&] {
    return setting_error(
        fmt::format("--slow='{}': give d2h, h2d, link (both) or compute, and how many times as long everything on it "
                    "takes, above 0 to 1000: d2h=2",
                    printable(text)));
  };
  auto const equals = text.find('=');
  if (equals == std::string::npos) throw refusal();
  auto const name = std::string_view(text).substr(0, equals);
  auto const number = std::string_view(text).substr(equals + 1);
  constexpr double least = 0.001;
  constexpr double most = 1000;
  if (!number_problem(number, least, most).empty()) throw refusal();
  double factor = 0;
  std::from_chars(number.data(), number.data() + number.size(), factor);
  std::vector<sim_slow_down> found;
  auto const add = [&](sim_engine what) { found.push_back({.what = what, .factor = factor}); };
  if (name == "d2h" || name == "link") add(sim_engine::device_to_host);
  if (name == "h2d" || name == "link") add(sim_engine::host_to_device);
  if (name == "compute") add(sim_engine::compute);
  if (found.empty()) throw refusal();
  return found;
}

std::optional<plan> load_plan(simulate_flags const& flags, profile const& step) {
  if (flags.plan_file.empty()) return std::nullopt;
  auto planned = read_plan(flags.plan_file);
  try {
    require_match(planned, step);
  } catch (plan_mismatch const& problem) {
    throw failed(fmt::format("'{}': {}", printable(flags.plan_file), printable(problem.what())));
  }
  return planned;
}

simulation_options options_of(simulate_flags const& flags, given_step const& given) {
  simulation_options options;
  options.settings = config::from_env();
  options.planned = load_plan(flags, given.step);
  set_by_flag(options.settings, "FERRY_POLICY", "--policy", flags.policy);
  options.steps = flags.steps;
  for (auto const& text : flags.slow) {
    for (auto const& one : read_slow_down(text)) options.slow_downs.push_back(one);
  }
  auto& settings = options.settings;
  if (options.planned) {
    auto const& planned = *options.planned;
    settings.budget = byte_amount::exactly(planned.budget_bytes);
    std::size_t const pinned = std::min(planned.host.limit, given.on.host_bytes);
    settings.host_budget = pinned > 0 ? byte_amount::exactly(pinned) : byte_amount::share(1.0);
    if (planned.budget_bytes > given.on.device_bytes) {
      throw failed(fmt::format("'{}': it was made for a budget of {}, and '{}' has {}; make one for this hardware",
                               printable(flags.plan_file), format_bytes(planned.budget_bytes), given.on.name,
                               format_bytes(given.on.device_bytes)));
    }
  }
  if (auto const bytes = device_budget(flags.step, given)) settings.budget = byte_amount::exactly(*bytes);
  if (auto const bytes = host_budget(flags.step, given)) settings.host_budget = byte_amount::exactly(*bytes);
  return options;
}

std::string words_of(tier_stats const& tier) {
  return fmt::format("peak {} of {}, average {}", format_bytes(tier.peak_bytes), format_bytes(tier.limit_bytes),
                     format_bytes(static_cast<std::size_t>(std::max(tier.average_bytes, 0.0))));
}

std::string words_of_comparison(double ratio, plan const& planned) {
  double const difference = 100 * (ratio - 1);
  auto const words = std::abs(difference) < 0.005 ? "the same" : fmt::format("{:+.2f}%", difference);
  return fmt::format("{} predicted by the plan, simulated {:.4f} times that: {}", words_of_time(planned.step_us), ratio,
                     words);
}

void print(simulate_flags const& flags, given_step const& given, simulation const& done,
           std::vector<traced_span> const& spans) {
  auto const sums = sums_of(spans, done.step_us);
  auto const line = [](char const* name, std::string const& words) { fmt::print("{:<12}{}\n", name, words); };
  fmt::print("{}\non {}, {}\n\n", printable(given.step.name), printable(given.on.name),
             flags.plan_file.empty() ? fmt::format("policy {}", printable(*flags.policy))
                                     : fmt::format("plan '{}'", printable(flags.plan_file)));
  line("step", fmt::format("{}, the last of {}", words_of_time(done.step_us), flags.steps));
  if (done.planned && done.planned->step_us > 0) {
    line("plan", words_of_comparison(done.step_us / done.planned->step_us, *done.planned));
  }
  line("waiting", fmt::format("{} of that step", words_of_time(sums.waiting_us)));
  line("recompute", fmt::format("{} items, {}", sums.rebuilds, words_of_time(sums.rebuild_us)));
  line("link", fmt::format("{} out, {} in", format_bytes(sums.out_bytes), format_bytes(sums.in_bytes)));
  line("device", words_of(done.stats.device));
  line("pinned", words_of(done.stats.pinned));
  line("in flight", words_of(done.stats.in_flight));
  fmt::print("{:<12}over all steps:\n", "why");
  for (std::size_t i = 0; i < reason_count; ++i) {
    if (done.stats.reasons[i] == 0) continue;
    line("", fmt::format("{:<32} {:>8}", to_string(static_cast<reason>(i)), done.stats.reasons[i]));
  }
  fmt::print("\n{}{}", timeline(spans, done.step_us), idle_settings(done.stats));
}

nlohmann::ordered_json json_of(given_step const& given, simulation const& done, std::vector<traced_span> const& spans) {
  auto const sums = sums_of(spans, done.step_us);
  nlohmann::ordered_json value{
      {"profile", given.step.name},      {"hardware", given.on.name},         {"step_us", done.step_us},
      {"steps_us", done.steps_us},       {"waiting_us", sums.waiting_us},     {"rebuilds", sums.rebuilds},
      {"recompute_us", sums.rebuild_us}, {"offloaded_bytes", sums.out_bytes}, {"fetched_bytes", sums.in_bytes}};
  if (done.planned && done.planned->step_us > 0) {
    value["predicted_us"] = done.planned->step_us;
    value["ratio"] = done.step_us / done.planned->step_us;
  }
  value["session"] = nlohmann::ordered_json::parse(to_json(done.stats));
  return value;
}

void require_no_contradiction(simulate_flags const& flags) {
  if (flags.plan_file.empty() != flags.policy.has_value()) {
    throw setting_error("say what to follow: give --plan FILE or --policy NAME, one of them");
  }
  if (!flags.trace_file.empty() && flags.trace_file == flags.json_file) {
    throw setting_error("--trace and --json are the same file: give another");
  }
}

/// What is followed, as typed.
std::string followed_by(simulate_flags const& flags) {
  return flags.plan_file.empty() ? fmt::format("--policy {}", printable(*flags.policy))
                                 : fmt::format("--plan {}", printable(flags.plan_file));
}

simulation simulate_with_progress(given_step const& given, simulation_options options, std::string const& following) {
  using clock = std::chrono::steady_clock;
  progress shown;
  time_left left;
  auto next = clock::now() + std::chrono::milliseconds(500);  // what is quick shows nothing
  options.before_step = [&](std::uint32_t step, sim_device&) {
    if (clock::now() < next) return;
    next = clock::now() + std::chrono::milliseconds(100);
    shown.show(
        fmt::format("step {}/{}{}", step + 1, options.steps, left.words(static_cast<double>(step) / options.steps)));
  };
  simulation done;
  with_room(options.settings, following, given.on.device_bytes, [&](config const& settings) {
    options.settings = settings;
    done = simulate(given.step, given.on, options);
  });
  return done;
}

exit_code run(simulate_flags const& flags) {
  require_no_contradiction(flags);
  auto const given = load_step(flags.step);
  auto const options = options_of(flags, given);
  require_usable_output(flags.trace_file);
  require_usable_output(flags.json_file);
  auto const done = simulate_with_progress(given, options, followed_by(flags));
  auto const spans = spans_of(done, given.step);
  if (!flags.trace_file.empty()) write_output(flags.trace_file, trace_events(spans, given.step.name));
  if (!flags.json_file.empty()) write_output(flags.json_file, text_of(json_of(given, done, spans)));
  bool const silent = is_standard_output(flags.trace_file) || is_standard_output(flags.json_file);
  if (!silent) print(flags, given, done, spans);
  return success;
}

void add_flags(CLI::App& command, simulate_flags& into) {
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_step_flags(command, into.step, "the plan's, or FERRY_HOST_BUDGET");
  constexpr char const* following = "What is followed";
  add_file_flag(command, "--plan", into.plan_file, "A plan, as `ferry plan -o` writes it; the budgets are the plan's",
                following);
  command
      .add_option("--policy", into.policy,
                  "Instead: as FERRY_POLICY: auto, keep, recompute, offload, selective, every=N, sqrt")
      ->type_name("POLICY")
      ->group(following);
  constexpr std::uint32_t most_steps = 100'000;
  command.add_option("--steps", into.steps, "Steps; the last one is shown, policies learn in the first")
      ->type_name("N")
      ->check(within(1U, most_steps))
      ->group(following)
      ->capture_default_str();
  command
      .add_option("--slow", into.slow,
                  "d2h, h2d, link (both) or compute takes so many times as long: d2h=2; may be given again")
      ->type_name("WHAT=X")
      ->group(following)
      ->take_all();

  constexpr char const* output = "Output";
  add_file_flag(command, "--trace", into.trace_file,
                "Write the last step as trace events, for chrome://tracing or Perfetto; - is standard output", output);
  add_file_flag(command, "--json", into.json_file, "Write the numbers here, as JSON; - is standard output", output);
}

}  // namespace

runner add_simulate(CLI::App& program) {
  auto const flags = std::make_shared<simulate_flags>();
  CLI::App* const command =
      program.add_subcommand("simulate", "Runs a profiled step on a simulated device, under a plan or a policy");
  add_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  ferry simulate --profile examples/profiles/gpt_7b_a100.json --gpu a100-80 --policy recompute --budget 20%\n"
      "  ferry simulate --gpt 24,2048,16,1024,4 --gpu rtx4090 --policy auto --budget 30% --trace trace.json\n"
      "  ferry simulate --profile examples/profiles/gpt_7b_a100.json --gpu a100-80 --plan plan.json --slow link=2");
  return [flags] { return run(*flags); };
}

}  // namespace ferry::command
