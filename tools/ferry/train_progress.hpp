// Progress of training: a bar that rewrites itself on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "train_run.hpp"

namespace ferry::command {

class train_progress {
 public:
  train_progress(train_plan const& plan, std::uint64_t first_step);

  void show(step_record const& record);
  /// A line of its own, which stays.
  void note(std::string_view text);
  /// The bar goes; what it said last stays as a line.
  void finish();

 private:
  [[nodiscard]] std::string line_of(step_record const& record) const;
  void show_bar(step_record const& record);

  train_plan const& plan_;
  std::uint64_t first_step_;
  std::uint64_t lines_every_;
  bool terminal_;
  bool bar_is_up_ = false;
};

}  // namespace ferry::command
