#include "follow/adaptation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ferry/error.hpp"

namespace ferry::follow {

namespace {

/// The first step is cold, the second one is measured.
constexpr std::uint32_t warm_up_steps = 2;
/// Training steps without a plan, after which somebody should hear why.
constexpr std::uint32_t patient_steps = 5;
/// Shapes of steps that are remembered beside the one at hand.
constexpr std::size_t other_shapes = 7;
/// Recording holds the host back a little: one that does not come again soon is not waited for.
constexpr std::uint32_t steps_recorded_for_a_shape = 16;
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
constexpr double tolerated_slowdown = 1.01;
/// A plan is tried if it promises to take no more than that, of what the last step took: plans count on less than the
/// link has.
constexpr double worth_a_trial = 1.01;
constexpr std::uint32_t steps_on_trial = 2;

/// How many times the smaller one the larger one is; 1 if one of them is not known.
double times_larger(double a, double b) {
  if (a <= 0 || b <= 0) return 1;
  return std::max(a, b) / std::min(a, b);
}

double times_larger(contention const& a, contention const& b) {
  return std::max({times_larger(a.out_beside_back, b.out_beside_back),
                   times_larger(a.back_beside_out, b.back_beside_out),
                   times_larger(a.compute_beside_out, b.compute_beside_out),
                   times_larger(a.compute_beside_back, b.compute_beside_back),
                   times_larger(a.compute_beside_both, b.compute_beside_both)});
}

}  // namespace

void adaptation::follow(plan given) {
  around_.plan.follow(plan_set(std::move(given)));
  plan_is_ours_ = false;
  trial_.reset();
  give_up_rivals();
  others_.clear();
}

void adaptation::plan_if_ready(std::uint64_t steps) {
  if (around_.settings.policy.kind == policy_kind::plan && steps == 0 && !around_.plan.has_plan()) {
    follow(read_plan(around_.settings.policy.file));
  }
  if (steps_to_record_ > 0) --steps_to_record_;
  if (!around_.policy.planning() || around_.plan.has_plan()) return;
  if (steps > 0) warn_if_unplanned();
  if (planning_given_up_ || !around_.recorder.saw_work() || replanner_.busy() || replan_asked_) return;
  if (++warm_steps_ < warm_up_steps && !has_planned_) return;
  auto const step = around_.recorder.take("this step");
  if (!step) {
    give_up_planning("micro-batches are interleaved or a step could not be measured");
    return;
  }
  shape_.measured = step;
  plan_is_ours_ = true;
  steps_to_record_ = 0;
  if (std::exchange(has_planned_, true)) {
    start_planning(planning_for(*step));
  } else {
    plan_first(planning_for(*step));
  }
}

/// The session's first plan is waited for; those for other links, and all plans after it, are made in the background.
void adaptation::plan_first(planning_task task) {
  try {
    task.how.time_limit_ms = first_planning_ms;
    auto made = make_plan(task.step, task.on, task.how);
    around_.log.info("planned: {:.3f} ms a step, {:.1f}% above unlimited memory", 1e-3 * made.step_us,
                     100 * made.overhead());
    task.home = made;
    around_.plan.follow(plan_set(std::move(made)));
    shape_.planned_for = speeds_of(task.on);
    task.how.time_limit_ms = planning_ms;
    if (around_.settings.adapt) start_planning(std::move(task));
  } catch (error const& cause) {
    give_up_planning(cause.what());
  }
}

/// Once: whoever relies on `auto` should know that it is not what they get.
void adaptation::warn_if_unplanned() {
  bool const measuring = !has_planned_ && around_.recorder.saw_work();
  if (!(planning_given_up_ || measuring) || ++steps_without_plan_ != patient_steps) return;
  around_.log.warning(
      "FERRY_POLICY=auto has no plan after {} steps: {}; inputs of segments are ferried, all else is recomputed",
      patient_steps, why_no_plan_.empty() ? "no step could be measured" : why_no_plan_);
}

void adaptation::give_up_planning(std::string_view why) {
  planning_given_up_ = true;
  why_no_plan_ = why;
  around_.log.info("no plan: {}; inputs of segments are ferried, everything else is recomputed", why);
}

planning_task adaptation::planning_for(profile step) const {
  auto const speeds = measured_speeds();
  planning_task task;
  task.step = std::move(step);
  task.on.name = around_.on.capabilities().name;
  task.on.device_bytes = around_.on.capabilities().device_bytes;
  task.on.host_bytes = around_.on.capabilities().pinned_bytes;
  task.on.device_to_host.gbps = speeds.out * gbps;
  task.on.host_to_device.gbps = speeds.back * gbps;
  task.on.beside = measured_contention();
  task.how.budget_bytes = around_.store.device_tier().bytes().limit_bytes();
  task.how.host_budget_bytes = around_.store.pinned_tier().bytes().limit_bytes();
  task.how.insured = around_.settings.insure;
  task.how.link_derating = share_of_link;
  task.how.fragmentation_margin = around_.on.capabilities().addresses_per_byte == 1 ? fragmentation_margin : 0;
  task.how.time_limit_ms = planning_ms;
  task.how.effort = around_.settings.plan_effort;
  task.generation = shape_.generation;
  task.other_links = around_.settings.adapt;
  return task;
}

/// What is left of each speed beside the others, as far as that has shown.
contention adaptation::measured_contention() const noexcept {
  contention beside = around_.clock.beside();
  auto const share = [&](copy_direction direction) {
    return around_.link.counters(direction).share_beside.load(std::memory_order_relaxed);
  };
  beside.out_beside_back = share(copy_direction::device_to_host);
  beside.back_beside_out = share(copy_direction::host_to_device);
  return beside;
}

void adaptation::start_planning(planning_task task) {
  considered_.link = speeds_of(task.on);
  considered_.beside = task.on.beside;
  considered_.computation_us = computation_us();
  considered_.steps_since = 0;
  replanner_.start(std::move(task));
}

/// In bytes per microsecond; 0 where nothing has been copied yet.
adaptation::link_speeds adaptation::measured_speeds() const noexcept {
  return {around_.link.counters(copy_direction::device_to_host).bytes_per_us.load(std::memory_order_relaxed),
          around_.link.counters(copy_direction::host_to_device).bytes_per_us.load(std::memory_order_relaxed)};
}

void adaptation::between_steps() {
  bool const learnt = std::exchange(learnt_late_, false);
  if (learnt) judge_new_plans();
  if (learnt && shape_.measured && around_.plan.is_active() && around_.plan.followed()->unlimited_us > 0) {
    around_.plan.set_pace(computation_us() / around_.plan.followed()->unlimited_us);
  }
  if (auto made = replanner_.take(around_.on.time() != nullptr)) take_over(std::move(*made));
  begin_.link = measured_speeds();
  for (auto const direction : {copy_direction::device_to_host, copy_direction::host_to_device}) {
    begin_.chunks[static_cast<std::size_t>(direction)] = around_.link.counters(direction).chunks;
  }
  // One thing after the other: what steps take on trial says nothing about plans.
  if (plan_is_ours_ && shape_.measured && !replanner_.busy() && !shape_.by_hand.on_trial())
    plan_again_if_changed(learnt);
  if (learnt) check_itself();
  let_decide();
}

void adaptation::plan_again_if_changed(bool learnt) {
  bool const followed = around_.plan.has_plan() && !around_.policy.has_function();
  bool const changed = around_.settings.adapt && followed && learnt && step_has_changed();
  bool const asked = std::exchange(replan_asked_, false);
  if (changed || asked) start_planning(planning_for(updated_profile()));
}

void adaptation::choose_plan() {
  if (!around_.plan.is_active() || !plan_is_ours_ || !around_.settings.adapt) return;
  around_.plan.choose(link_factor(), share_of_link);
}

bool adaptation::wants_a_record() const noexcept {
  bool const wanted = steps_to_record_ > 0 || !around_.plan.has_plan();
  return around_.policy.planning() && wanted && !planning_given_up_ && !replanner_.busy();
}

void adaptation::recognise(store::entry const& saved) {
  bool const first = &around_.store.live().front() == &saved && &around_.store.live().back() == &saved;
  if (!others_.empty() && first && around_.policy.planning()) static_cast<void>(take_up_known_shape(saved));
}

void adaptation::step_is_another(store::entry const& saved, std::string const& why) {
  if (!plan_is_ours_) {
    throw plan_mismatch(
        fmt::format("the plan '{}' was made for another step: {}; profile this model and plan again, or "
                    "set FERRY_POLICY=auto",
                    around_.plan.at_hand()->profile_name, why));
  }
  if (take_up_known_shape(saved)) return;
  around_.log.info("the step has changed, planning for it too: {}", why);
  if (others_.size() == other_shapes) others_.erase(others_.begin());
  others_.push_back(leave_shape());
  shape_.generation = ++generations_;
  steps_to_record_ = steps_recorded_for_a_shape;
}

/// The plans of another shape are gone on with, if there is one that the step has so far.
bool adaptation::take_up_known_shape(store::entry const& saved) {
  auto const found = std::ranges::find_if(others_, [&](step_shape const& one) { return fits(one.plans, saved); });
  if (found == others_.end()) return false;
  auto known = std::move(*found);
  others_.erase(found);
  if (auto left = leave_shape(); !left.plans.empty() || replanner_.busy()) others_.push_back(std::move(left));
  auto const& here = around_.clock.stretches().back();
  around_.plan.go_on_with(std::exchange(known.plans, {}), here.which, here.segment);
  shape_ = std::move(known);
  return true;
}

bool adaptation::fits(plan_set const& plans, store::entry const& saved) const {
  if (plans.empty()) return false;
  auto const known = [&](store::entry const& e) {
    auto const* const planned = plans.at_hand()->find(e.key);
    return planned != nullptr && planned->bytes == e.bytes;
  };
  return known(saved) && std::ranges::all_of(around_.store.live(), known);
}

/// What is known of the shape at hand, which steps may come back to.
adaptation::step_shape adaptation::leave_shape() {
  trial_.reset();
  replan_asked_ = false;  // it was asked for the step as it was
  auto left = std::exchange(shape_, {});
  let_decide();
  left.plans = around_.plan.give_up();
  return left;
}

void adaptation::budget_changed(std::size_t before, std::size_t now) {
  planning_given_up_ = false;
  others_.clear();  // made for the old budget
  give_up_rivals();
  auto const* const plan = around_.plan.at_hand();
  if (plan == nullptr) return;
  if (plan_is_ours_) {
    // What was planned with more bytes may not fit; until there is another plan, what needs fewest is done.
    if (now < before) {
      static_cast<void>(around_.plan.give_up());
      trial_.reset();
    }
    replan_asked_ = true;
  } else if (now < plan->budget_bytes) {
    around_.log.warning("the budget is {} now, but the plan '{}' was made for {}: steps may run out of it",
                        format_bytes(now), plan->profile_name, format_bytes(plan->budget_bytes));
  }
}

adaptation::link_speeds adaptation::speeds_of(hardware const& on) noexcept {
  return {on.device_to_host.gbps / gbps, on.host_to_device.gbps / gbps};
}

/// Of a segment, as it was measured last. The clock does not tell shapes apart: with several, it is as it was recorded.
double adaptation::own_us(pass which, std::uint32_t segment, double measured_us) const {
  return others_.empty() ? around_.clock.own_us(which, segment).value_or(measured_us) : measured_us;
}

/// The computation of one pass through the step, as it was measured last.
double adaptation::computation_us() const {
  double sum = 0;
  for (std::uint32_t i = 0; i < shape_.measured->segments.size(); ++i) {
    auto const& segment = shape_.measured->segments[i];
    sum += own_us(pass::forward, i, segment.forward_us) + own_us(pass::backward, i, segment.backward_us);
  }
  return sum;
}

/// The step that was measured first, with the times that were measured since.
profile adaptation::updated_profile() const {
  profile step = *shape_.measured;
  for (std::uint32_t i = 0; i < step.segments.size(); ++i) {
    auto& segment = step.segments[i];
    segment.forward_us = own_us(pass::forward, i, segment.forward_us);
    segment.backward_us = own_us(pass::backward, i, segment.backward_us);
    for (auto& item : segment.items) {
      auto const known = around_.store.entries().find({0, i, label(item.name)});
      bool const timed = item.recipe_us && known != around_.store.entries().end() && known->second.rebuild.us >= 0;
      if (timed) item.recipe_us = known->second.rebuild.us * around_.clock.recipes_own_share(pass::backward, i);
    }
  }
  return step;
}

/// The link, the computation or what they cost each other is not what the last plans were made for. A small change must
/// stay to be believed.
bool adaptation::step_has_changed() {
  auto const now = measured_speeds();
  double const change =
      std::max({times_larger(now.out, considered_.link.out), times_larger(now.back, considered_.link.back),
                times_larger(computation_us(), considered_.computation_us),
                times_larger(measured_contention(), considered_.beside)});
  bool const stays = std::exchange(considered_.seemed_changed, change > lasting_change);
  ++considered_.steps_since;
  bool const believed = stays && considered_.seemed_changed && considered_.steps_since >= steps_between_plans;
  if (change <= clear_change && !believed) return false;
  considered_.seemed_changed = false;
  around_.log.info("the step has changed by {:.0f}%, planning again", 100 * (change - 1));
  return true;
}

/// New plans are followed from this step on, on trial.
void adaptation::take_over(replanner::result made) {
  if (!plan_is_ours_) return;
  if (made.task.generation != shape_.generation) {  // of a shape that is not at hand, or has been forgotten
    auto const of = std::ranges::find(others_, made.task.generation, &step_shape::generation);
    if (of == others_.end() || made.plans.empty()) return;
    of->planned_for = speeds_of(made.task.on);
    of->plans = std::move(made.plans);
    of->by_hand.plans_are_new(std::move(made.by_hand), of->plans.at_hand()->followed().step_us);
    of->by_hand_for = of->planned_for;
    return;
  }
  if (made.task.how.budget_bytes != around_.store.device_tier().bytes().limit_bytes()) {
    replan_asked_ = true;
    return;
  }
  if (made.plans.empty()) {
    if (!around_.plan.has_plan()) return give_up_planning(made.failure);
    around_.log.info("the plan stays: {}", made.failure);
    return;
  }
  bool const same_plan = made.task.home && around_.plan.has_plan();  // now with those for other links
  bool const another_budget =
      !around_.plan.has_plan() || around_.plan.at_hand()->budget_bytes != made.task.how.budget_bytes;
  if (same_plan || another_budget) {
    shape_.planned_for = speeds_of(made.task.on);
    around_.plan.follow(std::move(made.plans));
    expect_rivals(std::move(made.by_hand), shape_.planned_for);
    return;
  }
  double const before_us = around_.clock.step_us();
  double const after_us = made.plans.at_hand()->followed().step_us;
  if (after_us > worth_a_trial * before_us) {
    around_.log.info("the plan stays: the new one would take {:.3f} ms, this one took {:.3f}", 1e-3 * after_us,
                     1e-3 * before_us);
    if (!shape_.by_hand.acting()) expect_rivals(std::move(made.by_hand), speeds_of(made.task.on));
    return;
  }
  trial_.emplace(trial{around_.plan.give_up(), std::exchange(shape_.planned_for, speeds_of(made.task.on)), before_us,
                       around_.clock.this_step(), steps_on_trial, std::move(made.by_hand)});
  shape_.measured = std::move(made.task.step);
  around_.plan.follow(std::move(made.plans));
  ++plans_;
  around_.log.info("new plan: {:.3f} ms a step, the last one took {:.3f}", 1e-3 * after_us, 1e-3 * before_us);
}

/// The plans before come back if the new ones do worse, unless the world has changed again meanwhile.
void adaptation::judge_new_plans() {
  if (!trial_ || around_.clock.learnt_step() < trial_->from_step) return;
  trial_->best_us = std::min(trial_->best_us, around_.clock.step_us());
  if (--trial_->steps_left > 0) return;
  bool const failed = trial_->best_us > tolerated_slowdown * trial_->before_us && link_is(considered_.link);
  if (failed) {
    around_.log.info("the plan before comes back: it took {:.3f} ms, the new one {:.3f}", 1e-3 * trial_->before_us,
                     1e-3 * trial_->best_us);
    shape_.planned_for = trial_->planned_for;
    around_.plan.follow(std::move(trial_->before));
    ++plans_;
  } else {
    expect_rivals(std::move(trial_->by_hand), shape_.planned_for);
  }
  trial_.reset();
}

/// Does the plan keep what it promised, against the policies by hand?
void adaptation::check_itself() {
  if (trial_ || !plan_is_ours_ || !around_.plan.has_plan() || !around_.settings.adapt) return;
  // With another link the plans for it are the better guess.
  bool const as_expected = link_is(shape_.by_hand_for);
  if (shape_.by_hand.acting() && !as_expected) return shape_.by_hand.give_up();
  auto const& clock = around_.clock;
  bool const may_try = as_expected && !replanner_.busy();
  if (!shape_.by_hand.step_took(clock.learnt_step(), clock.step_us(), clock.this_step(), may_try)) return;
  around_.log.info("step {}: {}", shape_.by_hand.verdicts().back().step, shape_.by_hand.verdicts().back().words);
}

/// The plan, or the policy that is followed in its place. New plans on trial are tried themselves.
void adaptation::let_decide() {
  if (around_.policy.has_function()) return;
  auto const acting = rival_decides() ? shape_.by_hand.acting() : std::nullopt;
  around_.policy.act_as(acting);
  if (acting) {
    around_.plan.suspend();
  } else {
    around_.plan.resume();
  }
}

void adaptation::expect_rivals(std::vector<planning::policy_time> by_hand, link_speeds on) {
  shape_.by_hand.plans_are_new(std::move(by_hand), around_.plan.at_hand()->step_us);
  shape_.by_hand_for = on;
}

void adaptation::give_up_rivals() {
  shape_.by_hand.give_up();
  let_decide();
  around_.plan.take_up();
}

void adaptation::placed_by_function() {
  trial_.reset();
  shape_.by_hand.give_up();
  around_.policy.act_as(std::nullopt);
}

std::string adaptation::verdicts() const {
  std::string lines;
  for (auto const& one : shape_.by_hand.verdicts()) lines += fmt::format("auto, step {}: {}\n", one.step, one.words);
  return lines;
}

bool adaptation::link_is(link_speeds const& expected) const noexcept {
  auto const now = measured_speeds();
  return std::max(times_larger(now.out, expected.out), times_larger(now.back, expected.back)) < lasting_change;
}

/// How fast the link is against what the plans at hand were made for. Until chunks have come back in this step, that
/// way is taken to have changed as the other one has.
double adaptation::link_factor() const noexcept {
  auto const now = measured_speeds();
  double back = now.back;
  if (chunks_in_step(copy_direction::host_to_device) < telling_chunks && begin_.link.out > 0) {
    back *= now.out / begin_.link.out;
  }
  auto const factor = [](double speed, double planned) { return speed > 0 && planned > 0 ? speed / planned : 1.0; };
  return std::min(factor(now.out, shape_.planned_for.out), factor(back, shape_.planned_for.back));
}

std::uint64_t adaptation::chunks_in_step(copy_direction direction) const noexcept {
  return around_.link.counters(direction).chunks - begin_.chunks[static_cast<std::size_t>(direction)];
}

bool adaptation::change_plan_in_step() {
  if (!plan_is_ours_ || !around_.settings.adapt) return false;
  if (chunks_in_step(copy_direction::device_to_host) < telling_chunks) return false;
  if (!around_.plan.change_in_step(link_factor(), share_of_link)) return false;
  ++changes_in_steps_;
  return true;
}

}  // namespace ferry::follow
