#include "doctor/doctor_flags.hpp"

#include <fmt/format.h>

#include <vector>

#include "common/cli.hpp"
#include "common/flags.hpp"
#include "doctor/hf_config.hpp"
#include "ferry/config.hpp"
#include "ferry/error.hpp"

namespace ferry::command {

namespace {

void add_number(CLI::App& command, char const* flag, std::optional<int>& to, char const* meaning, int most,
                char const* group) {
  command.add_option(flag, to, meaning)->type_name("N")->check(within(1, most))->group(group);
}

void add_model_flags(CLI::App& command, doctor_flags& into) {
  constexpr char const* group = "Model";
  command
      .add_option(
          "--model", into.kind,
          "gpt (GPT-2's blocks) or llama (Llama's, Mistral's, Qwen's) with the sizes below, or a well-known model")
      ->check(CLI::IsMember(model_names()))
      ->group(group);
  add_file_flag(
      command, "CONFIG,--config", into.config_file,
      "Instead, or in part: a Hugging Face config.json of GPT-2, Llama, Mistral, Mixtral, Qwen, Gemma, Phi-3 or "
      "gpt-oss; flags go before it",
      group);
  add_number(command, "--layers", into.layers, "Blocks", 10'000, group);
  add_number(command, "--width", into.width, "Features", 1 << 16, group);
  add_number(command, "--heads", into.heads, "Attention heads", 1 << 16, group);
  add_number(command, "--kv-heads", into.kv_heads, "llama: heads of keys and values [as many as heads]", 1 << 16,
             group);
  add_number(command, "--head-width", into.head_width, "llama: features of a head [width / heads]", 1 << 14, group);
  add_number(command, "--ffn", into.hidden, "Features of the hidden layer [gpt: 4 x width, llama: 8/3 x width]",
             1 << 18, group);
  add_number(command, "--vocab", into.vocabulary, "Words [gpt: 50257, llama: 32000]", 1 << 24, group);
  add_number(command, "--window", into.window, "llama: tokens that a query sees [all before it]", 1 << 30, group);
  command.add_flag("--tied", into.tied, "The head's weight is the token embedding [gpt]")->group(group);
  command.add_flag("--untied", into.untied, "It is not [llama]")->group(group);
}

void add_training_flags(CLI::App& command, doctor_flags& into) {
  constexpr char const* group = "Training";
  add_number(command, "--context", into.context, "Tokens in a sequence", 1 << 22, group);
  add_number(command, "--batch", into.batch, "Sequences in a step, on this GPU [1]", 1 << 20, group);
  command.add_option("--dtype", into.dtype, "Of activations, weights and gradients [bf16]")
      ->check(CLI::IsMember(std::vector<std::string>{"bf16", "fp16", "fp32"}))
      ->group(group);
  command.add_option("--attention", into.attention, "flash keeps no probabilities, explicit all of them [flash]")
      ->check(CLI::IsMember(std::vector<std::string>{"flash", "explicit"}))
      ->group(group);
  command
      .add_option("--kernels", into.kernels,
                  "What runs a block: fused ones, PyTorch's operations one by one, or what torch.compile makes of them "
                  "[fused]")
      ->check(CLI::IsMember(std::vector<std::string>{"fused", "eager", "compile"}))
      ->group(group);
  command
      .add_option("--logits", into.logits,
                  "Made in portions, or whole with fp32 copies and their gradients [portions; whole unless --kernels "
                  "fused]")
      ->check(CLI::IsMember(std::vector<std::string>{"portions", "whole"}))
      ->group(group);
  add_number(command, "--lora", into.lora,
             "Only adapters of this rank are trained, beside each linear layer of a block", 1 << 14, group);
  add_number(command, "--qlora", into.qlora, "The same, and the blocks' matrices are held in 4 bits (NF4)", 1 << 14,
             group);
  add_number(command, "--frozen", into.frozen, "The embedding and the first N blocks are not trained", 10'000, group);
  command
      .add_option("--optimizer", into.optimizer,
                  "-cpu steps on the host, -paged has moments there; sgd has no momentum; none: no training, no "
                  "gradients")
      ->capture_default_str()
      ->check(CLI::IsMember(optimizer_names()))
      ->group(group);
  command.add_option("--master", into.master, "The optimizer's copy of 16-bit weights: none where it has none [fp32]")
      ->check(CLI::IsMember(std::vector<std::string>{"fp32", "none"}))
      ->group(group);
  command
      .add_option("--zero", into.zero, "ZeRO's stage: 1 divides the optimizer's state, 2 gradients too, 3 weights too")
      ->type_name("N")
      ->check(within(1, 3))
      ->group(group);
  command.add_option("--ranks", into.ranks, "GPUs that --zero divides it among")
      ->type_name("N")
      ->check(within(1, 1 << 20))
      ->group(group);
}

template <typename To, typename From>
void set_if_given(To& to, std::optional<From> const& given) {
  if (given) to = *given;
}

kernel_kind kernels_named(std::string_view name) {
  return name == "eager" ? kernel_kind::eager : name == "compile" ? kernel_kind::compile : kernel_kind::fused;
}

training training_of(doctor_flags const& flags) {
  training how;
  how.optimizer = optimizer_named(flags.optimizer).value_or(optimizer_kind::adamw);
  how.master = flags.master.value_or("fp32") == "fp32";
  how.zero = flags.zero;
  how.ranks = flags.ranks;
  how.kernels = kernels_named(flags.kernels.value_or("fused"));
  how.whole_logits = flags.logits.value_or(how.kernels == kernel_kind::fused ? "portions" : "whole") == "whole";
  if (flags.lora && flags.qlora) throw setting_error("--lora and --qlora: give one of them");
  how.nf4 = flags.qlora.has_value();
  how.lora = how.nf4 ? *flags.qlora : flags.lora.value_or(0);
  if (flags.zero > 0 && flags.ranks == 1) {
    throw setting_error(fmt::format("--zero={} divides among GPUs: give --ranks N, 2 or more", flags.zero));
  }
  if (flags.zero == 0 && flags.ranks > 1) {
    throw setting_error(fmt::format("--ranks={} changes nothing without --zero: give --zero 1, 2 or 3", flags.ranks));
  }
  return how;
}

std::size_t bytes_of(char const* flag, std::optional<std::string> const& text, std::size_t otherwise) {
  if (!text) return otherwise;
  try {
    return parse_bytes(*text);
  } catch (setting_error const& problem) {
    throw setting_error(fmt::format("{}={}: {}", flag, *text, problem.what()));
  }
}

void add_interconnect_flags(CLI::App& command, doctor_flags& into) {
  command
      .add_option("--interconnect", into.interconnect,
                  "Between the GPUs: nvlink, pcie or ethernet [as such GPUs usually have; above 8, ethernet]")
      ->check(CLI::IsMember(std::vector<std::string>{"nvlink", "pcie", "ethernet"}))
      ->group("Hardware");
  constexpr double most_gbps = 1e4;
  command
      .add_option("--interconnect-gbps", into.interconnect_gbps,
                  "GB/s that each GPU sends over it, and receives, while all are at work [assumed]")
      ->type_name("X")
      ->check(within(0.01, most_gbps))
      ->group("Hardware");
}

}  // namespace

void add_doctor_flags(CLI::App& command, doctor_flags& into) {
  add_model_flags(command, into);
  add_training_flags(command, into);
  add_hardware_flags(command, into.machine);
  command
      .add_option("--host-memory", into.host_memory,
                  "The machine's memory, as far as it is for this GPU [the GPU's typical]")
      ->type_name("BYTES")
      ->group("Hardware");
  command.add_option("--reserve", into.reserve, "Device bytes that are nobody's: context, workspaces, gaps [1GiB]")
      ->type_name("BYTES")
      ->group("Hardware");
  add_interconnect_flags(command, into);
  add_file_flag(command, "--oom", into.oom_file, "A log with an out-of-memory message: of PyTorch, JAX, TensorFlow, ggml, NCCL, Ferry; - is standard input",
                "Message");
  add_file_flag(command, "--json", into.json_file, "Write the answer here, as JSON; - is standard output", "Output");
  add_file_flag(command, "--html", into.html_file,
                "Write the prescription here, as a page to pass on; - is standard output", "Output");
}

bool names_a_model(doctor_flags const& flags) {
  return flags.kind || !flags.config_file.empty() || flags.layers || flags.width || flags.heads;
}

model model_of(doctor_flags const& flags) {
  model of;
  if (!flags.config_file.empty()) {
    of = read_hf_config(flags.config_file);
    if (flags.kind) {
      throw setting_error("--model and a config.json both say what kind of model it is: give one of them");
    }
  } else if (!flags.kind) {
    throw setting_error("say which model: give --model gpt or llama with its sizes, or a Hugging Face config.json");
  } else {
    of = *named_model(*flags.kind);
  }
  if (flags.tied && flags.untied) throw setting_error("--tied and --untied: give one of them");
  if (flags.tied || flags.untied) of.tied = flags.tied;
  set_if_given(of.layers, flags.layers);
  set_if_given(of.width, flags.width);
  set_if_given(of.heads, flags.heads);
  set_if_given(of.kv_heads, flags.kv_heads);
  set_if_given(of.head_width, flags.head_width);
  set_if_given(of.hidden, flags.hidden);
  set_if_given(of.vocabulary, flags.vocabulary);
  set_if_given(of.context, flags.context);
  set_if_given(of.batch, flags.batch);
  set_if_given(of.window, flags.window);
  set_if_given(of.frozen, flags.frozen);
  if (flags.dtype) {
    of.numbers = *flags.dtype == "bf16" ? precision::bf16 : *flags.dtype == "fp16" ? precision::fp16 : precision::fp32;
  }
  if (flags.attention) of.flash = *flags.attention == "flash";
  if (of.kind == model_kind::gpt && (of.window != 0 || of.head_width != 0)) {
    throw setting_error("--window and --head-width are for llama: leave them out, or give --model llama");
  }
  return completed(std::move(of));
}

namespace {

/// Flags that go together, whatever each of them is.
void require_sense(question const& asked, doctor_flags const& flags) {
  bool const half = asked.of.numbers != precision::fp32;
  bool const adapters = asked.how.lora > 0;
  char const* const flag = asked.how.nf4 ? "--qlora" : "--lora";
  bool const trained = asked.how.optimizer != optimizer_kind::none;
  if (flags.master && (!half || adapters || !trained)) {
    throw setting_error(fmt::format("--master={} changes nothing {}: leave it out", *flags.master,
                                    !trained   ? "without an optimizer"
                                    : adapters ? "for adapters, which are fp32"
                                               : "with --dtype fp32"));
  }
  if (adapters && !trained) throw setting_error(fmt::format("{} trains: leave out --optimizer none", flag));
  if (adapters && flags.frozen) throw setting_error(fmt::format("{} freezes all blocks: leave out --frozen", flag));
  if (asked.how.nf4 && !half) throw setting_error("--qlora computes in 16 bits: leave out --dtype fp32");
}

/// What the optimizer holds there is not left for activations.
std::size_t host_memory_beside(state_bytes const& states, std::size_t memory, training const& how) {
  if (states.host < memory) return memory - states.host;
  throw setting_error(
      fmt::format("--optimizer={} holds {} in host memory, and there are {} for this GPU: raise --host-memory, or "
                  "divide it by --zero",
                  to_string(how.optimizer), format_bytes(states.host), format_bytes(memory)));
}

}  // namespace

question question_of(doctor_flags const& flags) {
  question asked;
  asked.of = model_of(flags);
  asked.how = training_of(flags);
  bool const half = asked.of.numbers != precision::fp32;
  asked.on = load_hardware(flags.machine, half);
  if (!flags.machine.gpu.empty()) asked.bf16 = load_gpus(flags.machine).find(flags.machine.gpu).bf16;
  constexpr std::size_t gib = std::size_t{1} << 30;
  asked.reserve = bytes_of("--reserve", flags.reserve, gib);
  require_sense(asked, flags);
  asked.host_memory = host_memory_beside(states_of(asked.of, asked.how),
                                         bytes_of("--host-memory", flags.host_memory, asked.on.host_bytes), asked.how);
  if (flags.interconnect) asked.between = interconnect_named(*flags.interconnect);
  asked.between_gbps = flags.interconnect_gbps;
  if (asked.reserve >= asked.on.device_bytes) {
    throw setting_error(fmt::format("--reserve: {} is all of the {} that '{}' has; lower it",
                                    format_bytes(asked.reserve), format_bytes(asked.on.device_bytes), asked.on.name));
  }
  return asked;
}

}  // namespace ferry::command
