// The model that is asked about, whichever way it was given: by flags or by a config.json. Values; any thread.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/error.hpp"
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
  // What other architectures have beside.
  int experts = 0;            ///< 0: none; `hidden` is of one expert
  int experts_per_token = 0;  ///< that a token passes
  int shared_hidden = 0;      ///< of an expert that every token passes
  bool post_norms = false;    ///< attention and hidden layer are normalised behind, too
  bool wide_norms = false;    ///< norms are weighted in fp32
  bool joined = false;        ///< queries, keys and values are one product, and so are gate and up
  bool biased = false;        ///< gpt-oss: every linear layer and expert has a bias, every head a sink
  bool capped = false;        ///< scores pass a tanh before they become probabilities
  int frozen = 0;             ///< the first blocks that are not trained, nor is then the embedding
};

/// "gpt" and "llama", without sizes, and well-known models with theirs; `batch` is 1. Nothing for another name.
[[nodiscard]] std::optional<model> named_model(std::string_view name);
[[nodiscard]] std::vector<std::string> model_names();

/// The same with every default filled in. Throws: `setting_error` that names the flag and the fix.
[[nodiscard]] model completed(model of);

/// What `ask` returns. The library names its members, which are called like the flags but for a few; its
/// `invalid_argument` becomes a `setting_error`.
template <typename Ask>
auto in_flags(Ask const& ask) {
  try {
    return ask();
  } catch (invalid_argument const& problem) {
    throw setting_error(fmt::format("this model cannot be: {}", problem.what()));
  }
}

/// Of a step, as the planner sees it. Requires: completed. Throws: `setting_error` for dimensions that cannot be.
[[nodiscard]] profile profile_of(model const& of, hardware const& on);

/// Weights, in all.
[[nodiscard]] std::size_t parameters_of(model const& of);

/// Features of the hidden layer that a token passes: of all its experts.
[[nodiscard]] int active_hidden(model const& of) noexcept;
[[nodiscard]] int head_width_of(model const& of) noexcept;
/// "hidden 14336", with experts if it has them.
[[nodiscard]] std::string words_of_hidden(model const& of);

/// With at most so many blocks that are trained, which are all alike.
[[nodiscard]] model shortened(model of, int trained_layers);

[[nodiscard]] inline std::size_t element_bytes(precision which) noexcept { return which == precision::fp32 ? 4 : 2; }

}  // namespace ferry::command
