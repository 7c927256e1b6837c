#include "train_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "ferry/error.hpp"
#include "nn/atomic_file.hpp"
#include "nn/checkpoint.hpp"
#include "nn/items.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t slack_bytes = std::size_t{1} << 20;  // for alignment

std::string preset_names() {
  std::string names;
  for (auto const& one : nn::presets()) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

nn::preset const& preset_called(std::string const& name) {
  for (auto const& one : nn::presets()) {
    if (one.name == name) return one;
  }
  throw setting_error(fmt::format("--preset='{}': give one of {}", name, preset_names()));
}

bool is_set(char const* variable) { return std::getenv(variable) != nullptr; }

nn::gpt_shape choose_shape(train_flags const& flags) {
  auto shape = flags.init_file.empty() ? preset_called(flags.preset).shape : nn::shape_of_model(flags.init_file);
  auto const set = [](std::optional<int> const& given, int& to) {
    if (given) to = *given;
  };
  set(flags.layers, shape.layers);
  set(flags.width, shape.width);
  set(flags.heads, shape.heads);
  set(flags.context, shape.context);
  set(flags.vocabulary, shape.vocabulary);
  if (flags.untied) shape.tied = false;
  if (flags.attention == "explicit") shape.attention = nn::attention_form::whole;
  if (flags.attention == "tiled") shape.attention = nn::attention_form::tiled;
  nn::require_valid(shape);
  return shape;
}

nn::token_data load_data(train_flags const& flags, nn::gpt_shape const& shape) {
  if (flags.data_file.empty()) {
    if (!flags.tokens.empty()) throw setting_error("--tokens needs --data: the shipped text is no token file");
    return nn::token_data::shipped();
  }
  if (flags.tokens.empty()) return nn::token_data::from_text(flags.data_file);
  auto const width = flags.tokens == "uint16" ? nn::token_width::u16 : nn::token_width::u32;
  return nn::token_data::from_tokens(flags.data_file, width, static_cast<std::size_t>(shape.vocabulary));
}

/// Budgets in bytes, and a host device that is as large as model and budget need, unless the environment says how
/// large it is.
void settle_memory(train_plan& plan) {
  auto& settings = plan.settings;
  bool const budget_is_given = !plan.flags.budget.empty() || is_set("FERRY_BUDGET");
  std::size_t const state = plan.state_bytes() + slack_bytes;
  if (is_set("FERRY_DEVICE_BYTES")) {
    if (state >= settings.device_bytes) {
      throw setting_error(
          fmt::format("FERRY_DEVICE_BYTES={}: weights, gradients and AdamW's moments alone take {}; "
                      "raise it, or choose a smaller --preset, --layers or --width",
                      settings.device_bytes, format_bytes(state)));
    }
    plan.budget_bytes = std::min(settings.budget.of(settings.device_bytes), settings.device_bytes - state);
  } else {
    byte_amount const whole = byte_amount::share(1.0);
    plan.budget_bytes = (budget_is_given ? settings.budget : whole).of(plan.keep_all_bytes);
    settings.device_bytes = state + plan.budget_bytes;
  }
  if (plan.budget_bytes == 0) throw setting_error("--budget=0: give the device bytes for activations, above zero");
  if (!is_set("FERRY_PINNED_BYTES")) {
    settings.pinned_bytes = plan.keep_all_bytes + 4 * nn::staging::default_bytes + slack_bytes;
  }
  if (!is_set("FERRY_HOST_BUDGET"))
    settings.host_budget = byte_amount::exactly(std::min(plan.keep_all_bytes, settings.pinned_bytes / 2));
  settings.budget = byte_amount::exactly(plan.budget_bytes);
  auto const machine =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Asked here, because a machine that hands out memory it does not have ends the program without a word.
  if (settings.device_bytes > machine) {
    throw setting_error(
        fmt::format("{} of device memory are needed, this machine has {}; lower --budget, --batch, --layers or --width",
                    format_bytes(settings.device_bytes), format_bytes(machine)));
  }
}

/// So that a long run fails at its start, not at its end.
void require_writable_files(train_plan const& plan) {
  auto const& flags = plan.flags;
  for (auto const& file : {flags.save_file, flags.gradients_file, flags.json_file}) {
    if (!file.empty()) nn::require_writable(file);
  }
  if (!flags.save_file.empty()) nn::require_writable(plan.state_file());
}

}  // namespace

void add_train_flags(CLI::App& command, train_flags& into) {
  auto const file = [&](char const* flag, std::string& to, char const* meaning, char const* group) {
    command.add_option(flag, to, meaning)->type_name("FILE")->group(group);
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
  command.add_option("--preset", into.preset, "tiny, small, medium or gpt2")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(model);
  number("--layers", into.layers, "Blocks", model);
  number("--width", into.width, "Features", model);
  number("--heads", into.heads, "Attention heads", model);
  number("--context", into.context, "Tokens in a sequence", model);
  number("--vocab", into.vocabulary, "Words; 256 for text", model);
  command.add_flag("--untied", into.untied, "The head has a weight of its own")->group(model);
  command.add_option("--attention", into.attention, "explicit keeps probabilities, tiled rebuilds them [tiled]")
      ->check(CLI::IsMember({"explicit", "tiled"}))
      ->group(model);

  constexpr char const* memory = "Memory";
  command.add_option("--policy", into.policy, "As FERRY_POLICY: keep, recompute, offload, selective, every=N, sqrt")
      ->type_name("POLICY")
      ->group(memory);
  command
      .add_option("--budget", into.budget,
                  "Device bytes for activations (64MiB), or a share of what keeping all needs (20%)")
      ->type_name("BYTES")
      ->group(memory);
  command
      .add_flag("--compare", into.compare,
                "Train under --budget with each policy in turns, and print one table (budget: 20% if not given)")
      ->group(memory);

  constexpr char const* training = "Training";
  number("--steps", into.training.steps, "Steps in all", training)->capture_default_str();
  number("--batch", into.batch, "Sequences in a micro-batch [the preset's]", training);
  number("--accumulate", into.training.accumulate, "Micro-batches per step", training)
      ->check(CLI::Range(1U, 100'000U))
      ->capture_default_str();
  auto const real = [&](char const* flag, float& to, char const* meaning) {
    command.add_option(flag, to, meaning)
        ->type_name("X")
        ->check(CLI::Range(0.0F, 1e6F))
        ->group(training)
        ->capture_default_str();
  };
  real("--lr", into.training.learning_rate, "Learning rate, at its highest");
  number("--warmup", into.training.warmup, "Steps until then; a cosine follows", training)->capture_default_str();
  real("--clip", into.training.clip, "Limit of the gradients' norm; 0: none");
  real("--weight-decay", into.training.weight_decay, "Of matrices");
  number("--seed", into.training.seed, "Of the initial weights, the batches and the sample", training)
      ->capture_default_str();

  constexpr char const* files = "Files";
  file("--init", into.init_file, "Start from this model (safetensors, as GPT2LMHeadModel.save_pretrained writes it)",
       files);
  file("--save", into.save_file, "Save the model here at the end and at Ctrl-C, and FILE.state to go on from", files);
  number("--save-every", into.save_every, "Save every N steps too", files);
  command.add_flag("--resume", into.resume, "Go on from FILE.state of --save FILE")->group(files);
  file("--save-grads", into.gradients_file, "Save the last step's gradients here", files);
  file("--json", into.json_file, "Write every step and a summary here, as JSON", files);

  constexpr char const* output = "Output";
  number("--validate-every", into.validate_every, "Steps between validation losses; 0: none", output)
      ->capture_default_str();
  number("--validation-batches", into.validation_batches, "Batches of a validation", output)
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  number("--sample", into.sample, "Tokens to generate at the end; 0: none", output)
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--temperature", into.temperature, "Of the sample; 0 takes the likeliest token")
      ->type_name("X")
      ->check(CLI::Range(0.0, 100.0))
      ->group(output)
      ->capture_default_str();
  command.add_option("--prompt", into.prompt, "What the sample begins with; text data only")
      ->type_name("TEXT")
      ->group(output);
}

std::size_t bytes_to_keep_all(nn::gpt_shape const& shape, int batch) {
  std::size_t floats_of_block = 0;
  std::size_t largest = 0;
  for (auto const& one : nn::describe_items(shape, batch)) {
    floats_of_block += one.floats;
    largest = std::max(largest, one.floats);
  }
  std::size_t const residual = static_cast<std::size_t>(batch) * shape.context * shape.width;
  // Beside the items: what the turn and the last block's backward work with, and some for rounding.
  std::size_t const floats = floats_of_block * shape.layers + largest + 8 * residual;
  return (floats * sizeof(float) + (std::size_t{256} << 10)) / 4096 * 4096;
}

train_plan make_train_plan(train_flags flags) {
  auto const shape = choose_shape(flags);
  auto data = load_data(flags, shape);
  train_plan plan{std::move(flags), shape, 0, std::move(data), config::from_env(), false, 0, 0};
  auto const& chosen = plan.flags;
  if (plan.data.vocabulary() > static_cast<std::size_t>(shape.vocabulary)) {
    throw setting_error(fmt::format("--vocab={}: text has {} kinds of bytes; give --vocab={} or more", shape.vocabulary,
                                    plan.data.vocabulary(), plan.data.vocabulary()));
  }
  plan.data.require_context(static_cast<std::size_t>(shape.context));
  plan.batch = chosen.batch.value_or(preset_called(chosen.preset).batch);
  if (plan.batch < 1 || static_cast<long>(plan.batch) * shape.context > (1L << 24)) {
    throw setting_error(fmt::format("--batch={}: give 1 or more, and at most {} with --context={}", plan.batch,
                                    (1L << 24) / shape.context, shape.context));
  }
  if (chosen.resume && chosen.save_file.empty()) {
    throw setting_error("--resume needs --save FILE: it goes on from FILE.state");
  }
  if (chosen.resume && !chosen.init_file.empty()) {
    throw setting_error("--resume and --init both say where to start: give one of them");
  }
  auto& settings = plan.settings;
  if (!chosen.policy.empty()) settings.set("FERRY_POLICY", chosen.policy);
  if (!chosen.budget.empty()) settings.set("FERRY_BUDGET", chosen.budget);
  plan.policy_is_given = !chosen.policy.empty() || is_set("FERRY_POLICY");
  plan.keep_all_bytes = bytes_to_keep_all(shape, plan.batch);
  settle_memory(plan);
  require_writable_files(plan);
  return plan;
}

}  // namespace ferry::command
