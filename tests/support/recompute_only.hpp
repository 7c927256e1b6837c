// The best persistent schedule without a link, by dynamic programming over (first stage, last stage, free bytes): what
// is checkpointed stays until its backward. Exact where all sizes are whole multiples of a unit; else sizes are rounded
// up to one of `slots` parts of the budget, which gives a schedule that fits and may miss a slightly better one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "plan/chain.hpp"
#include "support/in_order.hpp"

namespace ferry::testing {

class recompute_only {
 public:
  recompute_only(planning::chain const& problem, std::size_t slots) : c_(problem), stages_(problem.stages()) {
    unit_ = choose_unit(slots);
    slots_ = static_cast<long>(std::floor(c_.device_bytes / unit_ + 1e-9)) - in_slots(c_.boundary_bytes[0]);
    if (slots_ < 0) return;
    table_.assign(stages_ * stages_, {});
    for (std::size_t length = 1; length <= stages_; ++length) {
      for (std::size_t first = 0; first + length <= stages_; ++first) fill(first, first + length - 1);
    }
  }

  [[nodiscard]] double makespan_s() const { return slots_ < 0 ? infinite : at(0, stages_ - 1, slots_).cost_s; }

  /// Empty if nothing fits.
  [[nodiscard]] std::vector<compute_step> steps() const {
    std::vector<compute_step> result;
    if (makespan_s() < infinite) follow(0, stages_ - 1, slots_, result);
    return result;
  }

 private:
  using op = planning::chain_op;
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// `split` is the stage whose input becomes a checkpoint; the first stage itself: it is saved whole.
  struct cell {
    double cost_s = infinite;
    std::uint32_t split = 0;
  };

  /// The largest unit that measures everything, if it is large enough; else an even share of the budget.
  [[nodiscard]] double choose_unit(std::size_t slots) const {
    std::uint64_t common = 0;
    for (auto const* list :
         {&c_.boundary_bytes, &c_.saved_bytes, &c_.forward_scratch_bytes, &c_.backward_scratch_bytes}) {
      for (double const bytes : *list) {
        if (bytes != std::floor(bytes) || bytes > 1e15) return c_.device_bytes / static_cast<double>(slots);
        common = std::gcd(common, static_cast<std::uint64_t>(bytes));
      }
    }
    double const even = c_.device_bytes / static_cast<double>(slots);
    return static_cast<double>(common) >= even ? static_cast<double>(common) : even;
  }
  [[nodiscard]] long in_slots(double bytes) const { return static_cast<long>(std::ceil(bytes / unit_ - 1e-9)); }

  [[nodiscard]] cell const& at(std::size_t first, std::size_t last, long free) const {
    static constexpr cell nothing{};
    auto const& cells = table_[first * stages_ + last];
    return free < 0 ? nothing : cells[static_cast<std::size_t>(free)];
  }

  /// The first stage's input is there and not counted; `free` is what is left beside it and all that stays below.
  void fill(std::size_t first, std::size_t last) {
    auto& cells = table_[first * stages_ + last];
    cells.assign(static_cast<std::size_t>(slots_) + 1, {});
    // The gradient that this part of the chain starts from lies there meanwhile; the last stage's comes with its
    // backward.
    long const gradient = last + 1 == stages_ ? 0 : in_slots(c_.boundary_bytes[last + 1]);
    long const saved = in_slots(c_.saved_bytes[first]);
    long const forward = gradient + saved + in_slots(c_.forward_scratch_bytes[first]);
    long const backward = saved + in_slots(c_.boundary_bytes[first]) + in_slots(c_.boundary_bytes[first + 1]) +
                          in_slots(c_.backward_scratch_bytes[first]);
    for (long free = std::max(forward, backward); free <= slots_; ++free) {
      double const rest_s = first == last ? 0 : at(first + 1, last, free - saved).cost_s;
      cells[static_cast<std::size_t>(free)] = {c_.forward_s[first] + rest_s + c_.backward_s[first],
                                               static_cast<std::uint32_t>(first)};
    }
    double run_s = 0;
    long needed = 0;
    for (std::size_t split = first + 1; split <= last; ++split) {
      std::size_t const k = split - 1;
      run_s += c_.forward_s[k];
      long const input = k == first ? 0 : in_slots(c_.boundary_bytes[k]);
      long const output = in_slots(c_.boundary_bytes[split]);
      needed = std::max(needed, gradient + input + output + in_slots(c_.forward_scratch_bytes[k]));
      for (long free = std::max(needed, output); free <= slots_; ++free) {
        double const cost_s = run_s + at(split, last, free - output).cost_s + at(first, k, free).cost_s;
        cell& best = cells[static_cast<std::size_t>(free)];
        if (cost_s < best.cost_s) best = {cost_s, static_cast<std::uint32_t>(split)};
      }
    }
  }

  void follow(std::size_t first, std::size_t last, long free, std::vector<compute_step>& steps) const {
    std::size_t const split = at(first, last, free).split;
    if (split == first) {
      steps.push_back({op::forward_saving, first});
      if (first != last) follow(first + 1, last, free - in_slots(c_.saved_bytes[first]), steps);
      steps.push_back({op::backward, first});
      return;
    }
    for (std::size_t k = first; k < split; ++k) steps.push_back({op::forward_only, k});
    follow(split, last, free - in_slots(c_.boundary_bytes[split]), steps);
    follow(first, split - 1, free, steps);
  }

  planning::chain const& c_;
  std::size_t stages_;
  double unit_ = 1;
  long slots_ = 0;
  std::vector<std::vector<cell>> table_;
};

}  // namespace ferry::testing
