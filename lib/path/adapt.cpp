// adapt: plans are made from what steps look like, and made again when steps are no longer like that.
//
// Under policy `auto` the first steps are measured and planned for. From then on every step shows how fast the link and
// the computation are. Within a step, the set's plan for the link as it seems is gone on with; between steps, if that
// has moved far enough, a new set is made in the background and taken over at a step's beginning. The old one is kept
// until the new one has shown that it does no worse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

namespace {

/// The first step is cold, the second one is measured.
constexpr std::uint32_t warm_up_steps = 2;
/// Where addresses are bytes, gaps between blocks cost some of the budget.
constexpr double fragmentation_margin = 0.05;
constexpr double first_planning_ms = 150;
constexpr double planning_ms = 60;  // of each plan, in the background
constexpr double gbps = 1e-3;       // of a byte per microsecond
/// Plans count on so much of the measured link.
constexpr double share_of_link = 0.95;
/// The link's speed shows in so many chunks of a step.
constexpr std::uint64_t telling_chunks = 4;

/// A speed or a time that has changed by so much is worth a new plan: at once, or if it stays so.
constexpr double clear_change = 1.25;
constexpr double lasting_change = 1.07;
/// Planning takes a core for a while: not for every small change.
constexpr std::uint32_t steps_between_plans = 8;
/// A plan that takes so much longer than the one before is given up.
constexpr double worse = 1.01;
/// A plan is tried if it promises to take no more than that, of what the last step took: plans count on less than the
/// link has.
constexpr double promising = 1.01;
constexpr std::uint32_t steps_on_trial = 2;

/// How far apart two values are, at least 1.
double apart(double a, double b) {
  if (a <= 0 || b <= 0) return 1;
  return std::max(a, b) / std::min(a, b);
}

}  // namespace

/// Under policy `auto`: once the first steps have shown what a step looks like, a plan for the next ones.
void session_core::plan_if_ready() {
  if (settings_.policy.kind == policy_kind::plan && ledger_.totals().steps == 0 && plans_.empty()) {
    follow(read_plan(settings_.policy.file));
  }
  if (!policy_.planning() || !plans_.empty() || planning_given_up_ || !recorder_.saw_work()) return;
  if (replanner_.busy() || replan_asked_ || ++warm_steps_ < warm_up_steps) return;
  auto const step = recorder_.take("this step");
  if (!step) {
    give_up_planning("micro-batches are interleaved or a step could not be measured");
    return;
  }
  measured_ = step;
  plan_is_ours_ = true;
  if (std::exchange(ledger_.effects().planned, true)) {
    start_planning(planning_for(*step));
  } else {
    plan_first(planning_for(*step));
  }
}

/// The session's first plan is waited for; those for other links, and all plans after it, are made in the background.
void session_core::plan_first(planning_task task) {
  try {
    task.how.time_limit_ms = first_planning_ms;
    auto made = make_plan(task.step, task.on, task.how);
    log_.info("planned: {:.3f} ms a step, {:.1f}% above unlimited memory", 1e-3 * made.step_us, 100 * made.overhead());
    task.home = made;
    follow(plan_set(std::move(made)));
    planned_for_ = speeds_of(task.on);
    task.how.time_limit_ms = planning_ms;
    if (settings_.adapt) start_planning(std::move(task));
  } catch (error const& cause) {
    give_up_planning(cause.what());
  }
}

void session_core::give_up_planning(std::string_view why) {
  planning_given_up_ = true;
  log_.info("no plan: {}; inputs of segments are ferried, everything else is recomputed", why);
}

planning_task session_core::planning_for(profile step) const {
  auto const speeds = measured_speeds();
  planning_task task;
  task.step = std::move(step);
  task.on.name = device_.capabilities().name;
  task.on.device_bytes = device_.capabilities().device_bytes;
  task.on.host_bytes = device_.capabilities().pinned_bytes;
  task.on.device_to_host.gbps = speeds.out * gbps;
  task.on.host_to_device.gbps = speeds.back * gbps;
  task.how.budget_bytes = store_.device_tier().bytes().limit_bytes();
  task.how.host_budget_bytes = store_.pinned_tier().bytes().limit_bytes();
  task.how.insured = settings_.insure;
  task.how.link_derating = share_of_link;
  task.how.fragmentation_margin = device_.capabilities().addresses_per_byte == 1 ? fragmentation_margin : 0;
  task.how.time_limit_ms = planning_ms;
  task.how.effort = settings_.plan_effort;
  task.generation = generation_;
  task.other_links = settings_.adapt;
  return task;
}

void session_core::start_planning(planning_task task) {
  considered_ = speeds_of(task.on);
  considered_us_ = own_us();
  steps_since_planning_ = 0;
  replanner_.start(std::move(task));
}

/// In bytes per microsecond; 0 where nothing has been copied yet.
session_core::link_speeds session_core::measured_speeds() const noexcept {
  return {transfers_.link().counters(copy_direction::device_to_host).bytes_per_us.load(std::memory_order_relaxed),
          transfers_.link().counters(copy_direction::host_to_device).bytes_per_us.load(std::memory_order_relaxed)};
}

/// Between two steps: what the last one showed, and whether other plans would do better.
void session_core::adapt() {
  learnt_late_ |= learn();
  bool const learnt = std::exchange(learnt_late_, false);
  if (learnt) judge_new_plans();
  if (learnt && measured_ && following_ != nullptr && following_->followed().unlimited_us > 0) {
    pace_against_plan_ = own_us() / following_->followed().unlimited_us;
  }
  if (auto made = replanner_.take(device_.time() != nullptr)) take_over(std::move(*made));
  speeds_at_begin_ = measured_speeds();
  for (auto const direction : {copy_direction::device_to_host, copy_direction::host_to_device}) {
    chunks_at_begin_[static_cast<std::size_t>(direction)] = transfers_.link().counters(direction).chunks;
  }
  if (!plan_is_ours_ || !measured_ || replanner_.busy()) return;
  bool const changed = settings_.adapt && following_ != nullptr && learnt && step_has_changed();
  bool const asked = std::exchange(replan_asked_, false);
  if (changed || asked) start_planning(planning_for(updated_profile()));
}

/// From the step before, if it is over by now and that is news.
bool session_core::learn() {
  if (!clock_.can_learn()) return false;
  ledger_.take_measurements(false);
  return clock_.learn();
}

/// Before a step: the plan for the link as it was last.
void session_core::choose_plan() {
  if (following_ == nullptr || !plan_is_ours_ || !settings_.adapt) return;
  if (plans_.choose(link_factor(), share_of_link)) following_ = plans_.at_hand();
}

session_core::link_speeds session_core::speeds_of(hardware const& on) noexcept {
  return {on.device_to_host.gbps / gbps, on.host_to_device.gbps / gbps};
}

/// The computation of one pass through the step, as it was measured last.
double session_core::own_us() const {
  double sum = 0;
  for (std::uint32_t i = 0; i < measured_->segments.size(); ++i) {
    auto const& segment = measured_->segments[i];
    sum += clock_.own_us(pass::forward, i).value_or(segment.forward_us);
    sum += clock_.own_us(pass::backward, i).value_or(segment.backward_us);
  }
  return sum;
}

/// The step that was measured first, with the times that were measured since.
profile session_core::updated_profile() const {
  profile step = *measured_;
  for (std::uint32_t i = 0; i < step.segments.size(); ++i) {
    auto& segment = step.segments[i];
    segment.forward_us = clock_.own_us(pass::forward, i).value_or(segment.forward_us);
    segment.backward_us = clock_.own_us(pass::backward, i).value_or(segment.backward_us);
    for (auto& item : segment.items) {
      auto const known = store_.entries().find({0, i, label(item.name)});
      bool const timed = item.recipe_us && known != store_.entries().end() && known->second.recipe_us >= 0;
      if (timed) item.recipe_us = known->second.recipe_us;
    }
  }
  return step;
}

/// The link or the computation is not what the last plans were made for. A small change must stay to be believed.
bool session_core::step_has_changed() {
  auto const now = measured_speeds();
  double const change =
      std::max({apart(now.out, considered_.out), apart(now.back, considered_.back), apart(own_us(), considered_us_)});
  bool const stays = std::exchange(seemed_changed_, change > lasting_change);
  ++steps_since_planning_;
  bool const believed = stays && seemed_changed_ && steps_since_planning_ >= steps_between_plans;
  if (change <= clear_change && !believed) return false;
  seemed_changed_ = false;
  log_.info("the step has changed by {:.0f}%, planning again", 100 * (change - 1));
  return true;
}

/// New plans are followed from this step on, on trial.
void session_core::take_over(replanner::result made) {
  if (!plan_is_ours_ || made.task.generation != generation_) return;  // the step they were made for is no more
  if (made.task.how.budget_bytes != store_.device_tier().bytes().limit_bytes()) {
    replan_asked_ = true;
    return;
  }
  if (made.plans.empty()) {
    if (plans_.empty()) return give_up_planning(made.failure);
    log_.info("the plan stays: {}", made.failure);
    return;
  }
  bool const same_plan = made.task.home && following_ != nullptr;  // now with those for other links
  bool const another_budget =
      following_ == nullptr || following_->followed().budget_bytes != made.task.how.budget_bytes;
  if (same_plan || another_budget) {
    planned_for_ = speeds_of(made.task.on);
    follow(std::move(made.plans));
    return;
  }
  double const before_us = clock_.step_us();
  double const after_us = made.plans.at_hand()->followed().step_us;
  if (after_us > promising * before_us) {
    log_.info("the plan stays: the new one would take {:.3f} ms, this one took {:.3f}", 1e-3 * after_us,
              1e-3 * before_us);
    return;
  }
  trial_.emplace(trial{std::move(plans_), std::exchange(planned_for_, speeds_of(made.task.on)), before_us,
                       clock_.this_step(), steps_on_trial});
  measured_ = std::move(made.task.step);
  follow(std::move(made.plans));
  ++ledger_.totals().plans;
  log_.info("new plan: {:.3f} ms a step, the last one took {:.3f}", 1e-3 * after_us, 1e-3 * before_us);
}

/// The plans before come back if the new ones do worse, unless the world has changed again meanwhile.
void session_core::judge_new_plans() {
  if (!trial_ || clock_.learnt_step() < trial_->from_step) return;
  trial_->best_us = std::min(trial_->best_us, clock_.step_us());
  if (--trial_->steps_left > 0) return;
  bool const failed = trial_->best_us > worse * trial_->before_us && link_is(considered_);
  if (failed) {
    log_.info("the plan before comes back: it took {:.3f} ms, the new one {:.3f}", 1e-3 * trial_->before_us,
              1e-3 * trial_->best_us);
    planned_for_ = trial_->planned_for;
    follow(std::move(trial_->before));
    ++ledger_.totals().plans;
  }
  trial_.reset();
}

bool session_core::link_is(link_speeds const& expected) const noexcept {
  auto const now = measured_speeds();
  return std::max(apart(now.out, expected.out), apart(now.back, expected.back)) < lasting_change;
}

/// How fast the link is against what the plans at hand were made for. Until chunks have come back in this step, that
/// way is taken to have changed as the other one has.
double session_core::link_factor() const noexcept {
  auto const now = measured_speeds();
  double back = now.back;
  if (chunks_in_step(copy_direction::host_to_device) < telling_chunks && speeds_at_begin_.out > 0) {
    back *= now.out / speeds_at_begin_.out;
  }
  auto const factor = [](double speed, double planned) { return speed > 0 && planned > 0 ? speed / planned : 1.0; };
  return std::min(factor(now.out, planned_for_.out), factor(back, planned_for_.back));
}

std::uint64_t session_core::chunks_in_step(copy_direction direction) const noexcept {
  return transfers_.link().counters(direction).chunks - chunks_at_begin_[static_cast<std::size_t>(direction)];
}

/// In forward, when the step's first chunks have shown that the link is another one than it was.
void session_core::change_plan_in_step() {
  if (!plan_is_ours_ || !settings_.adapt) return;
  if (chunks_in_step(copy_direction::device_to_host) < telling_chunks || !plans_.choose(link_factor(), share_of_link))
    return;
  auto const* const before = std::exchange(following_, plans_.at_hand());
  following_->go_on_from(*before);
  off_plan_ = true;
  ++ledger_.totals().plan_changes;
  place_anew();
}

std::optional<profile> session_core::recorded_profile() {
  if (in_step_) throw error("recorded_profile: a step is under way; call it after end_step");
  if (measured_) return measured_;  // of the warm-up, where every recipe ran
  ledger_.take_measurements(true);
  return recorder_.take("recorded");
}

}  // namespace ferry::path
