// Rivals: the policies by hand that could stand in for the plan in force, what each of them takes, and which one is on
// trial or has won.
//
// A plan is as good as the model that it was made with. Where it is off by more than the plan promised to gain over the
// best policy by hand, that policy is followed for a few steps, and stays if they are quicker. What a policy takes is
// expected by the plan's own model until it has been tried, and known from then on, until new plans are made. Noise
// does not decide: a trial and a verdict need a gain that is larger than what the steps of one plan differ by. Trials
// are a bounded share of all steps. Threads: the session's only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferry/config.hpp"
#include "plan/policy_times.hpp"

namespace ferry::follow {

/// The last few steps of one way to go on.
class step_times {
 public:
  void add(double us) noexcept {
    last_[count_ % last_.size()] = us;
    ++count_;
  }
  void clear() noexcept { count_ = 0; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Requires: not empty.
  [[nodiscard]] double middle() const;
  /// What they differ by, of the middle: the middle of the distances from it.
  [[nodiscard]] double noise() const;

 private:
  std::array<double, 7> last_{};
  std::size_t count_ = 0;
};

class rivals {
 public:
  /// A trial or its verdict, in words.
  struct verdict {
    std::uint64_t step = 0;
    std::string words;
  };

  /// New plans are in force, which predict so much. What was measured before no longer counts but for how far the model
  /// was off about each policy.
  void plans_are_new(std::vector<planning::policy_time> expected, double planned_us);
  /// There is no plan to stand in for.
  void give_up() noexcept;

  /// The policy that decides in the plan's place; nothing while the plan does.
  [[nodiscard]] std::optional<policy_choice> const& acting() const noexcept { return acting_; }
  [[nodiscard]] bool on_trial() const noexcept { return acting_ && !has_won_; }
  /// A step has been measured that was begun as step number `step`; `next` is the one that begins now. True if another
  /// one is to decide from that step on; `may_try`: a policy that was not tried yet, too.
  bool step_took(std::uint64_t step, double us, std::uint64_t next, bool may_try);

  /// The last of them, the oldest first.
  [[nodiscard]] std::vector<verdict> const& verdicts() const noexcept { return verdicts_; }
  [[nodiscard]] std::uint64_t trials() const noexcept { return trials_; }

 private:
  struct rival {
    policy_choice how;
    double expected_us = 0;  ///< measured, once it has been tried
    double off = 1;          ///< how many times as long as the model says it has shown to take
    bool tried = false;
  };
  [[nodiscard]] rival* worth_a_trial(double than_us) noexcept;
  bool consider(std::uint64_t next);
  bool judge(std::uint64_t next);
  void change_to(std::optional<policy_choice> other, std::uint64_t next);
  void note(std::uint64_t step, std::string words);

  std::vector<rival> all_;
  double planned_us_ = 0;
  std::optional<policy_choice> acting_;
  bool has_won_ = false;
  std::uint64_t since_ = 0;  // the first step of whoever decides now
  step_times plan_;
  step_times other_;
  std::uint64_t steps_ = 0;
  std::uint64_t trial_steps_ = 0;
  std::uint64_t trials_ = 0;
  std::vector<verdict> verdicts_;
};

}  // namespace ferry::follow
