// Text, or any tokens, from a trained model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ferry/export.h"
#include "ferry/nn/gpt.hpp"
#include "ferry/session.hpp"

namespace ferry::nn {

/// How tokens are drawn.
struct sample_options {
  std::size_t tokens = 200;
  double temperature = 0.8;  ///< 0: always the likeliest
  std::uint64_t seed = 1;
};

/// What the model says after `prompt`, which must not be empty, without the prompt. Stops early when `stop` says so.
[[nodiscard]] FERRY_API std::vector<std::int32_t> sample(gpt& model, session& on, std::vector<std::int32_t> prompt,
                                                         sample_options const& options,
                                                         std::function<bool()> const& stop);

}  // namespace ferry::nn
