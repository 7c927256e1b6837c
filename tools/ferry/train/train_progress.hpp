// Progress of training: a bar that rewrites itself on a terminal, plain lines elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/progress.hpp"
#include "train_run.hpp"

namespace ferry::command {

class train_progress {
 public:
  train_progress(train_plan const& plan, std::uint64_t first_step);
  train_progress(train_progress const&) = delete;
  train_progress& operator=(train_progress const&) = delete;
  /// An error's line does not begin behind the bar.
  ~train_progress() { finish(); }

  void show(step_record const& record);
  /// A line of its own, which stays.
  void note(std::string_view text);
  /// The bar goes; what it said last stays as a line.
  void finish() noexcept;

 private:
  void show_bar(step_record const& record);

  train_plan const& plan_;
  time_left left_;
  std::uint64_t first_step_;
  std::uint64_t lines_every_;
  bool terminal_;
  bool bar_is_up_ = false;
};

}  // namespace ferry::command
