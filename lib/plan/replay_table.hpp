// How fast a run of stages can be replayed in backward with so many bytes to spare: rotor's dynamic programme
// (Beaumont et al.), limited to runs of `longest` stages and to a grid of byte amounts.
//
// X[s] is on the device, the gradient of X[t+1] is there, and some bytes are free beside X[s]: the least time to run
// stages s..t forward as often as needed and backward once. Either S[s] is saved on the way and the rest follows, or
// some X[k] is kept, k..t done first and s..k-1 after it. Sizes are rounded up to the grid, so what fits here fits. It
// does not depend on the link or on options: every solver of the same stages and budget can use one table. Threads:
// immutable once built.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/chain.hpp"

namespace ferry::planning {

/// What a run of replayed stages s..t is for.
enum class run_kind : std::uint8_t {
  plain,    ///< its own backward
  leading,  ///< also that of stage t+1, which is saved but has lost its input: S[t+1] is there and not among the free
            ///< bytes, its backward comes as soon as the run has made X[t+1], and what that frees serves the rest of
            ///< the replay
};

class replay_table {
 public:
  explicit replay_table(chain of);

  [[nodiscard]] std::uint32_t longest() const noexcept { return longest_; }
  /// Plain runs that differ.
  [[nodiscard]] std::size_t rows() const noexcept { return tables_[0].rows.size() / width(); }
  /// Infinity if it does not fit, or the run is too long.
  [[nodiscard]] double seconds(run_kind kind, std::uint32_t s, std::uint32_t t, double free_bytes) const noexcept;

  struct choice {
    /// The first stage k > s whose input is kept while k..t are done first, t + 1 if a leading run is passed through
    /// once for X[t+1] alone; 0 if S[s] is saved.
    std::uint32_t keep_input_of = 0;
    bool fits = false;
  };
  [[nodiscard]] choice best(run_kind kind, std::uint32_t s, std::uint32_t t, double free_bytes) const noexcept;

 private:
  struct table {
    std::vector<std::uint32_t> row_of;  // runs of equal stages share a row
    std::vector<float> rows;
  };
  /// One way to replay a run: with m slots it takes seconds + first[m - held] + then[m + freed], if m is enough.
  struct alternative {
    std::uint32_t keep_input_of;
    std::int32_t least_slots;
    float seconds;
    float const* first;
    std::int32_t held;
    float const* then;
    std::int32_t freed;
  };

  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(slots_) + 1; }
  [[nodiscard]] float const* row(run_kind kind, std::uint32_t s, std::uint32_t t) const noexcept {
    auto const& of = tables_[static_cast<std::size_t>(kind)];
    return of.rows.data() + of.row_of[std::size_t{s} * longest_ + (t - s)] * width();
  }
  [[nodiscard]] std::int32_t slots_for(double bytes) const noexcept;
  [[nodiscard]] std::int32_t slots_in(double bytes) const noexcept;
  [[nodiscard]] double saving_bytes(run_kind kind, std::uint32_t s, std::uint32_t t) const noexcept;
  void choose_grid();
  void find_equal_stages();
  void fill_all(run_kind kind);
  void fill(run_kind kind, std::uint32_t s, std::uint32_t t, float* out) const;
  template <typename Visit>
  void visit_alternatives(run_kind kind, std::uint32_t s, std::uint32_t t, Visit visit) const;

  chain chain_;
  std::uint32_t longest_ = 0;
  std::int32_t slots_ = 0;
  double unit_bytes_ = 1;
  std::vector<std::uint32_t> kind_;  // equal stages have equal numbers
  std::array<table, 2> tables_;      // by run_kind
  std::vector<float> nothing_;       // a row of zeros
  std::vector<std::int32_t> boundary_slots_;
  std::vector<std::int32_t> saved_slots_;
  std::vector<double> forward_before_;  // sum of forward times before a stage
};

}  // namespace ferry::planning
