// The session carries out the plan in force. Which plan that is, lib/follow says.
#include <fmt/format.h>

#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

void session_core::follow(plan planned) {
  if (step_) throw error("follow: a step is under way; call it between end_step and begin_step");
  adaptation_.follow(std::move(planned));
  ledger_.effects().followed_a_plan = true;
}

void session_core::set_placement(placement_function choose) {
  policy_.set_function(std::move(choose));
  if (!policy_.has_function()) {
    follower_.resume();
    if (!step_) follower_.take_up();  // else the next step does: the one at hand has left the plan
    return;
  }
  // What the function says may contradict the plan in every item.
  follower_.suspend();
  adaptation_.placed_by_function();
  transfers_.look_for_fetches();
}

decision session_core::decide(entry& e) {
  bool const plan_knows = follower_.is_active() || adaptation_.rival_decides();
  if (!plan_knows) adaptation_.recognise(e);
  auto const* planned = plan_knows ? follower_.find(e.key) : nullptr;
  if (plan_knows && (planned == nullptr || planned->bytes != e.bytes)) {
    auto const what = planned == nullptr
                          ? fmt::format("{} is not in it", to_string(e.key))
                          : fmt::format("{} has {} bytes, there it has {}", to_string(e.key), e.bytes, planned->bytes);
    adaptation_.step_is_another(e, what);
    planned = follower_.is_active() ? follower_.find(e.key) : nullptr;
  }
  if (planned != nullptr && follower_.is_active()) {
    if (e.rebuild.us < 0 && planned->rebuild_us) e.rebuild.us = *planned->rebuild_us;
    switch (planned->where) {
      case placement::keep:
        return {placement::keep, reason::kept_by_policy};
      case placement::offload:
        if (e.bytes < settings_.min_bytes) return {placement::keep, reason::kept_below_min_bytes};
        return {placement::offload, reason::offloaded_by_policy};
      case placement::recompute:
        if (!e.rebuild.possible) return {placement::keep, reason::kept_no_recipe};
        return {placement::recompute, reason::dropped_by_policy};
    }
  }
  bool const boundary = !e.rebuild.possible || e.reaches_beyond_segment();
  return policy_.decide({e.key, e.bytes, e.rebuild.possible, boundary, e.record.stats.recipe_us});
}

/// The trainer enters a segment: what the plan has before it is issued now.
void session_core::carry_out_plan(pass which, item_key const& key, stream_ref stream) {
  if (which == pass::forward && adaptation_.change_plan_in_step()) place_anew();
  auto const directives = follower_.enter(which, key);
  event_handle position;
  for (auto const& one : directives) {
    entry* const e = store_.find({key.micro_batch, one.item.segment, one.item.name});
    if (e == nullptr || e->course.release_asked) continue;
    switch (one.what) {
      case plan_operation::kind::fetch:
        if (!position) position = store_.events().record(stream);
        follower_.due().push_back({e, position});
        fetch_planned();
        break;
      case plan_operation::kind::rebuild:
        if (e->state() == item_state::dropped) rebuild_ahead(*e, stream, reason::recomputed_by_plan);
        break;
      case plan_operation::kind::drop:
        if (e->state() != item_state::resident || !e->idle() || !e->rebuild.possible) break;
        give_up_device_bytes(*e);
        e->course.restored = false;
        transfers_.look_for_fetches();
        break;
      default:
        break;
    }
  }
}

/// Items saved already are placed anew, as the plan at hand would have had them, as far as that still can be done.
void session_core::place_anew() {
  for (auto& e : store_.live()) {
    auto const* const planned = follower_.find(e.key);
    if (planned == nullptr || planned->where == e.course.where || e.course.restored) continue;
    bool const unsent = e.state() == item_state::offloading && e.moving->issued_bytes == 0;
    switch (planned->where) {
      case placement::keep:
        if (e.state() == item_state::dropped || e.state() == item_state::hosted) break;
        e.awaiting_offload.unlink();
        if (unsent) e.moving->cancel.store(true, std::memory_order_release);
        if (unsent || e.state() == item_state::resident) {
          e.course.where = placement::keep;
          ledger_.count(reason::placed_anew, e);
        }
        break;
      case placement::offload:
        if (e.state() != item_state::resident || e.bytes < settings_.min_bytes) break;
        e.course.where = placement::offload;
        ledger_.count(reason::placed_anew, e);
        if (e.host.is_good()) {
          release_if_unused(e);
        } else if (!e.awaiting_offload.is_linked()) {
          offload(e);
        }
        break;
      case placement::recompute:
        if (!e.rebuild.possible || !(unsent || e.state() == item_state::resident)) break;
        ledger_.count(reason::placed_anew, e);
        if (unsent) {
          room_.drop_unsent(e);
        } else {
          e.awaiting_offload.unlink();
          e.course.where = placement::recompute;
          release_if_unused(e);
        }
        break;
    }
  }
}

}  // namespace ferry::path
