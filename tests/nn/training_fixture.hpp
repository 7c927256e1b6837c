// A small GPT in training on a host device of its own, and the settings of sessions for it: everything moves, however
// small, and in many chunks.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "ferry/ferry.hpp"
#include "ferry/nn/trainer.hpp"
#include "nn/ops_fixture.hpp"
#include "support/same_bits.hpp"

namespace ferry::nn::testing {

using ferry::testing::same_bits;

/// Four blocks, a vocabulary for the shipped text, and items of 4 to 16 KiB.
inline gpt_shape small_shape(attention_form attention = attention_form::tiled) {
  return {.layers = 4, .width = 32, .heads = 2, .context = 16, .vocabulary = 256, .attention = attention};
}
inline constexpr int small_batch = 2;

/// The shipped one.
inline token_data const& text() {
  static token_data const data = token_data::shipped();
  return data;
}

/// More than any step here uses.
inline constexpr std::size_t unlimited_bytes = std::size_t{8} << 20;

/// Of a session; no environment variable has a say.
inline config session_settings(policy_choice policy, std::size_t budget_bytes = unlimited_bytes) {
  config settings;
  settings.policy = policy;
  settings.budget = byte_amount::exactly(budget_bytes);
  settings.host_budget = byte_amount::exactly(unlimited_bytes);
  settings.min_bytes = 0;
  settings.chunk_bytes = 3000;  // not a power of two, and most items have more than one
  settings.log = log_level::off;
  return settings;
}

/// Members are made and unmade in an order in which each can rely on those before it.
struct training_world {
  explicit training_world(gpt_shape const& shape, int batch = small_batch, training_options const& options = {},
                          host_device_options device_options = {.compute_threads = 2})
      : on(make_host_device(with_room(device_options, shape, batch))),
        compute(*on, stream_kind::compute, "compute"),
        operations(make_host_ops(*on)),
        in_training(*on, compute, *operations, shape, batch, options) {}

  std::unique_ptr<host_device> on;
  stream compute;
  std::unique_ptr<ops> operations;
  trainer in_training;

 private:
  static host_device_options with_room(host_device_options options, gpt_shape const& shape, int batch) {
    options.device_bytes = trainer::bytes_beside_budget(shape, batch) + unlimited_bytes + (std::size_t{1} << 20);
    options.pinned_bytes = unlimited_bytes + 2 * staging::default_bytes;
    return options;
  }
};

}  // namespace ferry::nn::testing
