// The trainer: steps of AdamW over micro-batches through one ferry session, and what is saved of them.
//
// Threads: one. Every call waits for the device before it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ferry/device.hpp"
#include "ferry/export.h"
#include "ferry/nn/gpt.hpp"
#include "ferry/nn/token_data.hpp"
#include "ferry/session.hpp"

namespace ferry::nn {

/// How a model is trained.
struct training_options {
  std::uint64_t steps = 200;     ///< for the learning rate's schedule
  std::uint32_t accumulate = 1;  ///< micro-batches per step
  float learning_rate = 1e-3F;   ///< at its highest
  std::uint64_t warmup = 20;     ///< steps until then
  float final_fraction = 0.1F;   ///< of it, where the cosine ends
  float weight_decay = 0.1F;     ///< of matrices
  float clip = 1;                ///< the gradients' global norm; 0: no limit
  std::uint64_t seed = 1;        ///< of the initial weights and of the batches
};

/// The learning rate of step `step`, counted from 0: a linear rise, then a cosine.
[[nodiscard]] FERRY_API float learning_rate(training_options const& options, std::uint64_t step) noexcept;

/// What a step came to.
struct step_result {
  double loss = 0;
  float gradient_norm = 0;  ///< before clipping
  float learning_rate = 0;
  double seconds = 0;
};

/// Trains one model on one device.
class trainer {
 public:
  /// Starts at step 0 with the initial weights of the seed.
  /// Throws: `invalid_argument` for a shape that cannot be; `out_of_memory` if the device has no room.
  FERRY_API trainer(device& on, stream_ref stream, ops& with, gpt_shape const& shape, int batch,
                    training_options options);

  /// Throws: what the session throws; nothing is running on the device then, and the weights are as before the step.
  FERRY_API step_result step(session& on, token_data const& data);
  /// The mean loss of `batches` batches of the validation split.
  [[nodiscard]] FERRY_API double validate(session& on, token_data const& data, std::uint64_t batches);

  [[nodiscard]] gpt& model() noexcept { return model_; }
  [[nodiscard]] training_options const& options() const noexcept { return options_; }
  /// Steps done.
  [[nodiscard]] std::uint64_t steps_done() const noexcept { return steps_done_; }
  /// Device bytes that training takes beside the session's budget.
  [[nodiscard]] FERRY_API static std::size_t bytes_beside_budget(gpt_shape const& shape, int batch);

  /// Flat arrays in the model's layout, on the host.
  struct state {
    std::vector<float> weights;
    std::vector<float> m;
    std::vector<float> v;
    std::uint64_t steps_done = 0;
  };
  [[nodiscard]] FERRY_API std::vector<float> weights();
  [[nodiscard]] FERRY_API std::vector<float> gradients();
  [[nodiscard]] FERRY_API state save_state();
  FERRY_API void set_weights(std::span<float const> weights);
  FERRY_API void restore_state(state const& from);

 private:
  void enqueue_step(session& on, token_data const& data);
  void enqueue_update(float rate);
  [[nodiscard]] std::vector<float> download(memory const& from);

  device& device_;
  stream_ref stream_;
  ops& ops_;
  training_options options_;
  gpt model_;
  memory m_;               // (layout.floats())
  memory v_;               // (layout.floats())
  memory norm_workspace_;  // partial sums
  memory clip_;            // (2)
  staging staging_;
  std::uint64_t steps_done_ = 0;
  std::vector<std::int32_t> tokens_;   // (B, T)
  std::vector<std::int32_t> targets_;  // (B, T)
};

/// The smallest budget from which a step can run with these settings, found by rehearsing it on a device of its own;
/// 0 if none up to `most_bytes` is enough.
[[nodiscard]] FERRY_API std::size_t smallest_budget(gpt_shape const& shape, int batch, std::uint32_t micro_batches,
                                                    config settings, std::size_t most_bytes);

}  // namespace ferry::nn
