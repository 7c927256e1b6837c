// Adaptation: plans are made from what steps look like, and made again when steps are no longer like that.
//
// Under policy `auto` the first steps are measured and planned for. From then on every step shows how fast the link and
// the computation are. Within a step, the plan of the set that suits the link best is the one that is followed. Between
// steps, if the link or the computation has changed enough, a new set is made in the background and followed from the
// next step on. The old set is kept until the new one has shown that it does no worse. Where the plan does not keep
// what it promised, a policy by hand may take its place (`rivals`). Steps of other shapes, a smaller last batch for
// instance, have sets of their own: which one a step wants shows in the items that it saves. Threads: the session's
// only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decide/link_view.hpp"
#include "decide/policy.hpp"
#include "decide/profile_recorder.hpp"
#include "decide/step_clock.hpp"
#include "follow/plan_follower.hpp"
#include "follow/replanner.hpp"
#include "follow/rivals.hpp"
#include "support/log.hpp"

namespace ferry::follow {

class adaptation {
 public:
  /// What it looks at, and the plan that it changes.
  struct surroundings {
    device& on;
    config const& settings;
    support::logger const& log;
    store::tiered_store& store;
    decide::policy& policy;
    decide::step_clock& clock;
    decide::profile_recorder& recorder;
    decide::link_view link;
    plan_follower& plan;
  };
  explicit adaptation(surroundings const& around) : around_(around) {}

  /// This plan, which was given, and no other. It stays until another one is given.
  void follow(plan given);
  [[nodiscard]] bool follows_given_plan() const noexcept { return around_.plan.has_plan() && !plan_is_ours_; }
  /// Before a step: the file of policy `plan`; under policy `auto`, once the first steps have shown what a step looks
  /// like, a plan for the next ones. `steps`: those begun so far.
  void plan_if_ready(std::uint64_t steps);
  /// The clock has learnt from the last step, perhaps in the midst of the next.
  void note_learnt(bool learnt) noexcept { learnt_late_ |= learnt; }
  /// Between two steps: what the last one showed, and whether other plans would do better.
  void between_steps();
  /// Then, before the next one: the plan for the link as it was last.
  void choose_plan();
  /// The step that begins is to be recorded, for a plan.
  [[nodiscard]] bool wants_a_record() const noexcept;
  /// In forward, when the step's first chunks may have shown that the link is another one than it was. True if another
  /// plan is followed from now on.
  [[nodiscard]] bool change_plan_in_step();
  /// No plan is followed, and the step's first item has been saved: if plans were made for such a step before, they are
  /// followed from here on.
  void recognise(store::entry const& saved);
  /// The item is not in the plan that is followed, or has other bytes there: the step has another shape than the one
  /// before. Plans that were made for it are gone on with; without any, the step goes on without a plan, and what it
  /// looks like is planned for. Throws: `plan_mismatch` if the plan was given.
  void step_is_another(store::entry const& saved, std::string const& why);
  /// Whatever was decided for the old budget is decided again.
  void budget_changed(std::size_t before, std::size_t now);
  /// A policy by hand decides in the place of the plan at hand, which waits.
  [[nodiscard]] bool rival_decides() const noexcept { return shape_.by_hand.acting() && !trial_; }
  /// A function of the trainer's places items from now on: what steps take then says nothing about plans.
  void placed_by_function();

  /// The step that the plan in force was made from.
  [[nodiscard]] std::optional<profile> const& measured() const noexcept { return shape_.measured; }
  /// FERRY_INSURE may have mattered.
  [[nodiscard]] bool has_planned() const noexcept { return has_planned_; }
  /// New sets that were taken over, or came back; and steps that went on with another plan.
  [[nodiscard]] std::uint64_t plans() const noexcept { return plans_; }
  [[nodiscard]] std::uint64_t changes_in_steps() const noexcept { return changes_in_steps_; }
  /// What it has tried in the plan's place, and what came of that: a line each, the oldest first.
  [[nodiscard]] std::string verdicts() const;

 private:
  struct link_speeds {
    double out = 0;
    double back = 0;
  };
  /// Plans that were followed before, in case the new ones do worse.
  struct trial {
    plan_set before;
    link_speeds planned_for;
    double before_us;
    std::uint64_t from_step;
    std::uint32_t steps_left;
    std::vector<planning::policy_time> by_hand;  // for the new ones
    double best_us = decide::unknown_us;
  };
  /// Steps with the same items, each with the same bytes, and what is known of them.
  struct step_shape {
    std::uint32_t generation = 0;
    std::optional<profile> measured;  ///< the step that the plans were made from
    link_speeds planned_for;          ///< the link of the plans
    rivals by_hand{};
    link_speeds by_hand_for{};  ///< the link that they are expected to take so long with
    plan_set plans{};           ///< empty until they are made, and while they are being followed
  };
  /// What plans were last made for, and since when.
  struct considered_step {
    link_speeds link;
    contention beside{};
    double computation_us = 0;
    std::uint32_t steps_since = 0;
    bool seemed_changed = false;
  };
  /// The link when the step began.
  struct step_begin {
    link_speeds link;
    std::array<std::uint64_t, 2> chunks{};  ///< by copy_direction
  };

  void plan_first(planning_task task);
  void give_up_planning(std::string_view why);
  void warn_if_unplanned();
  [[nodiscard]] bool take_up_known_shape(store::entry const& saved);
  [[nodiscard]] bool fits(plan_set const& plans, store::entry const& saved) const;
  [[nodiscard]] step_shape leave_shape();
  [[nodiscard]] planning_task planning_for(profile step) const;
  void start_planning(planning_task task);
  void take_over(replanner::result made);
  void judge_new_plans();
  void plan_again_if_changed(bool learnt);
  void check_itself();
  void let_decide();
  void give_up_rivals();
  void expect_rivals(std::vector<planning::policy_time> by_hand, link_speeds on);
  [[nodiscard]] bool step_has_changed();
  [[nodiscard]] profile updated_profile() const;
  [[nodiscard]] double computation_us() const;
  [[nodiscard]] double own_us(pass which, std::uint32_t segment, double measured_us) const;
  [[nodiscard]] link_speeds measured_speeds() const noexcept;
  [[nodiscard]] contention measured_contention() const noexcept;
  [[nodiscard]] static link_speeds speeds_of(hardware const& on) noexcept;
  [[nodiscard]] double link_factor() const noexcept;
  [[nodiscard]] bool link_is(link_speeds const& expected) const noexcept;
  [[nodiscard]] std::uint64_t chunks_in_step(copy_direction direction) const noexcept;

  surroundings around_;
  bool plan_is_ours_ = false;  // made here, so it may be forgotten
  bool has_planned_ = false;
  bool planning_given_up_ = false;
  bool replan_asked_ = false;
  bool learnt_late_ = false;
  std::uint32_t warm_steps_ = 0;
  std::uint32_t steps_to_record_ = 0;  // a shape is new: so many steps are recorded, until one of it was
  std::uint32_t steps_without_plan_ = 0;
  std::string why_no_plan_;
  std::uint32_t generations_ = 0;
  step_shape shape_;                // at hand
  std::vector<step_shape> others_;  // the one that was at hand last stands last
  considered_step considered_;
  step_begin begin_;
  std::optional<trial> trial_;
  std::uint64_t plans_ = 0;
  std::uint64_t changes_in_steps_ = 0;
  replanner replanner_;
};

}  // namespace ferry::follow
