// conduct: the session follows a plan, and under policy `auto` makes one from what the first steps looked like.
#include <fmt/format.h>

#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

namespace {

/// The first step is cold, the second one is measured.
constexpr std::uint32_t warm_up_steps = 2;
/// Where addresses are bytes, gaps between blocks cost some of the budget.
constexpr double fragmentation_margin = 0.05;
constexpr double planning_ms = 150;

bool reaches_beyond(item_key const& key, recipe const& how) {
  for (auto const& input : how.inputs.keys()) {
    if (input.segment != key.segment) return true;
  }
  return false;
}

}  // namespace

void session_core::follow(plan planned) {
  if (in_step_) throw error("follow: a step is under way; call it between end_step and begin_step");
  conductor_.emplace(std::move(planned));
  due_fetches_.reserve(conductor_->items());
  felt_.followed_a_plan = true;
  plan_is_ours_ = false;
}

decision session_core::decide(entry const& e) {
  if (conductor_) {
    auto const* const planned = conductor_->find(e.key);
    if (planned != nullptr && planned->bytes == e.bytes) {
      switch (planned->where) {
        case placement::keep:
          return {placement::keep, reason::kept_by_policy};
        case placement::offload:
          if (e.bytes < settings_.min_bytes) return {placement::keep, reason::kept_below_min_bytes};
          return {placement::offload, reason::offloaded_by_policy};
        case placement::recompute:
          if (!e.has_recipe) return {placement::keep, reason::kept_no_recipe};
          return {placement::recompute, reason::dropped_by_policy};
      }
    }
    auto const what = planned == nullptr
                          ? fmt::format("{} is not in it", to_string(e.key))
                          : fmt::format("{} has {} bytes, there it has {}", to_string(e.key), e.bytes, planned->bytes);
    forget_plan(what);
  }
  bool const boundary = !e.has_recipe || reaches_beyond(e.key, *e.how);
  return policy_.decide({e.key, e.bytes, e.has_recipe, boundary, e.stats.recipe_us});
}

/// The step is not the one that was planned. A plan of our own is made anew; one that was given is an error.
void session_core::forget_plan(std::string const& why) {
  if (!plan_is_ours_) {
    throw plan_mismatch(
        fmt::format("the plan '{}' was made for another step: {}; profile this model and plan again, or "
                    "set FERRY_POLICY=auto",
                    conductor_->followed().profile_name, why));
  }
  log_.info("the step has changed, planning again: {}", why);
  conductor_.reset();
  due_fetches_.clear();
  next_fetch_ = 0;
  warm_steps_ = 0;
}

/// The trainer enters a segment: what the plan has before it is issued now.
void session_core::conduct(pass which, item_key const& key, stream_ref stream) {
  auto const directives = conductor_->enter(which, key);
  event_handle position;
  for (auto const& one : directives) {
    entry* const e = store_.find({key.micro_batch, one.item.segment, one.item.name});
    if (e == nullptr || e->release_asked) continue;
    switch (one.what) {
      case plan_operation::kind::fetch:
        if (!position) position = store_.events().record(stream);
        due_fetches_.push_back({e, position});
        fetch_planned();
        break;
      case plan_operation::kind::rebuild:
        if (e->state() != item_state::dropped) break;
        recompute(*e, stream, reason::recomputed_by_plan);
        e->restored = true;  // it stays until its use
        break;
      case plan_operation::kind::drop:
        if (e->state() != item_state::resident || !e->idle() || !e->has_recipe) break;
        store_.drop(*e);
        e->restored = false;
        prefetch_due_ = true;
        break;
      default:
        break;
    }
  }
}

/// Starts the fetches that are due, in the plan's order, as far as bytes are free.
void session_core::fetch_planned() {
  auto& tier = store_.device_tier();
  for (; next_fetch_ < due_fetches_.size(); ++next_fetch_) {
    auto& [e, position] = due_fetches_[next_fetch_];
    if (e->state() == item_state::offloading && !e->restored) return;  // first it must have gone out
    if (e->state() != item_state::hosted || e->moving != nullptr || e->device) continue;
    auto region = tier.allocate(e->bytes, e->key.name);
    if (!region) return;
    prefetch(*e, std::move(*region), std::move(position));
  }
}

/// Under policy `auto`: once the first steps have shown what a step looks like, a plan for the next ones.
void session_core::plan_if_ready() {
  if (settings_.policy.kind == policy_kind::plan && totals_.steps == 0 && !conductor_) {
    follow(read_plan(settings_.policy.file));
  }
  if (!policy_.planning() || conductor_ || planning_given_up_ || !recorder_.saw_work()) return;
  if (++warm_steps_ < warm_up_steps) return;
  auto const step = recorder_.take("this step");
  if (!step) {
    planning_given_up_ = true;
    log_.info(
        "no plan: micro-batches are interleaved or a step could not be measured; inputs of segments are ferried, "
        "everything else is recomputed");
    return;
  }
  plan_options how;
  how.budget_bytes = store_.device_tier().bytes().limit_bytes();
  how.host_budget_bytes = store_.pinned_tier().bytes().limit_bytes();
  how.insured = settings_.insure;
  how.fragmentation_margin = device_.capabilities().addresses_per_byte == 1 ? fragmentation_margin : 0;
  how.time_limit_ms = planning_ms;
  try {
    felt_.planned = true;
    auto made = make_plan(*step, measured_hardware(), how);
    log_.info("planned: {:.3f} ms a step, {:.1f}% above unlimited memory", 1e-3 * made.step_us, 100 * made.overhead());
    follow(std::move(made));
    plan_is_ours_ = true;
    measured_ = step;
  } catch (error const& cause) {
    planning_given_up_ = true;
    log_.info("no plan: {}; inputs of segments are ferried, everything else is recomputed", cause.what());
  }
}

hardware session_core::measured_hardware() const {
  hardware on;
  on.name = device_.capabilities().name;
  on.device_bytes = device_.capabilities().device_bytes;
  on.host_bytes = device_.capabilities().pinned_bytes;
  auto const speed = [this](copy_direction direction) {
    return link_speed{engine_.counters(direction).bytes_per_us.load(std::memory_order_relaxed) / 1000, 0};
  };
  on.device_to_host = speed(copy_direction::device_to_host);
  on.host_to_device = speed(copy_direction::host_to_device);
  return on;
}

std::optional<profile> session_core::recorded_profile() {
  if (in_step_) throw error("recorded_profile: a step is under way; call it after end_step");
  if (measured_) return measured_;  // of the warm-up, where every recipe ran
  take_measurements(true);
  return recorder_.take("recorded");
}

}  // namespace ferry::path
