// offload: an item's bytes go to pinned memory, behind an event recorded after its producer. The device
// bytes stay the item's until the copy is known to be complete, so a failed copy loses nothing.
#include <utility>

#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

void session_core::offload(entry& e) {
  support::stage const here("ferry offload");
  if (e.bytes > store_.in_flight().limit_bytes()) {
    next_choice(e, reason::dropped_in_flight_full, reason::kept_in_flight_full);
    return;
  }
  auto in_flight = store_.in_flight().reserve(e.bytes);
  if (!in_flight) {
    ledger_.met(item_event::offload_deferred, e);
    ledger_.count(reason::deferred_in_flight_full);
    ledger_.steps().decided(e, reason::deferred_in_flight_full);
    transfers_.defer(e);
    return;
  }
  transfers_.reserve();
  auto slot = store_.pinned_tier().allocate(e.bytes, e.key.name);
  if (!slot) {
    next_choice(e, reason::dropped_pinned_full, reason::kept_pinned_full);
    return;
  }
  ledger_.met(item_event::offload_begun, e);
  e.host.replace(std::move(*slot));
  transfer& t = transfers_.begin(e, copy_direction::device_to_host);
  t.job.to = e.host.address();
  t.job.from = e.device.address();
  if (e.lives_at != nullptr) t.job.pieces = e.lives_at->pieces;
  t.in_flight = std::move(*in_flight);
  if (e.device.work()) t.job.gates.push_back(e.device.work());
  e.advance(item_state::offloading);
  ++e.record.stats.offloads;
  transfers_.submit(t);
}

void session_core::offload_deferred() {
  while (entry* const e = transfers_.next_deferred(store_.in_flight().free_bytes())) {
    // Restored or dropped meanwhile: then there is nothing to move any more.
    if (e->state() == item_state::resident && !e->course.restored) offload(*e);
  }
}

/// The item cannot be ferried: its recipe takes over, or it stays.
void session_core::next_choice(entry& e, reason dropped, reason kept) {
  e.course.where = e.rebuild.possible ? placement::recompute : placement::keep;
  ledger_.count(e.rebuild.possible ? dropped : kept, e);
  release_if_unused(e);
}

void session_core::offload_ended(transfer& ended, entry& e) {
  auto const how = ended.phase.load(std::memory_order_acquire);
  if (how == transfer_phase::completed) {
    e.host.arrived(ended.result.checksum);
    if (e.leases == 0 && !e.course.restored) {
      store_.evict(e);
    } else {
      e.advance(item_state::resident);
    }
    return;
  }
  e.advance(item_state::resident);
  e.host.replace();
  if (how == transfer_phase::failed) {
    log_.warning("offload of {} failed and its device copy is kept: {}", to_string(e.key), ended.result.failure);
    next_choice(e, reason::dropped_after_failed_offload, reason::kept_after_failed_offload);
  } else {
    release_if_unused(e);  // it may have been decided to drop it instead
  }
}

}  // namespace ferry::path
