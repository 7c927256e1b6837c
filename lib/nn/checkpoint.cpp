#include "ferry/nn/checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "ferry/nn/file_error.hpp"
#include "ferry/nn/safetensors.hpp"

namespace ferry::nn {

namespace {

using metadata = std::map<std::string, std::string>;

constexpr std::string_view prefix = "transformer.";

metadata describe(gpt_shape const& shape) {
  return {{"ferry.layers", std::to_string(shape.layers)},    {"ferry.width", std::to_string(shape.width)},
          {"ferry.heads", std::to_string(shape.heads)},      {"ferry.context", std::to_string(shape.context)},
          {"ferry.vocab", std::to_string(shape.vocabulary)}, {"ferry.tied", shape.tied ? "true" : "false"}};
}

metadata describe(run_identity const& run) {
  auto all = describe(run.shape);
  all["ferry.batch"] = std::to_string(run.batch);
  all["ferry.accumulate"] = std::to_string(run.accumulate);
  all["ferry.seed"] = std::to_string(run.seed);
  return all;
}

void add_tensors(std::vector<tensor_to_write>& to, parameter_layout const& layout, std::span<float const> values,
                 std::string const& before_name) {
  for (auto const& one : layout.all()) {
    to.push_back({before_name + one.name, one.shape, values.subspan(one.offset, one.count)});
  }
}

std::string words_of(std::vector<std::size_t> const& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

/// The tensor of that name, which may lack the prefix in files made from the model without its head.
stored_tensor const* find(safetensors_file const& from, std::string const& name) {
  if (auto const* const found = from.find(name)) return found;
  return name.starts_with(prefix) ? from.find(std::string_view(name).substr(prefix.size())) : nullptr;
}

/// Causal masks, which old versions of transformers saved with the weights.
bool is_mask(std::string_view name) { return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"); }

void read_tensors(std::filesystem::path const& file, safetensors_file const& from, parameter_layout const& layout,
                  std::string const& before_name, std::span<float> values, std::set<std::string>& used) {
  for (auto const& one : layout.all()) {
    auto const* const stored = find(from, before_name + one.name);
    if (stored == nullptr) {
      throw file_error(file, fmt::format("the tensor '{}' is missing", before_name + one.name),
                       "give a file made for this shape, or the flags --layers, --untied and so on that fit the file");
    }
    if (stored->shape != one.shape) {
      throw file_error(file,
                       fmt::format("'{}' has the shape {}, but this model needs {}", stored->name,
                                   words_of(stored->shape), words_of(one.shape)),
                       "give the --width, --context and --vocab that the file was made with");
    }
    from.copy_floats(*stored, values.subspan(one.offset, one.count));
    used.insert(stored->name);
  }
}

bool same_bytes(stored_tensor const& a, stored_tensor const& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

/// A tied head may be in the file a second time.
bool repeats_embedding(safetensors_file const& from, stored_tensor const& one) {
  auto const* const embedding = find(from, "transformer.wte.weight");
  return one.name == "lm_head.weight" && embedding != nullptr && same_bytes(one, *embedding);
}

void require_no_surplus(std::filesystem::path const& file, safetensors_file const& from,
                        std::set<std::string> const& used) {
  for (auto const& one : from.tensors()) {
    if (used.contains(one.name) || is_mask(one.name) || repeats_embedding(from, one)) continue;
    throw file_error(file, fmt::format("this model has no use for the tensor '{}'", one.name),
                     one.name == "lm_head.weight" ? "give --untied: its head differs from its token embedding"
                                                  : "give a file of a GPT-2 model with as many --layers");
  }
}

constexpr int most_heads = 1 << 16;

/// 0 if there is none, or none that makes sense.
int heads_by_config(std::filesystem::path const& file) {
  std::ifstream in(file.parent_path() / "config.json");
  auto const all = nlohmann::json::parse(in, nullptr, false);
  if (!all.is_object() || !all.contains("n_head") || !all["n_head"].is_number_unsigned()) return 0;
  return static_cast<int>(std::min<std::uint64_t>(all["n_head"].get<std::uint64_t>(), most_heads));
}

int heads_by_metadata(safetensors_file const& from) {
  auto const said = from.metadata().find("ferry.heads");
  return said == from.metadata().end() ? 0 : std::atoi(said->second.c_str());
}

stored_heads heads_of(std::filesystem::path const& file, safetensors_file const& from, int width) {
  if (int const heads = heads_by_metadata(from); heads > 0) return {heads, stored_heads::source::metadata};
  if (int const heads = heads_by_config(file); heads > 0) return {heads, stored_heads::source::config_file};
  constexpr int usual_head_width = 64;
  int heads = std::max(1, width / usual_head_width);
  while (width % heads != 0) --heads;
  return {heads, stored_heads::source::assumed};
}

stored_tensor const& matrix_of(std::filesystem::path const& file, safetensors_file const& from, char const* name) {
  auto const* const found = find(from, name);
  if (found == nullptr || found->shape.size() != 2 || found->shape[0] > (1U << 24U) || found->shape[1] > (1U << 24U)) {
    throw file_error(file, fmt::format("there is no matrix '{}' in it", name),
                     "give a file of a GPT-2 model, as GPT2LMHeadModel.save_pretrained writes it");
  }
  return *found;
}

constexpr char const* embedding_name = "transformer.wte.weight";

}  // namespace

void save_model(std::filesystem::path const& file, gpt_shape const& shape, parameter_layout const& layout,
                std::span<float const> values) {
  std::vector<tensor_to_write> tensors;
  add_tensors(tensors, layout, values, "");
  write_safetensors(file, tensors, describe(shape));
}

std::vector<float> load_model(std::filesystem::path const& file, parameter_layout const& layout) {
  safetensors_file const from(file);
  std::vector<float> values(layout.floats(), 0.0F);
  std::set<std::string> used;
  read_tensors(file, from, layout, "", values, used);
  require_no_surplus(file, from, used);
  return values;
}

gpt_shape shape_of_model(std::filesystem::path const& file) {
  safetensors_file const from(file);
  auto const& embedding = matrix_of(file, from, embedding_name);
  gpt_shape shape;
  shape.vocabulary = static_cast<int>(embedding.shape[0]);
  shape.width = static_cast<int>(embedding.shape[1]);
  shape.context = static_cast<int>(matrix_of(file, from, "transformer.wpe.weight").shape[0]);
  shape.layers = 0;
  while (find(from, fmt::format("transformer.h.{}.ln_1.weight", shape.layers)) != nullptr) ++shape.layers;
  auto const* const head = from.find("lm_head.weight");
  shape.tied = head == nullptr || same_bytes(*head, embedding);
  shape.heads = heads_of(file, from, shape.width).count;
  return shape;
}

stored_heads heads_of_model(std::filesystem::path const& file) {
  safetensors_file const from(file);
  return heads_of(file, from, static_cast<int>(matrix_of(file, from, embedding_name).shape[1]));
}

void save_state(std::filesystem::path const& file, run_identity const& run, parameter_layout const& layout,
                trainer::state const& state) {
  std::vector<tensor_to_write> tensors;
  add_tensors(tensors, layout, state.weights, "");
  add_tensors(tensors, layout, state.m, "m.");
  add_tensors(tensors, layout, state.v, "v.");
  auto about = describe(run);
  about["ferry.steps_done"] = std::to_string(state.steps_done);
  write_safetensors(file, tensors, about);
}

trainer::state load_state(std::filesystem::path const& file, run_identity const& run, parameter_layout const& layout) {
  safetensors_file const from(file);
  auto const& about = from.metadata();
  auto const steps = about.find("ferry.steps_done");
  if (steps == about.end() || steps->second.empty() || steps->second.size() > 18 ||
      !std::ranges::all_of(steps->second, [](char c) { return c >= '0' && c <= '9'; })) {
    throw file_error(file, "it does not say how many steps are done",
                     "resume from the .state file that --save wrote; --init loads a model alone");
  }
  for (auto const& [name, value] : describe(run)) {
    auto const there = about.find(name);
    if (there == about.end() || there->second != value) {
      std::string const flag = name.substr(name.find('.') + 1);
      throw file_error(file,
                       fmt::format("it was made with {}={}, but this run has {}={}", flag,
                                   there == about.end() ? "nothing" : there->second, flag, value),
                       "resume with the flags of the run that saved it");
    }
  }
  trainer::state state;
  state.steps_done = std::stoull(steps->second);
  std::set<std::string> used;
  auto const read = [&](std::vector<float>& values, char const* before_name) {
    values.assign(layout.floats(), 0.0F);
    read_tensors(file, from, layout, before_name, values, used);
  };
  read(state.weights, "");
  read(state.m, "m.");
  read(state.v, "v.");
  require_no_surplus(file, from, used);
  return state;
}

}  // namespace ferry::nn
