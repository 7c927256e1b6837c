// The session carries out the plan in force. Which plan that is, lib/follow says.
#include <fmt/format.h>

#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

void session_core::follow(plan planned) {
  if (in_step_) throw error("follow: a step is under way; call it between end_step and begin_step");
  adaptation_.follow(std::move(planned));
  ledger_.effects().followed_a_plan = true;
}

void session_core::set_placement(placement_function choose) {
  policy_.set_function(std::move(choose));
  if (!policy_.has_function()) {
    follower_.resume();
    if (!in_step_) follower_.take_up();  // else the next step does: the one at hand has left the plan
    return;
  }
  // What the function says may contradict the plan in every item.
  follower_.suspend();
  adaptation_.placed_by_function();
  prefetch_due_ = true;
}

decision session_core::decide(entry& e) {
  if (follower_.is_active()) {
    auto const* const planned = follower_.find(e.key);
    if (planned != nullptr && planned->bytes == e.bytes) {
      if (e.recipe_us < 0 && planned->rebuild_us) e.recipe_us = *planned->rebuild_us;
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
    adaptation_.step_is_another(what);
  }
  bool const boundary = !e.has_recipe || e.reaches_beyond_segment();
  return policy_.decide({e.key, e.bytes, e.has_recipe, boundary, e.stats.recipe_us});
}

/// The trainer enters a segment: what the plan has before it is issued now.
void session_core::carry_out_plan(pass which, item_key const& key, stream_ref stream) {
  if (which == pass::forward && adaptation_.change_plan_in_step()) place_anew();
  auto const directives = follower_.enter(which, key);
  event_handle position;
  for (auto const& one : directives) {
    entry* const e = store_.find({key.micro_batch, one.item.segment, one.item.name});
    if (e == nullptr || e->release_asked) continue;
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
        if (e->state() != item_state::resident || !e->idle() || !e->has_recipe) break;
        vacate(*e);
        e->restored = false;
        prefetch_due_ = true;
        break;
      default:
        break;
    }
  }
}

/// Starts the fetches that are due, in the plan's order, as far as bytes are free. One that would come so late that its
/// recipe will be sooner is given up: the link is for those behind it. An item that has yet to go out is waited for,
/// without holding up the others.
void session_core::fetch_planned() {
  auto& tier = store_.device_tier();
  bool room = true;
  std::erase_if(follower_.due(), [&](follow::due_fetch& due) {
    entry& e = *due.item;
    bool const leaves = e.state() == item_state::offloading || e.awaiting_offload.is_linked();
    if (leaves && !e.restored) return false;
    if (!may_be_sent_for(e)) return true;
    if (auto const seen = will_be_late(e)) {
      ledger_.count(reason::fetch_given_up, e, *seen);
      return true;
    }
    auto region = room ? tier.allocate(e.bytes, e.key.name) : std::nullopt;
    room = region.has_value();
    if (room) prefetch(e, std::move(*region), std::move(due.position));
    return room;
  });
  fetch_unplanned();
}

/// Hosted items that the plan at hand has nothing to say about, because another one sent them out: each is sent for
/// when it must be to arrive in time, if bytes are free beside what the step allocates.
void session_core::fetch_unplanned() {
  if (!follower_.has_changed_in_step() || !order_.in_backward()) return;
  auto& tier = store_.device_tier();
  order_.visit_next([&](entry& e) {
    auto const* const planned = follower_.find(e.key);
    bool const by_plan = planned != nullptr && planned->where == placement::offload;
    if (by_plan || !may_be_sent_for(e)) return true;
    auto const until_us = follower_.until_backward_us(e.key.segment);
    if (!until_us) return true;
    constexpr double in_good_time = 2;
    if (*until_us >
        in_good_time * forecast_.link().us_for(copy_direction::host_to_device, transfers_.coming_bytes() + e.bytes))
      return false;
    if (will_be_late(e)) return true;
    if (tier.bytes().free_bytes() < e.bytes + scratch_.still_to_come_bytes()) return false;
    auto region = tier.allocate(e.bytes, e.key.name);
    if (!region) return false;
    prefetch(e, std::move(*region));
    return true;
  });
}

/// The fetch would come so late that the item's recipe will be sooner: by how much, and what the recipe takes.
std::optional<outlook> session_core::will_be_late(entry const& e) {
  auto const until_us = follower_.until_backward_us(e.key.segment);
  return until_us ? forecast_.lateness(e, *until_us, transfers_.coming_bytes()) : std::nullopt;
}

/// Items saved already are placed anew, as the plan at hand would have had them, as far as that still can be done.
void session_core::place_anew() {
  for (auto& e : store_.live()) {
    auto const* const planned = follower_.find(e.key);
    if (planned == nullptr || planned->where == e.where || e.restored) continue;
    bool const unsent = e.state() == item_state::offloading && e.moving->issued_bytes == 0;
    switch (planned->where) {
      case placement::keep:
        if (e.state() == item_state::dropped || e.state() == item_state::hosted) break;
        e.awaiting_offload.unlink();
        if (unsent) e.moving->cancel.store(true, std::memory_order_release);
        if (unsent || e.state() == item_state::resident) {
          e.where = placement::keep;
          ledger_.count(reason::placed_anew, e);
        }
        break;
      case placement::offload:
        if (e.state() != item_state::resident || e.bytes < settings_.min_bytes) break;
        e.where = placement::offload;
        ledger_.count(reason::placed_anew, e);
        if (e.host.is_good()) {
          release_if_unused(e);
        } else if (!e.awaiting_offload.is_linked()) {
          offload(e);
        }
        break;
      case placement::recompute:
        if (!e.has_recipe || !(unsent || e.state() == item_state::resident)) break;
        ledger_.count(reason::placed_anew, e);
        if (unsent) {
          room_.drop_unsent(e);
        } else {
          e.awaiting_offload.unlink();
          e.where = placement::recompute;
          release_if_unused(e);
        }
        break;
    }
  }
}

}  // namespace ferry::path
