#include "doctor/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/weights.hpp"
#include "ferry/error.hpp"
#include "ferry/model_profile.hpp"

namespace ferry::command {

namespace {

gpt_dimensions gpt_of(model const& of) {
  return {.layers = of.layers,
          .width = of.width,
          .heads = of.heads,
          .context = of.context,
          .batch = of.batch,
          .vocabulary = of.vocabulary,
          .element_bytes = static_cast<int>(element_bytes(of.numbers)),
          .flash_attention = of.flash,
          .hidden = of.hidden};
}

llama_dimensions llama_of(model const& of) {
  return {.layers = of.layers,
          .width = of.width,
          .heads = of.heads,
          .kv_heads = of.kv_heads,
          .head_width = of.head_width,
          .hidden = active_hidden(of),
          .context = of.context,
          .batch = of.batch,
          .vocabulary = of.vocabulary,
          .element_bytes = static_cast<int>(element_bytes(of.numbers)),
          .flash_attention = of.flash,
          .window = of.window,
          .qk_norm = of.qk_norm};
}

struct named_shape {
  std::string_view name;
  model_kind kind;
  int layers, width, heads, kv_heads, hidden, vocabulary, context;
  bool tied;
  bool qkv_bias = false;
};

constexpr std::array named_shapes{
    named_shape{"gpt", model_kind::gpt, 0, 0, 0, 0, 0, 0, 0, true},
    named_shape{"llama", model_kind::llama, 0, 0, 0, 0, 0, 0, 0, false},
    named_shape{"gpt2", model_kind::gpt, 12, 768, 12, 12, 3072, 50257, 1024, true},
    named_shape{"gpt2-medium", model_kind::gpt, 24, 1024, 16, 16, 4096, 50257, 1024, true},
    named_shape{"gpt2-large", model_kind::gpt, 36, 1280, 20, 20, 5120, 50257, 1024, true},
    named_shape{"gpt2-xl", model_kind::gpt, 48, 1600, 25, 25, 6400, 50257, 1024, true},
    named_shape{"llama-2-7b", model_kind::llama, 32, 4096, 32, 32, 11008, 32000, 4096, false},
    named_shape{"llama-2-13b", model_kind::llama, 40, 5120, 40, 40, 13824, 32000, 4096, false},
    named_shape{"llama-3-8b", model_kind::llama, 32, 4096, 32, 8, 14336, 128256, 8192, false},
    named_shape{"llama-3-70b", model_kind::llama, 80, 8192, 64, 8, 28672, 128256, 8192, false},
    named_shape{"mistral-7b", model_kind::llama, 32, 4096, 32, 8, 14336, 32000, 8192, false},
    named_shape{"qwen2-7b", model_kind::llama, 28, 3584, 28, 4, 18944, 152064, 8192, false, true},
};

constexpr std::size_t most_weights = std::size_t{1} << 50;

/// A gated hidden layer of Llama's size: two thirds of four times the width, to a multiple of 256.
int llama_hidden(int width) {
  int const exact = 8 * width / 3;
  return (exact + 255) / 256 * 256;
}

void require_frozen(model const& of) {
  if (of.frozen < of.layers) return;
  throw setting_error(
      fmt::format("--frozen={} is all of the model's {} blocks: give at most {}", of.frozen, of.layers, of.layers - 1));
}

}  // namespace

std::string_view to_string(precision which) noexcept {
  return which == precision::bf16 ? "bf16" : which == precision::fp16 ? "fp16" : "fp32";
}

std::optional<model> named_model(std::string_view name) {
  auto const found = std::ranges::find(named_shapes, name, &named_shape::name);
  if (found == named_shapes.end()) return std::nullopt;
  model of;
  of.kind = found->kind;
  of.name = found->name;
  of.layers = found->layers;
  of.width = found->width;
  of.heads = found->heads;
  of.kv_heads = found->kv_heads;
  of.hidden = found->hidden;
  of.vocabulary = found->vocabulary;
  of.context = found->context;
  of.tied = found->tied;
  of.qkv_bias = found->qkv_bias;
  return of;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (auto const& one : named_shapes) names.emplace_back(one.name);
  return names;
}

model completed(model of) {
  struct needed {
    char const* flag;
    int value;
    int most;
  };
  for (auto const& [flag, value, most] :
       {needed{"--layers", of.layers, 10'000}, needed{"--width", of.width, 1 << 16},
        needed{"--heads", of.heads, 1 << 16}, needed{"--context", of.context, 1 << 22},
        needed{"--batch", of.batch, 1 << 20}}) {
    if (value == 0) throw setting_error(fmt::format("the model's {} is missing: give it", flag));
    if (value < 1 || value > most) {
      throw setting_error(fmt::format("{}={}: give a number from 1 to {}", flag, value, most));
    }
  }
  bool const gpt = of.kind == model_kind::gpt;
  if (gpt && of.kv_heads != 0 && of.kv_heads != of.heads) {
    throw setting_error(
        fmt::format("--kv-heads={}: a gpt has as many as --heads; leave it out, or give --model llama", of.kv_heads));
  }
  if (of.head_width == 0 && of.width % of.heads != 0) {
    int fewer = std::min(of.heads, of.width);
    while (of.width % fewer != 0) --fewer;
    throw setting_error(
        fmt::format("--heads={} does not divide --width={}: give for instance --heads={}", of.heads, of.width, fewer));
  }
  if (of.kv_heads == 0) of.kv_heads = of.heads;
  if (of.kv_heads > of.heads || of.heads % of.kv_heads != 0) {
    throw setting_error(
        fmt::format("--kv-heads={} does not divide --heads={}: give one that does", of.kv_heads, of.heads));
  }
  if (of.hidden == 0) of.hidden = gpt ? 4 * of.width : llama_hidden(of.width);
  if (of.vocabulary == 0) of.vocabulary = gpt ? 50257 : 32000;
  require_frozen(of);
  if (of.name.empty()) of.name = gpt ? "gpt" : "llama";
  if (parameters_of(of) > most_weights) {
    throw setting_error("this model cannot be: it has more than 2^50 weights; lower its sizes");
  }
  return of;
}

profile profile_of(model const& of, hardware const& on) {
  return in_flags(
      [&] { return of.kind == model_kind::gpt ? gpt_profile(gpt_of(of), on) : llama_profile(llama_of(of), on); });
}

std::size_t parameters_of(model const& of) { return numbers_in(weights_of(of)); }

int active_hidden(model const& of) noexcept {
  return of.experts > 0 ? of.experts_per_token * of.hidden + of.shared_hidden : of.hidden;
}

int head_width_of(model const& of) noexcept { return of.head_width > 0 ? of.head_width : of.width / of.heads; }

std::string words_of_hidden(model const& of) {
  if (of.experts == 0) return fmt::format("hidden {}", of.hidden);
  std::string const shared = of.shared_hidden > 0 ? fmt::format(" and a shared one of {}", of.shared_hidden) : "";
  return fmt::format("hidden {} of each expert{}, {} of {} experts a token", of.hidden, shared, of.experts_per_token,
                     of.experts);
}

model shortened(model of, int trained_layers) {
  of.layers = std::min(of.layers, of.frozen + trained_layers);
  return of;
}

}  // namespace ferry::command
