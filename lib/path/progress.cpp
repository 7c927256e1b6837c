// progress: takes in what the link has ended, and does what has become possible; and the bound that lets the host be
// only so far ahead of the device. Every call of the trainer that can change something makes progress.
#include <chrono>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

namespace {

/// What the transfer's end is to its item.
item_event end_of(transfer const& ended) noexcept {
  bool const out = ended.job.direction == copy_direction::device_to_host;
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

void session_core::progress() {
  do {
    while (transfer* const ended = transfers_.next_ended()) transfer_ended(*ended);
    if (transfers_.any_deferred()) offload_deferred();
    store_.notify_releases();
    if (ledger_.measured_much()) ledger_.take_measurements(false);
    if (transfers_.should_look_for_fetches() && !room_.is_being_made() && step_) prefetch_ahead();
  } while (transfers_.has_ended_at_once());
}

void session_core::transfer_ended(transfer& ended) {
  ledger_.transferred(ended);
  if (ended.arrived_bytes.load(std::memory_order_relaxed) > 0) {
    clock_.moved(ended.job.direction, ended.result.copying_since, ended.result.copying_until);
  }
  if (entry* const e = std::exchange(ended.owner.item, nullptr)) {
    e->moving = nullptr;
    ledger_.met(end_of(ended), *e);
    if (ended.job.direction == copy_direction::device_to_host) {
      offload_ended(ended, *e);
    } else {
      prefetch_ended(ended, *e);
    }
  } else {
    store_.free_orphans(ended);
  }
  ended.left_behind = {};
  transfers_.put_back(ended);
  transfers_.look_for_fetches();
}

/// For when a call has done what it was for. What cannot be done for others now is tried again in the calls to come.
void session_core::see_to_others(char const* call) {
  try {
    progress();
  } catch (deadlock_error const&) {
    throw;
  } catch (error const& problem) {
    log_.warning("after {}: {}", call, problem.what());
  }
}

void session_core::wait_for_all_transfers() noexcept {
  try {
    patience waiting(device_);
    for (progress(); transfers_.under_way() > 0; progress()) waiting.wait();
  } catch (deadlock_error const& stuck) {
    log_.error("the session ends with transfers that never will: {}", stuck.what());
  } catch (std::exception const& problem) {
    log_.error("the session ends: {}", problem.what());
  }
}

/// Bounds how far the host is ahead of the device, so that decisions are made with the true state of the
/// transfers in hand.
void session_core::bound_run_ahead() {
  note_run_ahead();
  event_handle const oldest = clock_.mark_before(settings_.run_ahead);
  if (!oldest) return;
  auto status = device_.query(oldest.ref());
  if (status == event_status::pending) {
    patience waiting(device_);
    for (progress(); (status = device_.query(oldest.ref())) == event_status::pending; progress()) {
      wait_while_ahead(waiting);
    }
    ledger_.held_back(waiting.waited_us());
  }
  if (status == event_status::failed) {
    clock_.failure_reported();  // once
    device_.synchronize(oldest.ref());
  }
}

/// Would a bound of one segment, the default, have held the host back here?
void session_core::note_run_ahead() {
  if (ledger_.effects().ran_further_ahead || settings_.run_ahead == 1) return;
  event_handle const one_before = clock_.mark_before(1);
  if (one_before) ledger_.effects().ran_further_ahead = device_.query(one_before.ref()) == event_status::pending;
}

/// The device has a segment's work in its queue, so waking late costs nothing. Only what moves, or waits for room to
/// move, wants to be seen to.
void session_core::wait_while_ahead(patience& waiting) {
  bool const moving = transfers_.under_way() > 0 || store_.pinned_tier().bytes().used_bytes() > 0;
  waiting.wait(std::chrono::microseconds(moving ? 500 : 2000));
}

}  // namespace ferry::path
