// offload: an item's bytes go to pinned memory, behind an event recorded after its producer. The device
// bytes stay the item's until the copy is known to be complete, so a failed copy loses nothing.
#include <fmt/format.h>

#include <utility>

#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

namespace {

/// What the transfer's end is to its item.
item_event end_of(transfer const& ended) noexcept {
  bool const out = ended.direction == copy_direction::device_to_host;
  switch (ended.phase.load(std::memory_order_acquire)) {
    case transfer_phase::completed:
      return out ? item_event::offload_completed : item_event::fetch_completed;
    case transfer_phase::abandoned:
      return out ? item_event::offload_abandoned : item_event::fetch_abandoned;
    default:
      return out ? item_event::offload_failed : item_event::fetch_failed;
  }
}

}  // namespace

void session_core::offload(entry& e) {
  support::stage const here("ferry offload");
  if (e.bytes > store_.in_flight().limit_bytes()) {
    next_choice(e, reason::dropped_in_flight_full, reason::kept_in_flight_full);
    return;
  }
  auto in_flight = store_.in_flight().reserve(e.bytes);
  if (!in_flight) {
    met(item_event::offload_deferred, e);
    count(reason::deferred_in_flight_full);
    journal_.decided(e, reason::deferred_in_flight_full);
    deferred_.push_back(e);
    return;
  }
  reserve_transfer();
  auto slot = store_.pinned_tier().allocate(e.bytes, e.key.name);
  if (!slot) {
    next_choice(e, reason::dropped_pinned_full, reason::kept_pinned_full);
    return;
  }
  met(item_event::offload_begun, e);
  e.host.replace(std::move(*slot));
  transfer& t = new_transfer(e, copy_direction::device_to_host);
  t.to = e.host.address();
  t.from = e.device.address();
  t.in_flight = std::move(*in_flight);
  if (e.device.work()) t.gates.push_back(e.device.work());
  e.advance(item_state::offloading);
  ++e.stats.offloads;
  engine_.submit(t);
}

void session_core::offload_deferred() {
  while (!deferred_.empty() && deferred_.front().bytes <= store_.in_flight().free_bytes()) {
    entry& e = deferred_.front();
    deferred_.pop_front();
    // Restored or dropped meanwhile: then there is nothing to move any more.
    if (e.state() == item_state::resident && !e.restored) offload(e);
  }
}

/// The item cannot be ferried: its recipe takes over, or it stays.
void session_core::next_choice(entry& e, reason dropped, reason kept) {
  e.where = e.has_recipe ? placement::recompute : placement::keep;
  count(e.has_recipe ? dropped : kept, e);
  let_be(e);
}

/// Makes one if there is none to be had. What can fail is done before bytes and states change hands.
void session_core::reserve_transfer() {
  if (!idle_transfers_.empty()) return;
  transfers_.push_back(std::make_unique<transfer>(device_));
  transfers_.back()->gates.reserve(16);
  idle_transfers_.reserve(transfers_.size());
  idle_transfers_.push_back(transfers_.back().get());
}

/// Requires: one is reserved.
transfer& session_core::new_transfer(entry& e, copy_direction direction) {
  transfer& t = *idle_transfers_.back();
  idle_transfers_.pop_back();
  t.direction = direction;
  t.bytes = e.bytes;
  t.name = e.key.name;
  t.priority = ++transfer_order_;
  t.item = &e;
  sign(t, e);
  t.submitted = true;
  t.phase.store(transfer_phase::queued, std::memory_order_relaxed);
  t.cancel.store(false, std::memory_order_relaxed);
  t.urgent.store(false, std::memory_order_relaxed);
  t.arrived_bytes.store(0, std::memory_order_relaxed);
  t.failure.clear();
  t.moved_us = 0;
  t.issued_bytes.store(0, std::memory_order_relaxed);
  t.chunks_in_flight = 0;
  t.gates_passed = false;
  e.moving = &t;
  ++transfers_under_way_;
  return t;
}

void session_core::transfer_ended(transfer& ended) {
  --transfers_under_way_;
  account(ended);
  ended.submitted = false;
  ended.in_flight = {};
  ended.gates.clear();
  if (entry* const e = std::exchange(ended.item, nullptr)) {
    e->moving = nullptr;
    met(end_of(ended), *e);
    if (ended.direction == copy_direction::device_to_host) {
      offload_ended(ended, *e);
    } else {
      prefetch_ended(ended, *e);
    }
  } else {
    store_.free_orphans(ended);
  }
  if (ended.left_behind) store_.device_tier().free(std::exchange(ended.left_behind, {}), {});
  idle_transfers_.push_back(&ended);
  prefetch_due_ = true;
}

void session_core::offload_ended(transfer& ended, entry& e) {
  auto const how = ended.phase.load(std::memory_order_acquire);
  if (how == transfer_phase::completed) {
    e.host.arrived(ended.checksum);
    if (e.leases == 0 && !e.restored) {
      store_.evict(e);
    } else {
      e.advance(item_state::resident);
    }
    return;
  }
  e.advance(item_state::resident);
  store_.pinned_tier().free(e.host.replace());
  if (how == transfer_phase::failed) {
    log_.warning("offload of {} failed and its device copy is kept: {}", to_string(e.key), ended.failure);
    next_choice(e, reason::dropped_after_failed_offload, reason::kept_after_failed_offload);
  } else {
    let_be(e);  // it may have been decided to drop it instead
  }
}

}  // namespace ferry::path
