// The model: GPT-2 (pre-LN, learned positions), forward and backward, with every tensor that backward needs in the
// care of a ferry session. Parameters, gradients, tokens and losses are the model's own device memory, outside the
// session's budget.
//
// Threads: one. Streams: everything is enqueued on the one stream that the model was given. Calls that bring
// numbers to the host wait for that stream; the others return at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/export.h"
#include "ferry/nn/items.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/parameters.hpp"
#include "ferry/nn/shape.hpp"
#include "ferry/nn/staging.hpp"
#include "ferry/nn/tape.hpp"
#include "ferry/session.hpp"

namespace ferry::nn {

/// Rows of logits that are held at once, of `rows`: not more bytes than a block's hidden layer takes, whatever the
/// vocabulary.
[[nodiscard]] FERRY_API int rows_of_logits(gpt_shape const& shape, int rows) noexcept;

/// A GPT on one device: its parameters, its gradients and its passes.
class gpt {
 public:
  /// `with` must outlive the model. Parameters are undefined until they are set.
  /// Throws: `invalid_argument` for a shape that cannot be; `out_of_memory` if the device has no room.
  FERRY_API gpt(device& on, stream_ref stream, ops& with, gpt_shape const& shape, int batch);

  [[nodiscard]] gpt_shape const& shape() const noexcept { return shape_; }
  [[nodiscard]] int batch() const noexcept { return batch_; }
  [[nodiscard]] parameter_layout const& layout() const noexcept { return layout_; }
  /// (layout().floats()) each
  [[nodiscard]] memory& parameters() noexcept { return parameters_; }
  [[nodiscard]] memory& gradients() noexcept { return gradients_; }
  /// Device bytes that the model takes beside the session's budget.
  [[nodiscard]] FERRY_API static std::size_t bytes_beside_budget(gpt_shape const& shape, int batch);

  /// Forward and backward of one micro-batch of a step that has begun: the loss and the gradients of `micro_batches`
  /// of them add up to the step's. tokens, targets: (B, T), copied before the call returns.
  FERRY_API void pass(session& on, std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets,
                      std::uint32_t micro_batch, std::uint32_t micro_batches);
  /// Of the step's passes so far. Waits.
  [[nodiscard]] FERRY_API double loss();

  /// The mean loss without gradients, of one batch. Waits.
  [[nodiscard]] FERRY_API double evaluate(session& on, std::span<std::int32_t const> tokens,
                                          std::span<std::int32_t const> targets);
  /// Logits (V) of what follows the last of `tokens` (at most T of them). Waits.
  [[nodiscard]] FERRY_API std::vector<float> next_logits(session& on, std::span<std::int32_t const> tokens);

  /// Asks of the session what a step of `micro_batches` asks, but computes nothing.
  /// Throws: `out_of_device_memory` if the step would.
  FERRY_API void rehearse(session& on, std::uint32_t micro_batches);

  [[nodiscard]] recompute_counts const& recomputed() const noexcept { return counts_; }

 private:
  /// A micro-batch on its way through the model.
  struct route {
    tape on;
    std::int32_t const* tokens;   // (B, T), on the device
    std::int32_t const* targets;  // (B, T)
    int B;
    bool first;  ///< gradients are written, not added to

    [[nodiscard]] bool accumulate() const noexcept { return !first; }
  };

  // block.cpp
  activation embed(route const& way);
  activation forward_block(route const& way, std::uint32_t layer, activation x);
  void backward_block(route const& way, std::uint32_t layer, block& dx);
  void backward_mlp(route const& way, std::uint32_t layer, block& dx);
  void backward_attention(route const& way, std::uint32_t layer, block& dx);

  // gpt.cpp
  void load(std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets);
  void walk(session& on, std::uint32_t micro_batch, std::uint32_t micro_batches);
  route begin(session& on, std::uint32_t micro_batch, int B, tape::mode mode);
  activation forward(route const& way);
  /// From the last block's output x (B, T, C) to its gradient, by way of the loss.
  block turn(route const& way, activation x, std::uint32_t micro_batches);
  void backward(route const& way, block dx);
  block final_layernorm(route const& way, activation const& x);
  void losses_of(route const& way, float const* normal, float* dnormal, std::uint32_t micro_batches);

  [[nodiscard]] std::uint32_t layers() const noexcept { return static_cast<std::uint32_t>(shape_.layers); }
  [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(batch_) * shape_.context; }
  [[nodiscard]] block_parameters weights(std::uint32_t layer) const noexcept {
    return layout_.block(parameters_.as<float>(), layer);
  }
  [[nodiscard]] block_parameters gradients(std::uint32_t layer) const noexcept {
    return layout_.block(gradients_.as<float>(), layer);
  }
  [[nodiscard]] attention_shape attention(int B) const noexcept {
    return {B, shape_.context, shape_.width, shape_.heads};
  }
  [[nodiscard]] std::size_t item_floats(item what, int B) const noexcept {
    return floats_per_sequence_[static_cast<std::size_t>(what)] * B;
  }

  device& device_;
  stream_ref stream_;
  ops* ops_;
  gpt_shape shape_;
  int batch_;
  parameter_layout layout_;
  std::array<std::size_t, item_count> floats_per_sequence_{};
  memory parameters_;  // (layout_.floats())
  memory gradients_;   // (layout_.floats())
  memory tokens_;      // (2, B, T): tokens and targets
  memory losses_;      // (B, T)
  memory total_;       // (1): the step's loss, in double precision
  memory workspace_;   // partial sums, and tiles of attention
  staging staging_;
  recompute_counts counts_;
};

}  // namespace ferry::nn
