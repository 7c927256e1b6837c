// How fast a run of stages can be replayed in backward with so many bytes to spare: rotor's dynamic programme
// (Beaumont et al.), limited to runs of `longest` stages and to a grid of byte amounts.
//
// `seconds(s, t, bytes)`: the least time to run stages s..t forward as often as needed and backward once, when X[s] is
// on the device, the gradient of X[t+1] is there, and `bytes` are free beside X[s]. Either S[s] is saved on the way and
// the rest follows, or some X[k] is kept, k..t done first and s..k-1 after it. Sizes are rounded up to the grid, so
// what fits here fits. It does not depend on the link: a re-plan for another link speed uses the same table. Threads:
// immutable once built.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/chain.hpp"

namespace ferry::planning {

class replay_table {
 public:
  explicit replay_table(chain const& of);

  [[nodiscard]] std::uint32_t longest() const noexcept { return longest_; }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size() / (static_cast<std::size_t>(slots_) + 1); }
  /// Infinity if it does not fit, or the run is too long.
  [[nodiscard]] double seconds(std::uint32_t s, std::uint32_t t, double bytes) const noexcept;
  /// The least bytes with which the run can be replayed at all.
  [[nodiscard]] double least_bytes(std::uint32_t s, std::uint32_t t) const noexcept;

  /// The first stage k > s whose input is kept while k..t are done first; 0 if S[s] is saved. Requires: it fits.
  struct choice {
    std::uint32_t keep_input_of = 0;
    bool fits = false;
  };
  [[nodiscard]] choice best(std::uint32_t s, std::uint32_t t, double bytes) const noexcept;

  /// The same for a run that leads up to a saved stage: S[t+1] is on the device (and not counted in `bytes`), X[t+1] is
  /// not. The run makes X[t+1], stage t+1's backward comes first, and what it frees serves the rest of the replay.
  [[nodiscard]] double seconds_leading(std::uint32_t s, std::uint32_t t, double bytes) const noexcept;
  /// As `best`; t + 1 stands for passing through the run once for X[t+1] alone.
  [[nodiscard]] choice best_leading(std::uint32_t s, std::uint32_t t, double bytes) const noexcept;

  /// Bytes of the gradient that waits while s..t are replayed.
  [[nodiscard]] double waiting_gradient(std::uint32_t t) const noexcept {
    return t + 1 == chain_->stages() ? 0 : chain_->boundary_bytes[t + 1];
  }

 private:
  [[nodiscard]] float const* row(std::uint32_t s, std::uint32_t t) const noexcept {
    return rows_.data() + std::size_t{row_of_[std::size_t{s} * longest_ + (t - s)]} * (slots_ + 1);
  }
  [[nodiscard]] std::int32_t slots_for(double bytes) const noexcept;
  [[nodiscard]] std::int32_t slots_in(double bytes) const noexcept;
  void choose_grid();
  void find_equal_stages();
  template <typename Fill>
  void fill_rows(std::vector<std::uint32_t>& row_of, std::vector<float>& rows, std::uint32_t ahead, Fill fill);
  void fill(std::uint32_t s, std::uint32_t t, float* out) const;
  void fill_leading(std::uint32_t s, std::uint32_t t, float* out) const;
  [[nodiscard]] std::int32_t saving_slots(std::uint32_t s, std::uint32_t t) const noexcept;
  [[nodiscard]] std::int32_t saving_slots_leading(std::uint32_t s, std::uint32_t t) const noexcept;
  [[nodiscard]] double backward_bytes(std::uint32_t i) const noexcept;
  [[nodiscard]] float const* row_leading(std::uint32_t s, std::uint32_t t) const noexcept {
    return leading_rows_.data() + std::size_t{leading_row_of_[std::size_t{s} * longest_ + (t - s)]} * (slots_ + 1);
  }

  chain const* chain_;
  std::uint32_t longest_ = 0;
  std::int32_t slots_ = 0;
  double unit_bytes_ = 1;
  std::vector<std::uint32_t> kind_;    // equal stages have equal numbers
  std::vector<std::uint32_t> row_of_;  // runs of equal stages share a row
  std::vector<float> rows_;
  std::vector<std::uint32_t> leading_row_of_;
  std::vector<float> leading_rows_;
  std::vector<std::int32_t> boundary_slots_;
  std::vector<std::int32_t> saved_slots_;
  std::vector<double> forward_before_;  // sum of forward times before a stage
};

}  // namespace ferry::planning
