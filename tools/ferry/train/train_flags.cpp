// The flags of `ferry train`: their names, groups and limits.
#include <limits>
#include <string>

#include "common/cli.hpp"
#include "common/flags.hpp"
#include "train_options.hpp"

namespace ferry::command {

namespace {

constexpr std::int64_t most_steps = 1'000'000'000;
CLI::Validator count_from(std::int64_t least, std::int64_t most = most_steps) { return within(least, most); }

}  // namespace

void add_train_flags(CLI::App& command, train_flags& into) {
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // so scripts/demo can be told more
  auto const file = [&](char const* flag, std::string& to, char const* meaning, char const* group) {
    add_file_flag(command, flag, to, meaning, group);
  };
  auto const number = [&](char const* flag, auto& to, char const* meaning, char const* group) {
    return command.add_option(flag, to, meaning)->type_name("N")->group(group);
  };
  constexpr char const* data = "Data";
  file("--data", into.data_file, "Train on this file: any text, byte by byte [a shipped text]", data);
  command.add_option("--tokens", into.tokens, "The file holds tokens of this type, each below --vocab")
      ->check(CLI::IsMember({"uint16", "uint32"}))
      ->group(data);

  constexpr char const* model = "Model";
  command.add_option("--preset", into.preset, "tiny, small, deep, medium or gpt2 [small, or the shape of --init]")
      ->type_name("NAME")
      ->group(model);
  // Of no size is more allowed; how much of each, and which go together, is asked when all are known.
  constexpr int most_of_any = 1 << 24;
  auto const size = [&](char const* flag, std::optional<int>& to, char const* meaning, char const* group) {
    number(flag, to, meaning, group)->check(within(1, most_of_any));
  };
  size("--layers", into.layers, "Blocks", model);
  size("--width", into.width, "Features", model);
  size("--heads", into.heads, "Attention heads", model);
  size("--context", into.context, "Tokens in a sequence", model);
  size("--vocab", into.vocabulary, "Words; 256 for text", model);
  command.add_flag("--untied", into.untied, "The head has a weight of its own")->group(model);
  command.add_option("--attention", into.attention, "explicit keeps probabilities, tiled rebuilds them [tiled]")
      ->check(CLI::IsMember({"explicit", "tiled"}))
      ->group(model);

  constexpr char const* memory = "Memory";
  command.add_option("--device", into.device, "As FERRY_DEVICE: auto, host, sim, cuda, cuda:N")
      ->type_name("NAME")
      ->group(memory);
  command
      .add_option("--policy", into.policy,
                  "As FERRY_POLICY: auto, keep, recompute, offload, selective, every=N, sqrt, plan=FILE")
      ->type_name("POLICY")
      ->group(memory);
  command
      .add_option("--budget", into.budget,
                  "Device bytes for activations (64MiB), or a share of what keeping all needs (20%); several for "
                  "--compare: 20%,30%")
      ->type_name("BYTES")
      ->group(memory);
  command
      .add_flag("--compare", into.compare,
                "Train under --budget with each policy in turns, and print one table (budget: 20% if not given)")
      ->group(memory);
  command
      .add_flag(
          "--slow-link", into.slow_link,
          "With --compare: halfway the link drops to a third; a plan that stays, the rule alone and auto in turns")
      ->group(memory);

  constexpr char const* training = "Training";
  number("--steps", into.training.steps, "Steps in all", training)->check(count_from(1))->capture_default_str();
  size("--batch", into.batch, "Sequences in a micro-batch [the preset's]", training);
  number("--accumulate", into.training.accumulate, "Micro-batches per step", training)
      ->check(count_from(1, 100'000))
      ->capture_default_str();
  auto const real = [&](char const* flag, auto& to, double most, char const* meaning, char const* group) {
    command.add_option(flag, to, meaning)
        ->type_name("X")
        ->check(within(0.0, most))
        ->group(group)
        ->capture_default_str();
  };
  real("--lr", into.training.learning_rate, 1e6, "Learning rate, at its highest", training);
  number("--warmup", into.training.warmup, "Steps until then; a cosine follows", training)
      ->check(count_from(0))
      ->capture_default_str();
  real("--clip", into.training.clip, 1e6, "Limit of the gradients' norm; 0: none", training);
  real("--weight-decay", into.training.weight_decay, 1e6, "Of matrices", training);
  number("--seed", into.training.seed, "Of the initial weights, the batches and the sample", training)
      ->check(count_from(0, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();

  constexpr char const* files = "Files";
  file("--init", into.init_file,
       "Start from this model (safetensors of F32, F16 or BF16, as GPT2LMHeadModel.save_pretrained writes it)", files);
  file("--save", into.save_file, "Save the model here at the end and at Ctrl-C, and FILE.state to go on from", files);
  number("--save-every", into.save_every, "Save every N steps too", files)->check(count_from(1));
  command.add_flag("--resume", into.resume, "Go on from FILE.state of --save FILE; from the start if nothing is there")
      ->group(files);
  command.add_flag("--overwrite", into.overwrite, "Replace the model that is at --save FILE")->group(files);
  file("--save-grads", into.gradients_file, "Save the last step's gradients here", files);
  file("--profile", into.profile_file, "Write what a step looked like here, for `ferry plan`", files);
  file("--json", into.json_file, "Write every step and a summary here, as JSON; - is standard output", files);
  file("--svg", into.svg_file, "Draw what --compare has measured here; - is standard output", files);

  constexpr char const* output = "Output";
  command.add_flag("--explain", into.explain, "Say at the end where time was lost, and which setting would change it")
      ->group(output);
  number("--validate-every", into.validate_every, "Steps between validation losses; 0: none", output)
      ->check(count_from(0))
      ->capture_default_str();
  number("--validation-batches", into.validation_batches, "Batches of a validation", output)
      ->check(count_from(1, 1'000'000))
      ->capture_default_str();
  number("--sample", into.sample, "Tokens to generate at the end; 0: none", output)
      ->check(count_from(0, 1'000'000))
      ->capture_default_str();
  real("--temperature", into.temperature, 100, "Of the sample; 0 takes the likeliest token", output);
  command.add_option("--prompt", into.prompt, "What the sample begins with; text data only")
      ->type_name("TEXT")
      ->group(output);
}

}  // namespace ferry::command
