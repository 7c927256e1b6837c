// Models and training states as safetensors files. A model file has Hugging Face's GPT-2 tensor names, so that
// transformers loads it and its files load here; a state file has in addition what training needs to go on.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferry/export.h"
#include "ferry/nn/parameters.hpp"
#include "ferry/nn/shape.hpp"
#include "ferry/nn/trainer.hpp"

namespace ferry::nn {

/// values: (layout.floats()), weights or gradients.
/// Throws: `file_error`, as all below.
FERRY_API void save_model(std::filesystem::path const& file, gpt_shape const& shape, parameter_layout const& layout,
                          std::span<float const> values);

/// Missing and surplus tensors, other shapes and types than F32, F16 and BF16 are errors. The names may lack
/// "transformer.", and buffers that old files carry are skipped.
[[nodiscard]] FERRY_API std::vector<float> load_model(std::filesystem::path const& file,
                                                      parameter_layout const& layout);

/// The shape that a model file was made with, as far as its tensors tell; `heads` by its metadata or by the
/// `config.json` beside it, else one for every 64 features, or fewer that divide them (`heads_of_model` says which).
[[nodiscard]] FERRY_API gpt_shape shape_of_model(std::filesystem::path const& file);

/// How many heads a model file is taken to have. Its tensors do not tell.
struct stored_heads {
  int count = 1;
  enum class source { metadata, config_file, assumed } by = source::assumed;
};
[[nodiscard]] FERRY_API stored_heads heads_of_model(std::filesystem::path const& file);

/// What a run must have in common with the one that it goes on from.
struct run_identity {
  gpt_shape shape;
  int batch = 0;
  std::uint32_t accumulate = 1;
  std::uint64_t seed = 0;
};

FERRY_API void save_state(std::filesystem::path const& file, run_identity const& run, parameter_layout const& layout,
                          trainer::state const& state);
[[nodiscard]] FERRY_API trainer::state load_state(std::filesystem::path const& file, run_identity const& run,
                                                  parameter_layout const& layout);

}  // namespace ferry::nn
