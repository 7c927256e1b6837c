// The model: X[i+1] = relu(X[i] W[i]), forward and backward, with every X[i] that backward needs in the care
// of a ferry session. Weights and their gradients are the chain's own memory, outside the session's budget.
//
// Threads: one. Streams: everything is enqueued on the one stream that the chain was given; results may be
// read once that stream is synchronised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferry/ferry.hpp"
#include "kernels.hpp"

namespace matmul_chain {

struct chain_shape {
  std::uint32_t layers = 0;
  layer_shape layer;

  [[nodiscard]] std::size_t item_bytes() const noexcept { return layer.activation_bytes(); }
  [[nodiscard]] std::size_t weights_bytes() const noexcept { return layers * layer.weight_bytes(); }
  /// What an item takes of a budget, which is handed out in units of 256 bytes.
  [[nodiscard]] std::size_t charged_bytes() const noexcept { return (item_bytes() + 255) / 256 * 256; }
  /// What a step holds at its fullest if no item leaves: X[0] to X[layers-1], and two gradients of that size.
  [[nodiscard]] std::size_t keep_all_bytes() const noexcept { return (layers + 2) * charged_bytes(); }
};

class chain {
 public:
  chain(ferry::device& on, ferry::stream_ref stream, chain_shape shape);

  /// Enqueues one training step. Throws: `interrupted`, and what the session throws.
  void step(ferry::session& session);

  /// Overwrites all gradients with NaN, so that a step which leaves one out cannot pass for a right one.
  void spoil_gradients();

  [[nodiscard]] chain_shape const& shape() const noexcept { return shape_; }
  [[nodiscard]] double loss() const noexcept { return loss_; }
  /// (layers, width, width)
  [[nodiscard]] ferry::memory const& gradients() const noexcept { return gradients_; }
  /// Of the last step, the forward time of one segment. Requires: the stream is synchronised.
  [[nodiscard]] double forward_us() const;

 private:
  [[nodiscard]] ferry::block forward(ferry::session& session);
  void backward(ferry::session& session, ferry::block dy);
  [[nodiscard]] ferry::recipe recipe_of(std::uint32_t segment) const;
  [[nodiscard]] float* weight(std::uint32_t segment) const;
  [[nodiscard]] float* gradient(std::uint32_t segment) const;

  ferry::stream_ref stream_;
  chain_shape shape_;
  ferry::memory weights_;    // (layers, width, width)
  ferry::memory gradients_;  // (layers, width, width)
  ferry::event forward_begins_;
  ferry::event forward_ends_;
  double loss_ = 0;
};

}  // namespace matmul_chain
