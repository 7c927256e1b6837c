// `ferry tape`: the hand trace of a step, by the real session on the sim device: what is on the tape when, and why a
// policy needs the bytes and the time that it needs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "common/cli.hpp"
#include "common/flags.hpp"
#include "common/output_file.hpp"
#include "common/printable.hpp"
#include "common/progress.hpp"
#include "common/step_flags.hpp"
#include "ferry/error.hpp"
#include "simulate/enough_budget.hpp"
#include "tape/tape_json.hpp"
#include "tape/tape_net.hpp"
#include "tape/tape_record.hpp"
#include "tape/tape_svg.hpp"
#include "tape/tape_text.hpp"

namespace ferry::command {

namespace {

constexpr std::uint32_t most_layers = 200;

struct tape_flags {
  step_flags step;
  std::optional<std::uint32_t> layers;
  std::optional<std::string> bytes;
  std::optional<double> forward_us, backward_us, link;
  std::optional<std::string> policy;
  bool compare = false;
  std::string svg_file, json_file;

  [[nodiscard]] bool has_model() const { return !step.profile_file.empty() || !step.gpt.empty(); }
  [[nodiscard]] bool has_hardware() const { return !step.gpu.empty() || !step.hardware_file.empty(); }
};

/// What the tapes are of.
struct tape_case {
  given_step given;
  std::optional<plain_net> net;  ///< unless it is a profile's or a model's

  /// Layers count from 1, as on paper; segments of a profile from 0, as everywhere in Ferry.
  [[nodiscard]] std::uint32_t first_number() const { return net ? 1 : 0; }
};

/// "1MiB" or "1MiB,4MiB"
void read_bytes(std::string const& text, plain_net& into) {
  auto const comma = text.find(',');
  auto const read = [&](std::string const& part) {
    constexpr std::size_t most = std::size_t{1} << 40;
    try {
      std::size_t const bytes = parse_bytes(part);
      if (bytes >= 1 && bytes <= most) return bytes;
    } catch (setting_error const&) {  // said below
    }
    throw setting_error(fmt::format(
        "--bytes='{}': give the bytes of x, or of x and h, each from 1 to 1TiB, for instance --bytes 1MiB,4MiB",
        printable(text)));
  };
  into.x_bytes = read(text.substr(0, comma));
  into.h_bytes = comma == std::string::npos ? into.x_bytes : read(text.substr(comma + 1));
}

plain_net net_of(tape_flags const& flags) {
  plain_net net;
  if (flags.layers) net.layers = *flags.layers;
  if (flags.bytes) read_bytes(*flags.bytes, net);
  if (flags.forward_us) net.forward_us = *flags.forward_us;
  if (flags.backward_us) net.backward_us = *flags.backward_us;
  if (flags.link) net.link_ratio = *flags.link;
  return net;
}

void require_no_contradiction(tape_flags const& flags) {
  bool const sizes = flags.layers || flags.bytes || flags.forward_us || flags.backward_us;
  if (flags.has_model() && sizes) {
    throw setting_error(
        "--layers, --bytes, --forward-us and --backward-us describe a plain net: leave them out with --profile or "
        "--gpt");
  }
  if (flags.link && (flags.has_model() || flags.has_hardware())) {
    throw setting_error("--link is a plain net's: leave it out with --profile, --gpt, --gpu or --hardware");
  }
  if (flags.compare && flags.policy) {
    throw setting_error("--compare shows policies of its own: leave out --policy, or --compare");
  }
  if (!flags.svg_file.empty() && flags.svg_file == flags.json_file) {
    throw setting_error("--svg and --json are the same file: give another");
  }
}

tape_case load(tape_flags flags) {
  tape_case loaded;
  if (flags.has_model()) {
    if (!flags.has_hardware()) flags.step.gpu = "a100-80";
    loaded.given = load_step(flags.step);
    return loaded;
  }
  loaded.net = net_of(flags);
  auto& given = loaded.given;
  given.step = profile_of(*loaded.net);
  given.on = flags.has_hardware() ? load_hardware(flags.step) : hardware_of(*loaded.net);
  given.keep_all_bytes = loaded.net->layers * (loaded.net->x_bytes + loaded.net->h_bytes);
  return loaded;
}

void follow_plan(simulation_options& options, given_step const& given) {
  auto const& file = options.settings.policy.file;
  auto planned = read_plan(file);
  try {
    require_match(planned, given.step);
  } catch (plan_mismatch const& problem) {
    throw failed(fmt::format("'{}': {}", printable(file), printable(problem.what())));
  }
  if (planned.budget_bytes > given.on.device_bytes) {
    throw failed(fmt::format("'{}': it was made for a budget of {}, and '{}' has {}; make one for this hardware",
                             printable(file), format_bytes(planned.budget_bytes), printable(given.on.name),
                             format_bytes(given.on.device_bytes)));
  }
  options.settings.budget = byte_amount::exactly(planned.budget_bytes);
  std::size_t const pinned = std::min(planned.host.limit, given.on.host_bytes);
  options.settings.host_budget = pinned > 0 ? byte_amount::exactly(pinned) : byte_amount::share(1.0);
  options.planned = std::move(planned);
}

simulation_options options_of(tape_flags const& flags, tape_case const& of, std::optional<std::string> const& policy) {
  simulation_options options;
  auto& settings = options.settings;
  settings = config::from_env();
  auto const is_given = [&](char const* variable) {
    return std::ranges::find(settings.given, variable) != settings.given.end();
  };
  if (of.net && !is_given("FERRY_MIN_BYTES")) settings.min_bytes = 0;  // on paper any unit will do
  if (of.net && !flags.has_hardware() && !is_given("FERRY_BUDGET")) settings.budget = byte_amount::share(1.0);
  if (policy) {
    set_by_flag(settings, "FERRY_POLICY", "--policy", policy);
  } else if (!is_given("FERRY_POLICY")) {
    settings.policy = {.kind = policy_kind::keep};
  }
  if (settings.policy.kind == policy_kind::plan) follow_plan(options, of.given);
  if (auto const bytes = device_budget(flags.step, of.given)) settings.budget = byte_amount::exactly(*bytes);
  if (auto const bytes = host_budget(flags.step, of.given)) settings.host_budget = byte_amount::exactly(*bytes);
  return options;
}

/// The policy as FERRY_POLICY would have it.
std::string words_of(config const& settings) {
  for (auto const& one : describe_settings(settings)) {
    if (one.variable == "FERRY_POLICY") return one.value;
  }
  return {};
}

tape record(tape_flags const& flags, tape_case const& of, std::optional<std::string> const& policy) {
  auto options = options_of(flags, of, policy);
  auto const name = words_of(options.settings);
  tape recorded;
  try {
    with_room(options.settings, fmt::format("--policy {}", printable(name)), of.given.on.device_bytes,
              [&](config const& settings) {
                options.settings = settings;
                recorded = record_tape(of.given.step, of.given.on, options, of.first_number());
              });
  } catch (out_of_pinned_memory const& problem) {
    throw failed(fmt::format("policy {}: {}", printable(name), problem.what()));
  }
  recorded.policy = name;
  return recorded;
}

bool same_tape(tape const& a, tape const& b) {
  return std::ranges::equal(a.steps, b.steps, {}, &tape_step::places, &tape_step::places);
}

/// Full, every second, by the root of the depth unless that is the same, and every layer.
std::vector<tape> record_comparison(tape_flags const& flags, tape_case const& of, progress& line) {
  std::vector<tape> tapes;
  for (char const* policy : {"keep", "every=2", "sqrt", "recompute"}) {
    line.show(fmt::format("policy {}", policy));
    auto recorded = record(flags, of, policy);
    if (recorded.policy == "sqrt" && same_tape(recorded, tapes.back())) continue;
    tapes.push_back(std::move(recorded));
  }
  return tapes;
}

std::vector<tape_growth> record_growth(tape_flags const& flags, tape_case const& of, progress& line) {
  constexpr std::uint32_t deepest = 256;
  std::vector<tape_growth> rows;
  if (!of.net || flags.has_hardware() || flags.step.budget || 4 * of.net->layers > deepest) return rows;
  for (std::uint32_t layers = of.net->layers; layers <= deepest && layers <= 16 * of.net->layers; layers *= 4) {
    tape_case deeper = of;
    deeper.net->layers = layers;
    deeper.given.step = profile_of(*deeper.net);
    deeper.given.on = hardware_of(*deeper.net);
    for (char const* policy : {"keep", "every=2", "sqrt", "recompute"}) {
      line.show(fmt::format("{} layers, policy {}", layers, policy));
      auto const recorded = record(flags, deeper, policy);
      rows.push_back({layers, policy, recorded.peak_bytes, extra_forward(recorded)});
    }
  }
  return rows;
}

/// A policy that chooses by the budget has nothing to choose where all fits.
std::string note_on_budget(tape const& of, tape_case const& shown) {
  bool const chooses = of.policy == "auto" || of.policy == "selective";
  if (!chooses || of.budget_bytes < shown.given.keep_all_bytes || of.recomputed_operations() > 0 || of.sent_bytes > 0) {
    return {};
  }
  return fmt::format("the budget holds everything, so {} keeps it; give --budget 50%, for instance\n", of.policy);
}

exit_code run(tape_flags const& flags) {
  require_no_contradiction(flags);
  auto const of = load(flags);
  require_usable_output(flags.svg_file);
  require_usable_output(flags.json_file);
  std::vector<tape> tapes;
  std::vector<tape_growth> growth;
  {
    progress line;
    if (flags.compare) {
      tapes = record_comparison(flags, of, line);
      growth = record_growth(flags, of, line);
    } else {
      line.show("recording");
      tapes.push_back(record(flags, of, flags.policy));
    }
  }
  if (!flags.svg_file.empty()) write_output(flags.svg_file, tape_svg(tapes));
  if (!flags.json_file.empty()) write_output(flags.json_file, text_of(tape_json(tapes, growth)));
  if (is_standard_output(flags.svg_file) || is_standard_output(flags.json_file)) return success;
  fmt::print("{}", flags.compare ? comparison_text(tapes, growth)
                                 : tape_text(tapes.front()) + note_on_budget(tapes.front(), of));
  return success;
}

void add_net_flags(CLI::App& command, tape_flags& into) {
  constexpr char const* net = "Plain net";
  command.add_option("--layers", into.layers, "A chain of so many layers, 1 to 200 [4]")
      ->type_name("N")
      ->check(within(1U, most_layers))
      ->group(net);
  command
      .add_option("--bytes", into.bytes,
                  "Bytes of x, a layer's input, and of h, its inside [1MiB,2MiB]; of both, if only one is given")
      ->type_name("X[,H]")
      ->group(net);
  constexpr double shortest_us = 0.1;
  constexpr double longest_us = 1e9;
  command
      .add_option("--forward-us", into.forward_us,
                  "A layer's forward: half of it makes h, the other the next layer's x [2000]")
      ->type_name("US")
      ->check(within(shortest_us, longest_us))
      ->group(net);
  command.add_option("--backward-us", into.backward_us, "A layer's backward [4000]")
      ->type_name("US")
      ->check(within(shortest_us, longest_us))
      ->group(net);
  constexpr double fastest = 0.001;
  constexpr double slowest = 1000;
  command
      .add_option("--link", into.link,
                  "How long the link takes to move a layer's x and h one way, in forwards of a layer [0.6]")
      ->type_name("RATIO")
      ->check(within(fastest, slowest))
      ->group(net);
}

void add_flags(CLI::App& command, tape_flags& into) {
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_net_flags(command, into);
  add_step_flags(command, into.step, "FERRY_HOST_BUDGET");
  constexpr char const* following = "What is followed";
  command
      .add_option("--policy", into.policy,
                  "As FERRY_POLICY: keep, recompute, offload, selective, every=N, sqrt, auto, plan=FILE [keep]")
      ->type_name("POLICY")
      ->group(following);
  command
      .add_flag("--compare", into.compare,
                "Instead: keep, every=2, sqrt (where it is another) and recompute side by side")
      ->group(following);
  constexpr char const* output = "Output";
  add_file_flag(command, "--svg", into.svg_file, "Draw the tape here; - is standard output", output);
  add_file_flag(command, "--json", into.json_file, "Write all of it here, as JSON; - is standard output", output);
  command.footer(
      "In a plain net each layer saves its input x and its inside h. h is made from x, the next layer's x from h; the\n"
      "first x is given and cannot be rebuilt, and what the last layer makes goes into the loss at once. `keep` keeps\n"
      "all (the full tape), `every=2` every second layer's x, `recompute` each layer's x: the rest is dropped in\n"
      "forward and rebuilt when backward needs it. Weights and gradients are not on the tape. Layers count from 1,\n"
      "segments of a --profile or --gpt from 0; without --gpu or --hardware these run on an a100-80.\n\n"
      "Examples:\n"
      "  ferry tape --layers 4 --compare\n"
      "  ferry tape --layers 4 --policy every=2 --svg tape.svg\n"
      "  ferry tape --layers 6 --policy auto --budget 50%\n"
      "  ferry tape --gpt 12,768,12,1024,8 --gpu rtx4090 --policy offload --json tape.json");
}

}  // namespace

runner add_tape(CLI::App& program) {
  auto const flags = std::make_shared<tape_flags>();
  CLI::App* const command =
      program.add_subcommand("tape", "Shows what is on the tape at each step of forward and backward");
  add_flags(*command, *flags);
  return [flags] { return run(*flags); };
}

}  // namespace ferry::command
