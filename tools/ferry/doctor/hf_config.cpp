#include "doctor/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  model_kind kind = model_kind::llama;
  bool qk_norm = false;
  bool qkv_bias = false;
  bool experts = false;
  bool wide_norms = false;
  bool post_norms = false;
  bool capped = false;
  bool joined = false;
  bool biased = false;
};
constexpr std::array architectures{
    architecture{.type = "gpt2", .kind = model_kind::gpt},
    architecture{.type = "llama"},
    architecture{.type = "mistral"},
    architecture{.type = "qwen2", .qkv_bias = true},
    architecture{.type = "qwen3", .qk_norm = true},
    architecture{.type = "phi3", .joined = true},
    architecture{.type = "gemma", .wide_norms = true},
    architecture{.type = "gemma2", .wide_norms = true, .post_norms = true, .capped = true},
    architecture{.type = "gemma3_text", .qk_norm = true, .wide_norms = true, .post_norms = true},
    architecture{.type = "mixtral", .experts = true},
    architecture{.type = "qwen2_moe", .qkv_bias = true, .experts = true},
    architecture{.type = "qwen3_moe", .qk_norm = true, .experts = true},
    architecture{.type = "gpt_oss", .qkv_bias = true, .experts = true, .wide_norms = true, .biased = true},
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
  std::vector<std::string_view> known;
  for (auto const& one : architectures) known.push_back(one.type);
  throw bad_field("model_type", fmt::format("is {}", support::quoted(type)),
                  fmt::format("known are {}; else {}", fmt::join(known, ", "), how_else));
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

constexpr int most_hidden = 1 << 18;

void require_all_sparse(json const& from) {
  auto const dense = from.find("mlp_only_layers");
  if (dense != from.end() && dense->is_array() && !dense->empty()) {
    throw bad_field("mlp_only_layers", "names blocks without experts",
                    fmt::format("only models whose blocks are all alike are counted; {}", how_else));
  }
  if (int const every = number(from, {"decoder_sparse_step"}, 10'000, false); every > 1) {
    throw bad_field("decoder_sparse_step", fmt::format("is {}", every),
                    fmt::format("only models whose blocks are all alike are counted; {}", how_else));
  }
}

void read_experts(json const& from, model& to) {
  require_all_sparse(from);
  to.experts = number(from, {"num_local_experts", "num_experts"}, 1024, true);
  to.experts_per_token = number(from, {"num_experts_per_tok"}, to.experts, true);
  if (int const hidden = number(from, {"moe_intermediate_size"}, most_hidden, false); hidden > 0) to.hidden = hidden;
  to.shared_hidden = number(from, {"shared_expert_intermediate_size"}, most_hidden, false);
}

void read_llama(json const& from, architecture const& known, model& to) {
  to.kv_heads = number(from, {"num_key_value_heads"}, 1 << 16, false);
  to.head_width = number(from, {"head_dim"}, 1 << 14, false);
  bool const windowed = yes_or_no(from, "use_sliding_window")
                            .value_or(known.type == "mistral" || known.type == "mixtral" || known.type == "phi3");
  if (windowed) to.window = number(from, {"sliding_window"}, 1 << 30, false);
  if (auto const bias = yes_or_no(from, "attention_bias")) to.qkv_bias = *bias;
  to.qk_norm = known.qk_norm;
  to.wide_norms = known.wide_norms;
  to.post_norms = known.post_norms;
  to.capped = known.capped;
  to.joined = known.joined;
  to.biased = known.biased;
  if (known.experts) read_experts(from, to);
}

/// Of a model that also sees: the part that reads text.
json const& text_part(json const& all) {
  auto const at = all.find("text_config");
  return at != all.end() && at->is_object() && at->contains("model_type") ? *at : all;
}

}  // namespace

model parse_hf_config(std::string_view text) {
  json const all = parse(text);
  json const& from = text_part(all);
  auto const& known = architecture_of(from);
  bool const tied = known.kind == model_kind::gpt || known.type.starts_with("gemma");
  model of;
  of.kind = known.kind;
  of.name = known.type;
  of.qkv_bias = known.qkv_bias;
  of.layers = number(from, {"num_hidden_layers", "n_layer"}, 10'000, true);
  of.width = number(from, {"hidden_size", "n_embd"}, 1 << 16, true);
  of.heads = number(from, {"num_attention_heads", "n_head"}, 1 << 16, true);
  of.hidden = number(from, {"intermediate_size", "n_inner"}, most_hidden, of.kind == model_kind::llama);
  of.vocabulary = number(from, {"vocab_size"}, 1 << 24, true);
  of.context = number(from, {"max_position_embeddings", "n_positions"}, 1 << 22, false);
  of.tied = yes_or_no(from, "tie_word_embeddings").value_or(tied);
  of.numbers = precision_of(from).value_or(precision::bf16);
  if (of.kind == model_kind::llama) read_llama(from, known, of);
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
