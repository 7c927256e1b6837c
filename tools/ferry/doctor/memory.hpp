// Where a training step's memory goes on one GPU, by the model's shape. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/model.hpp"
#include "doctor/optimizer.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

/// What runs a block: fused kernels as the core's, PyTorch's operations one by one, or what `torch.compile` makes of
/// them.
enum class kernel_kind : std::uint8_t { fused, eager, compile };
[[nodiscard]] std::string_view to_string(kernel_kind which) noexcept;

/// How weights, gradients and optimizer are held.
struct training {
  optimizer_kind optimizer = optimizer_kind::adamw;
  int zero = 0;   ///< ZeRO's stage: 1 divides the optimizer's state among the ranks, 2 the gradients too, 3 the weights
  int ranks = 1;  ///< GPUs that share
  bool whole_logits = false;  ///< all logits at once; else in portions, as the transformer core does
  bool master = true;         ///< the optimizer has an fp32 copy of 16-bit weights
  kernel_kind kernels = kernel_kind::fused;
  int lora = 0;      ///< the rank of adapters beside every linear layer of a block, which alone are trained; 0: none
  bool nf4 = false;  ///< the matrices of blocks, which are not trained, in 4 bits
};

/// Bytes on one GPU that are there during the whole step.
struct state_bytes {
  std::size_t weights = 0;
  std::size_t gradients = 0;
  std::size_t optimizer = 0;  ///< with the fp32 copy of the weights, in mixed precision
  std::size_t gathered = 0;   ///< ZeRO 3: the weights of the block that computes, and of the next one
  std::size_t host = 0;  ///< not on the GPU: what of the optimizer is in host memory, with gradients if it steps there
  [[nodiscard]] std::size_t sum() const noexcept { return weights + gradients + optimizer + gathered; }
};
[[nodiscard]] state_bytes states_of(model const& of, training const& how);
/// The optimizer, its bytes for each trained number, and where they are.
[[nodiscard]] std::string words_of_optimizer(model const& of, training const& how);
/// What is trained, by which kernels and optimizer: "eager kernels; LoRA of rank 16; adamw".
[[nodiscard]] std::string words_of_training(model const& of, training const& how);
/// Weights that change in a step.
[[nodiscard]] std::size_t trained_parameters_of(model const& of, training const& how);
/// Their bytes, which their gradients have too.
[[nodiscard]] double trained_bytes_of(model const& of, training const& how);
/// Bytes of weights as a step reads them, adapters included: of all, and of a block.
[[nodiscard]] double stored_bytes_of(model const& of, training const& how);
[[nodiscard]] double stored_block_bytes_of(model const& of, training const& how);

/// An operation's saved tensor.
struct operation_bytes {
  std::string name;
  std::size_t each = 0;  ///< of one layer
  std::size_t count = 0;
  [[nodiscard]] std::size_t sum() const noexcept { return each * count; }
};

struct activation_bytes {
  std::vector<operation_bytes> operations;  ///< in the order of forward
  std::size_t per_layer = 0;
  std::size_t saved = 0;    ///< all of them
  std::size_t scratch = 0;  ///< gradients of activations, and logits, at the peak that keeping all has
  std::size_t logits = 0;   ///< of that
  /// Device bytes that keeping all needs.
  [[nodiscard]] std::size_t sum() const noexcept { return saved + scratch; }
};
[[nodiscard]] activation_bytes activations_of(model const& of, profile const& step);

/// The step of this model: as `profile_of`, with all logits at once if they are held so.
[[nodiscard]] profile step_of(model const& of, training const& how, hardware const& on);
/// Of the logits that exist at once, with all that is there of them at the loss's peak: in portions they become their
/// own gradient; whole there are also fp32 copies, log-probabilities and gradients, as in PyTorch.
[[nodiscard]] std::size_t logits_bytes(model const& of, bool whole);

struct memory_report {
  std::size_t parameters = 0;
  state_bytes states;
  activation_bytes activations;
  std::size_t device_bytes = 0;
  std::size_t reserve = 0;  ///< assumed: CUDA context, cuBLAS workspace, the allocator's gaps
  [[nodiscard]] std::size_t needed() const noexcept { return states.sum() + activations.sum() + reserve; }
  [[nodiscard]] bool fits() const noexcept { return needed() <= device_bytes; }
  [[nodiscard]] bool states_fit() const noexcept { return states.sum() + reserve < device_bytes; }
  /// What is left for activations; 0 if nothing is.
  [[nodiscard]] std::size_t budget() const noexcept { return states_fit() ? device_bytes - states.sum() - reserve : 0; }
};
[[nodiscard]] memory_report memory_of(model const& of, training const& how, profile const& step,
                                      std::size_t device_bytes, std::size_t reserve);

}  // namespace ferry::command
