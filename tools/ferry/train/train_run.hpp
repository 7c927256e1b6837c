// One run of training: the device, the trainer and the session that a plan asks for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/paired_ratio.hpp"
#include "ferry/device.hpp"
#include "ferry/nn/ops.hpp"
#include "ferry/nn/trainer.hpp"
#include "ferry/plan.hpp"
#include "ferry/session.hpp"
#include "train_options.hpp"

namespace ferry::command {

/// What a step took, beside what the trainer says.
struct step_record {
  std::uint64_t step = 0;  ///< counted from 1
  nn::step_result result;
  double tokens_per_second = 0;
  std::size_t peak_device_bytes = 0;
  std::size_t peak_pinned_bytes = 0;
  double waiting_us = 0;
  double recompute_flops = 0;
  std::uint64_t recomputed = 0;     ///< items
  std::uint64_t ferried_bytes = 0;  ///< out and back
  double out_gbps = 0;              ///< of the link, as estimated
  double in_gbps = 0;
  std::uint64_t plans = 0;           ///< made anew so far
  std::uint64_t plan_changes = 0;    ///< in this step, for the link as it was found
  std::optional<double> planned_us;  ///< for one micro-batch, by the plan in force
  std::optional<double> validation_loss;
};

class train_run {
 public:
  /// Throws: `out_of_memory` if the device cannot hold model and budget.
  train_run(device& on, train_plan const& plan, config settings);
  ~train_run();

  /// Trains one step. Throws: what the session throws; `failed` if the loss or the gradients are no longer numbers.
  step_record step();
  /// Throws: `failed` if the loss is no longer a number.
  [[nodiscard]] double validate();
  [[nodiscard]] nn::trainer& trainer() noexcept { return trainer_; }
  [[nodiscard]] ferry::session& session() noexcept { return session_; }
  [[nodiscard]] double flops_per_step() const;
  /// What multiplies matrices, and how exactly.
  [[nodiscard]] std::string math_mode() const { return ops_->math_mode(); }

 private:
  void require_number(double value, char const* what) const;

  train_plan const& plan_;
  stream compute_;
  std::unique_ptr<nn::ops> ops_;
  nn::trainer trainer_;
  ferry::session session_;
  std::vector<nn::item_description> items_;
  session_stats before_;
  double recompute_flops_before_ = 0;
};

/// A device for so many runs side by side under that budget, and one more that keeps all.
/// Requires: not the sim device, which does not compute. Throws: `setting_error` if this machine has too little memory.
[[nodiscard]] std::unique_ptr<device> make_device_for_several(train_plan const& plan, std::size_t budget_bytes,
                                                              std::size_t runs, std::size_t runs_that_offload);

/// Gives a paced link the balance of a large model on a large GPU, unless the user has set it or it is a GPU's own.
void balance_link(device& on, train_plan const& plan, double step_seconds);

/// Of which a step with these settings is known to work.
[[nodiscard]] std::size_t smallest_budget(train_plan const& plan, config const& settings);

/// The end of a run whose step does not fit: `infeasible_budget` if a larger budget is enough, else `failed`.
[[noreturn]] void refuse_for_lack_of_room(out_of_memory const& problem, train_plan const& plan, config const& settings);

/// The one-line error for a step that does not fit, with the smallest budget that does. Requires: a budget in bytes.
[[nodiscard]] std::string no_room_message(out_of_memory const& problem, train_plan const& plan, config const& settings);

}  // namespace ferry::command
