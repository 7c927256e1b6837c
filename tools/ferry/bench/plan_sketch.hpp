// A plan by hand: placements, and what is done before each segment's forward and backward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferry/plan.hpp"

namespace ferry::command {

class plan_sketch {
 public:
  /// Everything kept. The step is lent.
  explicit plan_sketch(profile const& step);

  [[nodiscard]] std::uint32_t segments() const noexcept { return static_cast<std::uint32_t>(step_.segments.size()); }
  /// Index of the item that reaches into the segment before, or that nothing can rebuild; the first one otherwise.
  [[nodiscard]] std::size_t input_of(std::uint32_t segment) const;

  void place(std::uint32_t segment, std::size_t item, placement where);
  void drop_before_forward(std::uint32_t at, std::uint32_t segment, std::size_t item);
  void drop_before_backward(std::uint32_t at, std::uint32_t segment, std::size_t item);
  /// All that is ferried of `segment` comes back from the beginning of the backward of `at` on, in the order of need.
  void fetch_before_backward(std::uint32_t at, std::uint32_t segment);

  [[nodiscard]] plan finish() &&;

 private:
  using kind = plan_operation::kind;
  [[nodiscard]] plan_operation operation(kind what, std::uint32_t segment, std::string item = {}) const;
  void emit(plan_operation one, double us);

  profile const& step_;
  std::vector<std::size_t> first_;  // of each segment's items
  std::vector<std::vector<plan_operation>> before_forward_;
  std::vector<std::vector<plan_operation>> before_backward_;
  plan made_;
  std::uint32_t computed_ = 0;
  double now_us_ = 0;
};

}  // namespace ferry::command
