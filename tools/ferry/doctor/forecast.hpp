// What a step costs under a budget, by policy: forecasts of the real planner and of its exact simulator, for a model
// that nobody has run. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/exchange.hpp"
#include "doctor/memory.hpp"
#include "ferry/plan.hpp"

namespace ferry::command {

/// One way to run the step, and what it is predicted to cost. A step is the whole batch, in `accumulate` parts.
struct forecast {
  std::string policy;  ///< as FERRY_POLICY takes it
  int micro_batch = 0;
  int accumulate = 1;
  double slower_products = 1;  ///< how many times as long they take in such parts as in the whole batch
  std::size_t peak_bytes = 0;  ///< of activations, on the device
  std::size_t host_bytes = 0;  ///< pinned, at the peak
  double step_us = 0;
  double unlimited_us = 0;  ///< of the whole batch at once, with unlimited memory: on one GPU, which exchanges nothing
  double recompute_us = 0;
  double recompute_flops_share = 0;  ///< of the step's own FLOPs
  double waiting_us = 0;
  std::size_t out_bytes = 0;  ///< over the link in a step
  std::size_t in_bytes = 0;
  std::size_t exchanged_bytes = 0;  ///< sent to other GPUs, and as many received
  double exchange_us = 0;           ///< that takes
  double exposed_exchange_us = 0;   ///< and of it, while nothing is computed
  std::vector<recompute_share> recomputed;
  [[nodiscard]] double overhead() const noexcept { return unlimited_us > 0 ? step_us / unlimited_us - 1 : 0; }
};

/// What it is planned for.
struct desk {
  model of;
  training how;
  hardware on;
  std::size_t budget = 0;       ///< device bytes for activations
  std::size_t host_budget = 0;  ///< pinned bytes that may be used
  interconnect between{};       ///< the GPUs, if there are several
};

/// The step of some of the sequences, as one of equal parts of the whole.
struct part_of_step {
  part_of_step(desk const& at, int micro_batch);

  model of;
  int accumulate = 1;
  double slower_products = 1;
  hardware on;   ///< with the link that exchanging leaves
  profile step;  ///< of one part
  exchange exchanged;
  double forward_us = 0;  ///< of all parts
};

/// A step's time with unlimited memory, and its FLOPs without any rebuilding.
[[nodiscard]] double unlimited_us(profile const& step);
[[nodiscard]] double flops_of(model const& of, profile const& step);

/// A forecast of all parts, without what is peculiar to a policy. `part_us`: computing one part takes.
[[nodiscard]] forecast forecast_of(desk const& at, part_of_step const& part, std::string policy, double part_us,
                                   bool ferrying);

/// Of the step with `micro_batch` sequences at a time; nothing where it does not fit.
[[nodiscard]] std::optional<forecast> keeping_all(desk const& at, int micro_batch);
/// As `ferry plan` plans it.
[[nodiscard]] std::optional<forecast> by_planner(desk const& at, int micro_batch);
/// The first plan without a link: the best that keeping and rebuilding alone come to.
[[nodiscard]] std::optional<forecast> rebuilding_only(desk const& at, int micro_batch);
/// No plan takes less; infinity if none fits.
[[nodiscard]] double least_us(desk const& at, int micro_batch);
/// Every segment's input stays, the rest is rebuilt.
[[nodiscard]] std::optional<forecast> recomputing(desk const& at, int micro_batch);
/// As `recomputing`, but only every sqrt(L)th segment's input stays.
[[nodiscard]] std::optional<forecast> recomputing_by_root(desk const& at, int micro_batch);
/// Whole segments go out and come back, from the first on: as many as must.
[[nodiscard]] std::optional<forecast> offloading(desk const& at, int micro_batch);

/// The divisors of the batch, the largest first.
[[nodiscard]] std::vector<int> parts_of(int batch);

/// The least device bytes with which some schedule exists, whatever it costs.
[[nodiscard]] std::size_t least_bytes(desk const& at, int micro_batch);

/// The largest divisor of the batch for which the activations fit: all kept, or with some plan. 0 if none does.
[[nodiscard]] int largest_part_kept(desk const& at);
[[nodiscard]] int largest_part_planned(desk const& at);

struct largest {
  int kept = 0;     ///< with everything kept; 0: not even one
  int planned = 0;  ///< with some plan, however slow
};
/// Sequences at once, and tokens of a sequence, within the device's memory.
[[nodiscard]] largest largest_batch(desk const& at);
[[nodiscard]] largest largest_context(desk const& at);

}  // namespace ferry::command
