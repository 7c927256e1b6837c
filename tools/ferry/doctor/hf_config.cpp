#include "doctor/hf_config.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "ferry/error.hpp"
#include "plan/json_reader.hpp"
#include "support/text.hpp"

namespace ferry::command {

namespace {

using json = nlohmann::json;
using support::bad_field;

constexpr std::size_t most_bytes = std::size_t{1} << 20;
constexpr int most_depth = 32;
constexpr char const* how_else = "give the shape by flags: --model gpt|llama --layers --width --heads --context";

struct architecture {
  std::string_view type;
  model_kind kind;
  bool qk_norm;
  bool qkv_bias;
};
constexpr std::array architectures{
    architecture{"gpt2", model_kind::gpt, false, false},      architecture{"llama", model_kind::llama, false, false},
    architecture{"mistral", model_kind::llama, false, false}, architecture{"qwen2", model_kind::llama, false, true},
    architecture{"qwen3", model_kind::llama, true, false},
};

std::string shown(json const& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return support::quoted(value.is_string() ? value.get<std::string>()
                                           : value.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// The first of the keys that is there and not null.
json const* find(json const& from, std::span<char const* const> keys, char const*& found) {
  for (char const* key : keys) {
    auto const at = from.find(key);
    if (at == from.end() || at->is_null()) continue;
    found = key;
    return &*at;
  }
  return nullptr;
}

int number(json const& from, std::initializer_list<char const*> keys, int most, bool needed) {
  char const* key = *keys.begin();
  json const* const value = find(from, {keys.begin(), keys.size()}, key);
  if (value == nullptr) {
    if (!needed) return 0;
    throw bad_field("", fmt::format("has no \"{}\"", key), "it is not all of a config.json: add it");
  }
  bool const whole = value->is_number_unsigned() && value->get<std::uint64_t>() >= 1 &&
                     value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!whole)
    throw bad_field(key, fmt::format("is {}", shown(*value)), fmt::format("give a number from 1 to {}", most));
  return value->get<int>();
}

std::optional<bool> yes_or_no(json const& from, char const* key) {
  auto const at = from.find(key);
  if (at == from.end() || at->is_null()) return std::nullopt;
  if (!at->is_boolean()) throw bad_field(key, fmt::format("is {}", shown(*at)), "give true or false");
  return at->get<bool>();
}

architecture const& architecture_of(json const& from) {
  auto const at = from.find("model_type");
  if (at == from.end() || !at->is_string()) {
    throw bad_field("", "has no \"model_type\"", fmt::format("it is no config.json of a model; else {}", how_else));
  }
  auto const& type = at->get_ref<std::string const&>();
  for (auto const& known : architectures) {
    if (known.type == type) return known;
  }
  throw bad_field("model_type", fmt::format("is {}", support::quoted(type)),
                  fmt::format("known are gpt2, llama, mistral, qwen2 and qwen3; else {}", how_else));
}

std::optional<precision> precision_of(json const& from) {
  char const* key = "torch_dtype";
  constexpr std::array keys{"torch_dtype", "dtype"};
  json const* const value = find(from, keys, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  auto const& text = value->get_ref<std::string const&>();
  if (text == "bfloat16") return precision::bf16;
  if (text == "float16") return precision::fp16;
  if (text == "float32") return precision::fp32;
  return std::nullopt;  // of quantised weights, which are trained in something else
}

/// Parsed with a limit on nesting: what a recursive destructor or a stack could not bear is refused early.
json parse(std::string_view text) {
  if (text.size() > most_bytes)
    throw bad_field("", "is larger than 1 MiB", "it is no config.json: give that of a model");
  bool too_deep = false;
  auto const shallow = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > most_depth;
    return depth <= most_depth;
  };
  json made = json::parse(text.begin(), text.end(), shallow, false);
  if (too_deep) throw bad_field("", "is nested too deeply", "it is no config.json: give that of a model");
  if (made.is_discarded() || !made.is_object()) {
    throw bad_field("", "is no JSON object", "it is damaged or no config.json: give that of a model");
  }
  return made;
}

}  // namespace

model parse_hf_config(std::string_view text) {
  json const from = parse(text);
  auto const& known = architecture_of(from);
  model of;
  of.kind = known.kind;
  of.name = known.type;
  of.qk_norm = known.qk_norm;
  of.qkv_bias = known.qkv_bias;
  of.layers = number(from, {"num_hidden_layers", "n_layer"}, 10'000, true);
  of.width = number(from, {"hidden_size", "n_embd"}, 1 << 16, true);
  of.heads = number(from, {"num_attention_heads", "n_head"}, 1 << 16, true);
  of.hidden = number(from, {"intermediate_size", "n_inner"}, 1 << 18, of.kind == model_kind::llama);
  of.vocabulary = number(from, {"vocab_size"}, 1 << 24, true);
  of.context = number(from, {"max_position_embeddings", "n_positions"}, 1 << 22, false);
  of.tied = yes_or_no(from, "tie_word_embeddings").value_or(of.kind == model_kind::gpt);
  of.numbers = precision_of(from).value_or(precision::bf16);
  if (of.kind == model_kind::gpt) return of;
  of.kv_heads = number(from, {"num_key_value_heads"}, 1 << 16, false);
  of.head_width = number(from, {"head_dim"}, 1 << 14, false);
  bool const windowed = yes_or_no(from, "use_sliding_window").value_or(known.type == "mistral");
  if (windowed) of.window = number(from, {"sliding_window"}, 1 << 30, false);
  if (auto const bias = yes_or_no(from, "attention_bias")) of.qkv_bias = *bias;
  return of;
}

model read_hf_config(std::filesystem::path const& file) {
  model of;
  planning::with_file(file, [&](std::istream& in) {
    std::string text(most_bytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    of = parse_hf_config(text);
  });
  return of;
}

}  // namespace ferry::command
