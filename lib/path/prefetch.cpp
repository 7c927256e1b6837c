// prefetch: hosted items come back before they are asked for, whatever is needed first before the rest, into bytes that
// are free anyway.
//
// Why nobody waits for ever. Compute asks for bytes in `wait_for_room`; what runs ahead of it (fetches, and recipes
// during a wait) never does: it takes bytes that are free beside those that the step's blocks took last time, or, by a
// plan, at a position where the plan has found them free. Should they be needed after all, compute gets them back:
//   1. While it makes room, nothing that runs ahead begins (`room::is_being_made`).
//   2. An item fetched or rebuilt ahead and not leased has its host copy or its recipe, so its bytes can go at once. A
//      fetch under way is called off, and its bytes are free when the chunks in flight have arrived.
//   3. So compute waits only for chunks in flight and for offloads. These wait for work that was enqueued before them
//      and, in turn, for nothing that compute is still to enqueue. The link carries them without asking for bytes.
// What is left in the way are leases and blocks of the trainer's own, and then the step does not fit: an error. A
// recipe is preferred to a transfer only if its inputs will fit beside everything that its segment holds
// (`rebuilding_fits`). tests/property/tight_budget_test.cpp tries all of this in budgets of one segment, where a
// standstill is an error.
#include <optional>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

namespace {

/// By the host itself, ahead of need. A way back that has failed is tried again by whoever needs the item: a link that
/// is broken for good would else be tried for ever.
[[nodiscard]] bool may_be_sent_for(entry const& e) noexcept {
  return e.state() == item_state::hosted && e.moving == nullptr && !e.device && e.failure.empty();
}

}  // namespace

/// Into bytes that are free, or, if a way back has failed before, into those that it left to the item.
void session_core::prefetch(entry& e, device_region&& region, event_handle position) {
  support::stage const here("ferry prefetch");
  ledger_.met(item_event::fetch_begun, e);
  if (region) e.device.replace(std::move(region));
  try {
    transfers_.reserve();
  } catch (error const&) {
    release_if_unused(e);
    throw;
  }
  transfer& t = transfers_.begin(e, copy_direction::host_to_device);
  t.job.to = e.device.address();
  t.job.from = e.host.address();
  if (e.lives_at != nullptr) t.job.pieces = e.lives_at->pieces;
  t.job.priority = order_.rank(e);  // whatever is needed first comes first
  t.job.expected_checksum = e.host.checksum();
  store_.device_tier().pending_uses(e.device.region(), t.job.gates);
  if (position) t.job.gates.push_back(std::move(position));
  for (auto const user : e.users) {  // a failed way back may have left readers behind
    if (auto mark = store_.events().record_if_alive(user)) t.job.gates.push_back(std::move(mark));
  }
  t.job.gates.insert(t.job.gates.end(), e.uses.begin(), e.uses.end());
  e.device.written_by(t);
  e.advance(item_state::prefetching);
  transfers_.submit(t);
}

void session_core::prefetch_ahead() {
  transfers_.looked_for_fetches();
  if (follower_.is_active()) {
    fetch_planned();
    return;
  }
  bool const nothing_hosted = store_.pinned_tier().bytes().used_bytes() == 0;
  if (nothing_hosted || !order_.in_backward()) return;
  auto& tier = store_.device_tier();
  order_.visit_next([&](entry& e) {
    if (!may_be_sent_for(e)) return true;
    if (tier.bytes().free_bytes() < e.bytes + scratch_.still_to_come_bytes()) {
      ledger_.effects().room_was_short = true;
      return false;
    }
    auto region = store_.bytes_for(e);
    if (!region) return false;
    prefetch(e, std::move(*region));
    return true;
  });
}

/// Starts the fetches that are due, in the plan's order, as far as bytes are free. One that would come so late that its
/// recipe will be sooner is given up: the link is for those behind it. An item that has yet to go out is waited for,
/// with all that come after it: those ahead of their turn would slow down what still goes out, and take its bytes.
void session_core::fetch_planned() {
  bool room = true;
  std::erase_if(follower_.due(), [&](follow::due_fetch& due) {
    entry& e = *due.item;
    bool const leaves = e.state() == item_state::offloading || e.awaiting_offload.is_linked();
    if (leaves && !e.course.restored) {
      room = false;
      return false;
    }
    if (!may_be_sent_for(e)) return true;
    if (auto const seen = will_be_late(e)) {
      ledger_.count(reason::fetch_given_up, e, *seen);
      return true;
    }
    auto region = room ? store_.bytes_for(e) : std::nullopt;
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
    auto region = store_.bytes_for(e);
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

void session_core::prefetch_ended(transfer& ended, entry& e) {
  auto const how = ended.phase.load(std::memory_order_acquire);
  if (how == transfer_phase::failed) {
    log_.warning("prefetch of {} failed and its host copy is kept: {}", to_string(e.key), ended.result.failure);
    e.failure = ended.result.failure;
  }
  // A recipe may have taken over, here or in other bytes; then the transfer's end changes nothing.
  if (e.state() == item_state::prefetching) {
    if (how == transfer_phase::completed && e.device.arrived(ended)) {
      e.advance(item_state::resident);
      return;
    }
    e.device.disown();
    e.advance(item_state::hosted);
  }
  release_if_unused(e);
}

}  // namespace ferry::path
