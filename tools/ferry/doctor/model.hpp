// The model that is asked about, whichever way it was given: by flags or by a config.json. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/plan.hpp"

namespace ferry::command {

enum class precision : std::uint8_t { bf16, fp16, fp32 };
[[nodiscard]] std::string_view to_string(precision which) noexcept;

enum class model_kind : std::uint8_t { gpt, llama };

struct model {
  model_kind kind = model_kind::gpt;
  std::string name;  ///< "gpt", "llama", or what the config.json says
  int layers = 0;
  int width = 0;
  int heads = 0;
  int kv_heads = 0;    ///< 0: as many as heads
  int head_width = 0;  ///< 0: width / heads
  int hidden = 0;      ///< 0: what the kind has by default
  int vocabulary = 0;  ///< 0: what the kind has by default
  int context = 0;
  int batch = 1;
  precision numbers = precision::bf16;
  bool flash = true;
  bool tied = true;
  int window = 0;
  bool qk_norm = false;
  bool qkv_bias = false;
};

/// "gpt" and "llama", without sizes, and well-known models with theirs; `batch` is 1. Nothing for another name.
[[nodiscard]] std::optional<model> named_model(std::string_view name);
[[nodiscard]] std::vector<std::string> model_names();

/// The same with every default filled in. Throws: `setting_error` that names the flag and the fix.
[[nodiscard]] model completed(model of);

/// Of a step, as the planner sees it. Requires: completed. Throws: `setting_error` for dimensions that cannot be.
[[nodiscard]] profile profile_of(model const& of, hardware const& on);

/// Weights, of all of it and of one block.
[[nodiscard]] std::size_t parameters_of(model const& of);
[[nodiscard]] std::size_t block_parameters_of(model const& of);

[[nodiscard]] inline std::size_t element_bytes(precision which) noexcept { return which == precision::fp32 ? 4 : 2; }

}  // namespace ferry::command
