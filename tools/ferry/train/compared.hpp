// What `ferry train --compare` has measured, apart from how: rows of a table, and what may be said of them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/paired_ratio.hpp"

namespace ferry::command {

/// Of the steps that count.
struct compared_figures {
  std::size_t peak_device_bytes = 0;
  std::size_t peak_pinned_bytes = 0;
  double recompute_share = 0;  ///< of the step's FLOPs
  double waiting_us = 0;       ///< a step
  double parameters_per_gib = 0;
  double final_loss = 0;
  std::optional<double> planned;  ///< by the plan in force: forward and backward over those with unlimited memory
};

/// One policy under one budget.
struct compared_row {
  std::string policy;
  std::string failure;          ///< why it did not fit; empty if it did
  std::size_t needs_bytes = 0;  ///< the smallest budget that is known to do, if it did not fit and there is one
  std::vector<double> seconds;  ///< of every step
  compared_figures figures;
  bool identical = true;           ///< loss and gradients of every step, to the reference's
  std::vector<std::string> notes;  ///< what `auto` tried, in its words

  [[nodiscard]] bool fits() const noexcept { return failure.empty(); }
};

/// The rows of one budget; the first is the reference, which had all the memory it wanted.
struct compared_budget {
  std::size_t budget_bytes = 0;
  std::size_t keep_all_bytes = 0;
  double tokens_per_step = 0;
  std::vector<compared_row> rows;

  [[nodiscard]] compared_row const& reference() const { return rows.front(); }
  /// Null if there is none of that name that fits.
  [[nodiscard]] compared_row const* find(std::string_view policy) const;
  /// Of the policies, by measured time; null if none fits.
  [[nodiscard]] compared_row const* fastest() const;
  /// `auto`, unless another row is clearly faster or `auto` does not fit; null if none fits.
  [[nodiscard]] compared_row const* recommended() const;
  /// With less memory nothing is quicker than with all of it: by so much of the reference's time, what else the machine
  /// does made a row look quicker.
  [[nodiscard]] double noise() const;
  /// Of the steps that count; the error is no smaller than the noise.
  [[nodiscard]] paired_ratio time_over(compared_row const& one, compared_row const& other) const;
  [[nodiscard]] paired_ratio time_of(compared_row const& one) const { return time_over(one, reference()); }
  /// Of the reference by its median step, of the others by that and their times beside it.
  [[nodiscard]] double tokens_per_second(compared_row const& one) const;
  [[nodiscard]] double share() const noexcept {
    return static_cast<double>(budget_bytes) / static_cast<double>(keep_all_bytes);
  }
};

/// Steps from this place on count: in the first a session learns what a step looks like, then it makes a plan, and then
/// it may try whether something else is quicker.
[[nodiscard]] std::size_t first_judged(std::size_t steps) noexcept;
[[nodiscard]] std::span<double const> judged(std::vector<double> const& of_every_step) noexcept;

[[nodiscard]] std::string table_of(compared_budget const& all);
/// What was won under this budget, and where `auto` was not the best: what was, and why.
[[nodiscard]] std::string words_of(compared_budget const& all);
/// Empty if nothing fits.
[[nodiscard]] std::string next_of(compared_budget const& all);
/// Bars of the time of a step, for each budget.
[[nodiscard]] std::string svg_of(std::span<compared_budget const> all, std::string const& what);

}  // namespace ferry::command
