// The same training under several settings on one device, in turns step by step, so that whatever else the machine does
// falls on all of them alike.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/progress.hpp"
#include "ferry/device.hpp"
#include "ferry/host_device.hpp"
#include "train_run.hpp"

namespace ferry::command {

/// GB/s; 0: unpaced, or on a GPU not measured.
struct link_pace {
  double out = 0;
  double back = 0;
};

/// One of them; the first is the reference, which has all the memory it wants.
struct entrant {
  std::string name;
  config settings;
  std::unique_ptr<train_run> run;  ///< gone once it has failed
  std::string failure;             ///< why it did not fit; empty if it did
  std::vector<step_record> steps;
  bool identical = true;  ///< loss and gradients of every step, to the reference's

  [[nodiscard]] std::vector<double> seconds() const;
};

class training_in_turns {
 public:
  static constexpr std::size_t entrants_at_most = 7;
  static constexpr std::size_t entrants_that_offload = 4;

  /// Unless a pace is given, the link is balanced with how long the reference's first steps take.
  /// Throws: `setting_error` if this machine has too little memory.
  training_in_turns(train_plan const& plan, std::size_t budget_bytes, std::optional<link_pace> pace);

  /// With what the plan says of everything else; the first is given all the memory it wants.
  void enter(std::string name, std::vector<std::pair<char const*, char const*>> const& settings);
  /// A step of each, in the order in which they have entered; fewer once interrupted.
  void take_turns(progress_bar& shown);

  void set_pace(link_pace pace);
  [[nodiscard]] link_pace pace() const;
  [[nodiscard]] std::vector<entrant>& entrants() noexcept { return entrants_; }
  /// Throws: `failed` if somebody's gradients differ, or the device has seen a mistake.
  void require_right() const;
  /// "0.932 GB/s each way: ..."
  [[nodiscard]] std::string words_of_link() const;

 private:
  void attempt(entrant& taking);
  [[nodiscard]] std::vector<float> gradients_of(train_run& run) const;

  train_plan const& plan_;
  std::size_t budget_bytes_;
  std::unique_ptr<device> device_;
  host_device* host_;  ///< the same, or null on a GPU, whose link is what it is
  std::vector<entrant> entrants_;
  std::vector<float> reference_gradients_;
  bool is_paced_;
};

/// "GPT of 16 layers, ...".
[[nodiscard]] std::string words_of_model(train_plan const& plan);

}  // namespace ferry::command
