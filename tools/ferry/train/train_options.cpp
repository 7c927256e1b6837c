#include "train_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/flags.hpp"
#include "common/output_file.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/error.hpp"
#include "ferry/nn/checkpoint.hpp"
#include "ferry/nn/file_error.hpp"
#include "ferry/nn/items.hpp"
#include "ferry/nn/ops_cuda.hpp"
#include "nn/atomic_file.hpp"
#include "support/available_memory.hpp"

namespace ferry::command {

namespace {

constexpr std::size_t slack_bytes = std::size_t{1} << 20;  // for alignment

std::string preset_names() {
  std::string names;
  for (auto const& one : nn::presets()) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

nn::preset const& chosen_preset(train_flags const& flags) {
  std::string const name = flags.preset.value_or("small");
  for (auto const& one : nn::presets()) {
    if (one.name == name) return one;
  }
  throw setting_error(fmt::format("--preset='{}': give one of {}", name, preset_names()));
}

/// Flags that each make sense, but not together.
void require_no_contradiction(train_flags const& flags) {
  auto const refuse = [](bool when, char const* why) {
    if (when) throw setting_error(why);
  };
  bool const saves = !flags.save_file.empty();
  bool const has_tokens = !flags.tokens.empty();
  refuse(flags.resume && !saves, "--resume needs --save FILE: it goes on from FILE.state");
  refuse(flags.resume && !flags.init_file.empty(), "--resume and --init both say where to start: give one of them");
  refuse(flags.overwrite && !saves, "--overwrite needs --save FILE: it replaces the model there");
  refuse(flags.overwrite && flags.resume, "--resume goes on with what --overwrite would replace: give one of them");
  refuse(flags.save_every > 0 && !saves, "--save-every needs --save FILE: it says where");
  refuse(has_tokens && flags.data_file.empty(), "--tokens needs --data: the shipped text is no token file");
  refuse(has_tokens && flags.prompt, "--prompt is text, which --tokens are not: leave out --prompt");
  refuse(!flags.compare && flags.slow_link, "--slow-link shows several policies side by side: add --compare");
  refuse(!flags.compare && !flags.svg_file.empty(),
         "--svg is a picture of --compare: add it, or draw a run with FERRY_TRACE and ferry report");
  if (!flags.compare) return;
  refuse(flags.policy.has_value(), "--compare tries every policy: leave out --policy, or --compare");
  refuse(saves || !flags.gradients_file.empty(),
         "--compare saves no model: leave out --save and --save-grads, or --compare");
  refuse(flags.explain, "--compare has several sessions to explain: leave out --explain, or --compare");
  refuse(!flags.init_file.empty(), "--compare starts from the initial weights: leave out --init, or --compare");
}

/// No file is written over another that this run writes, or reads as data. A model may be trained in its place.
void require_different_files(train_flags const& flags) {
  std::vector<std::pair<char const*, std::string>> named{
      {"--data", flags.data_file}, {"--save", flags.save_file}, {"--save-grads", flags.gradients_file}};
  if (!flags.save_file.empty()) named.emplace_back("the .state of --save", flags.save_file + ".state");
  named.emplace_back("--json", flags.json_file);
  named.emplace_back("--svg", flags.svg_file);
  std::map<std::filesystem::path, char const*> seen;
  for (auto const& [flag, file] : named) {
    if (file.empty()) continue;
    std::error_code unknown;  // a path that leads nowhere is the business of whoever opens it
    auto const [other, is_new] =
        seen.emplace(std::filesystem::weakly_canonical(std::filesystem::absolute(file, unknown), unknown), flag);
    if (!is_new && !unknown) {
      throw setting_error(fmt::format("{} and {} are the same file '{}': give another", other->second, flag, file));
    }
  }
}

nn::gpt_shape with_flags(nn::gpt_shape shape, train_flags const& flags) {
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
  return shape;
}

nn::gpt_shape choose_shape(train_flags const& flags) {
  auto shape = with_flags(chosen_preset(flags).shape, flags);
  if (!flags.init_file.empty()) {
    auto const stored = with_flags(nn::shape_of_model(flags.init_file), flags);
    shape.tied = stored.tied;  // which no preset decides
    if (flags.preset && shape != stored) {
      throw setting_error(fmt::format("--preset={} has another shape than --init='{}': leave out --preset",
                                      *flags.preset, flags.init_file));
    }
    shape = stored;
  }
  nn::require_valid(shape);
  return shape;
}

nn::token_data load_data(train_flags const& flags, nn::gpt_shape const& shape) {
  if (flags.data_file.empty()) return nn::token_data::shipped();
  if (flags.tokens.empty()) return nn::token_data::from_text(flags.data_file);
  auto const width = flags.tokens == "uint16" ? nn::token_width::u16 : nn::token_width::u32;
  return nn::token_data::from_tokens(flags.data_file, width, static_cast<std::size_t>(shape.vocabulary));
}

/// As typed: one, or with --compare several with commas between them.
std::vector<std::string> budget_texts(train_flags const& flags) {
  std::vector<std::string> texts;
  if (!flags.budget) return texts;
  std::string_view rest = *flags.budget;
  for (auto comma = rest.find(','); flags.compare && comma != rest.npos; comma = rest.find(',')) {
    texts.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma + 1);
  }
  texts.emplace_back(rest);
  if (!flags.compare && rest.find(',') != rest.npos) {
    throw setting_error(
        fmt::format("--budget='{}': several budgets need --compare; give one, or add --compare", *flags.budget));
  }
  constexpr std::size_t most = 8;
  if (texts.size() > most)
    throw setting_error(fmt::format("--budget: {} budgets are too many; give at most {}", texts.size(), most));
  if (flags.slow_link && texts.size() > 1)
    throw setting_error(fmt::format("--budget='{}': --slow-link takes one budget", *flags.budget));
  return texts;
}

/// Those that are asked for, in order; the first stays in the settings.
std::vector<std::size_t> asked_budgets(train_plan& plan) {
  auto& settings = plan.settings;
  std::vector<std::size_t> asked;
  std::optional<byte_amount> first;
  for (auto const& text : budget_texts(plan.flags)) {
    set_by_flag(settings, "FERRY_BUDGET", "--budget", text);
    if (!first) first = settings.budget;
    asked.push_back(settings.budget.of(plan.keep_all_bytes));
  }
  if (first) {
    settings.budget = *first;
  } else if (is_set("FERRY_BUDGET")) {
    asked.push_back(settings.budget.of(plan.device_is_sized ? settings.device_bytes : plan.keep_all_bytes));
  } else {
    constexpr double share_to_compare = 0.2;
    asked.push_back(byte_amount::share(plan.flags.compare ? share_to_compare : 1.0).of(plan.keep_all_bytes));
  }
  return asked;
}

/// What of the budget fits a device whose size is given.
std::size_t fitting_budget(train_plan const& plan, std::size_t asked) {
  auto const& settings = plan.settings;
  std::size_t const state = plan.device_bytes_for(0);
  if (state >= settings.device_bytes) {
    throw setting_error(
        fmt::format("FERRY_DEVICE_BYTES={}: weights, gradients and AdamW's moments alone take {}; "
                    "raise it, or choose a smaller --preset, --layers or --width",
                    settings.device_bytes, format_bytes(state)));
  }
  std::size_t const room = settings.device_bytes - state;
  bool const in_bytes = plan.flags.budget || (is_set("FERRY_BUDGET") && settings.budget.fraction == 0);
  if (in_bytes && asked > room) {
    throw setting_error(
        fmt::format("{}={}: FERRY_DEVICE_BYTES={} leaves {} beside weights, gradients and moments; "
                    "lower the one or raise the other",
                    plan.flags.budget ? "--budget" : "FERRY_BUDGET", format_bytes(asked), settings.device_bytes,
                    format_bytes(room)));
  }
  return std::min(asked, room);
}

/// What a trainer's and a model's staging take of pinned memory.
std::size_t staging_bytes(nn::gpt_shape const& shape, int batch) {
  std::size_t const tokens = 2 * sizeof(std::int32_t) * static_cast<std::size_t>(batch) * shape.context;
  return nn::staging::default_bytes + std::max(tokens, shape.vocabulary * sizeof(float)) + slack_bytes;
}

std::size_t machine_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void settle_pinned_memory(train_plan& plan) {
  auto& settings = plan.settings;
  bool const is_given = settings.pinned_bytes != 0;
  std::size_t pinned = is_given ? settings.pinned_bytes : plan.pinned_bytes();
  if (!is_given && plan.on_gpu()) pinned = std::min(pinned, machine_bytes() / 2);  // more than that no GPU pins unasked
  if (!plan.on_gpu()) settings.pinned_bytes = pinned;
  std::size_t const staging = staging_bytes(plan.shape, plan.batch);
  if (pinned <= staging) {
    throw setting_error(fmt::format("FERRY_PINNED_BYTES={}: copies to and from the device alone take {}; raise it",
                                    pinned, format_bytes(staging)));
  }
  std::size_t const room = pinned - staging;
  auto& budget = settings.host_budget;
  if (!is_set("FERRY_HOST_BUDGET")) budget = byte_amount::share(1.0);
  if (budget.fraction > 0) budget = byte_amount::exactly(std::min(budget.of(pinned), room));
  // More than a step has cannot be used; more than a given device can pin is an error, which the session reports.
  if (!is_given) budget.bytes = std::min(budget.bytes, plan.keep_all_bytes);
}

/// In bytes, each once; no step takes more than keeping all needs, and no more is taken for it.
void settle_budgets(train_plan& plan) {
  for (std::size_t bytes : asked_budgets(plan)) {
    if (plan.device_is_sized) bytes = fitting_budget(plan, bytes);
    if (bytes == 0) throw setting_error("--budget=0: give the device bytes for activations, above zero");
    if (plan.asked_bytes == 0) plan.asked_bytes = bytes;
    bytes = std::min(bytes, plan.keep_all_bytes);
    if (std::ranges::find(plan.budgets, bytes) == plan.budgets.end()) plan.budgets.push_back(bytes);
  }
  plan.budget_bytes = plan.budgets.front();
}

/// Budgets in bytes, and a host device that is as large as model and budget need, unless the environment says how
/// large it is. A GPU is as large as it is.
void settle_memory(train_plan& plan) {
  auto& settings = plan.settings;
  plan.device_is_sized = settings.device_bytes != 0;
  settle_budgets(plan);
  if (!plan.device_is_sized && !plan.on_gpu()) settings.device_bytes = plan.device_bytes_for(plan.budget_bytes);
  settings.budget = byte_amount::exactly(plan.budget_bytes);
  settle_pinned_memory(plan);
  if (plan.on_gpu()) return;
  auto const policy = settings.policy.kind;
  bool const offloads =
      policy == policy_kind::offload || policy == policy_kind::automatic || policy == policy_kind::plan;
  std::size_t const away = offloads ? std::min(plan.keep_all_bytes - plan.budget_bytes, settings.host_budget.bytes) : 0;
  // To begin and to save, the weights and moments are in ordinary memory a second time.
  require_machine_memory(plan.device_bytes_for(plan.budget_bytes + away + plan.state_bytes()));
}

/// So that a long run fails at its start, not at its end.
void require_usable_files(train_plan const& plan) {
  auto const& flags = plan.flags;
  for (auto const& file : {flags.save_file, flags.gradients_file, flags.profile_file}) {
    if (!file.empty()) nn::require_writable(file);
  }
  require_usable_output(flags.json_file);
  require_usable_output(flags.svg_file);
  if (!flags.save_file.empty()) nn::require_writable(plan.state_file());
}

/// A model is not replaced unasked. One to go on from is not there before the first run.
void settle_saving(train_plan& plan) {
  auto const& flags = plan.flags;
  if (flags.save_file.empty()) return;
  std::error_code unknown;
  bool const has_model = std::filesystem::exists(flags.save_file, unknown);
  bool const has_state = std::filesystem::exists(plan.state_file(), unknown);
  plan.resumes = flags.resume && has_state;
  if (plan.resumes || flags.overwrite || !(has_model || has_state)) return;
  if (flags.resume) {
    throw nn::file_error(plan.state_file(), fmt::format("is not there to resume from, but '{}' is", flags.save_file),
                         "check --save, or start from that model with --init and save elsewhere");
  }
  throw setting_error(
      fmt::format("--save='{}': '{}' is there already; go on with --resume, replace it with --overwrite, or save "
                  "elsewhere",
                  flags.save_file, has_model ? flags.save_file : plan.state_file()));
}

}  // namespace

// NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
bool is_set(char const* variable) { return std::getenv(variable) != nullptr; }

std::string policy_name(config const& settings) {
  for (auto const& one : describe_settings(settings)) {
    if (one.variable == "FERRY_POLICY") return one.value;
  }
  return {};
}

void require_machine_memory(std::size_t bytes) {
  auto const there = support::memory_available();
  if (bytes <= there.bytes) return;
  throw setting_error(
      fmt::format("{} of memory are needed, but of the memory of {} {} are available; lower --budget (FERRY_BUDGET), "
                  "--batch, --layers or --width",
                  format_bytes(bytes), there.of, format_bytes(there.bytes)));
}

std::size_t train_plan::device_bytes_for(std::size_t budget) const {
  std::size_t const state = state_bytes() + slack_bytes + (on_gpu() ? nn::cuda_ops_bytes : 0);
  // A budget near the largest of all numbers must not wrap around to a small device.
  return state + std::min(budget, std::numeric_limits<std::size_t>::max() - state);
}

std::size_t train_plan::pinned_bytes() const { return keep_all_bytes + staging_bytes(shape, batch); }

std::size_t bytes_to_keep_all(nn::gpt_shape const& shape, int batch) {
  std::size_t floats_of_block = 0;
  std::size_t largest = 0;
  for (auto const& one : nn::describe_items(shape, batch)) {
    floats_of_block += one.floats;
    largest = std::max(largest, one.floats);
  }
  int const rows = batch * shape.context;
  largest = std::max(largest, static_cast<std::size_t>(nn::rows_of_logits(shape, rows)) * shape.vocabulary);
  std::size_t const residual = static_cast<std::size_t>(rows) * shape.width;
  // Beside the items: what the turn and the last block's backward work with, and some for rounding.
  std::size_t const floats = floats_of_block * shape.layers + largest + 8 * residual;
  return (floats * sizeof(float) + (std::size_t{256} << 10)) / 4096 * 4096;
}

train_plan make_train_plan(train_flags flags) {
  require_no_contradiction(flags);
  require_different_files(flags);
  auto const shape = choose_shape(flags);
  auto data = load_data(flags, shape);
  train_plan plan{std::move(flags), shape, 0, std::move(data), config::from_env()};
  auto const& chosen = plan.flags;
  if (plan.data.vocabulary() > static_cast<std::size_t>(shape.vocabulary)) {
    throw setting_error(fmt::format("--vocab={}: text has {} kinds of bytes; give --vocab={} or more", shape.vocabulary,
                                    plan.data.vocabulary(), plan.data.vocabulary()));
  }
  plan.data.require_context(static_cast<std::size_t>(shape.context));
  plan.batch = chosen.batch.value_or(chosen_preset(chosen).batch);
  if (plan.batch < 1 || static_cast<long>(plan.batch) * shape.context > (1L << 24)) {
    throw setting_error(fmt::format("--batch={}: give 1 or more, and at most {} with --context={}", plan.batch,
                                    (1L << 24) / shape.context, shape.context));
  }
  set_by_flag(plan.settings, "FERRY_DEVICE", "--device", chosen.device);
  if (plan.settings.device == "auto") plan.settings.device = find_cuda().why_not.empty() ? "cuda" : "host";
  set_by_flag(plan.settings, "FERRY_POLICY", "--policy", chosen.policy);
  plan.keep_all_bytes = bytes_to_keep_all(shape, plan.batch);
  settle_memory(plan);
  require_usable_files(plan);
  settle_saving(plan);
  return plan;
}

}  // namespace ferry::command
