// What all verbs use: who may call, who holds an item, and what becomes of it when nobody does.
#include "path/session_core.hpp"

#include <fmt/format.h>

#include "ferry/error.hpp"

namespace ferry::path {

void session_core::require_step(char const* call) const {
  if (!step_) throw error(fmt::format("{}: no step has begun; call begin_step first", call));
}

void session_core::require_own(stream_ref stream) const {
  if (!stream) throw invalid_argument("the stream is null; pass the stream that the work is enqueued on");
  if (stream.owner() != &device_) {
    throw invalid_argument(
        "the stream belongs to another device than the session; pass a stream of the session's device");
  }
}

entry& session_core::require(item_key const& key) {
  if (entry* const e = store_.find(key); e != nullptr && !e->course.release_asked) return *e;
  auto const known = store_.entries().find(key);
  bool const was_here = known != store_.entries().end() && known->second.saved_in_step == ledger_.totals().steps;
  if (evaluating()) {
    throw unknown_key(fmt::format("{} is not there: an evaluation saves nothing; begin a training step to restore it",
                                  to_string(key)));
  }
  throw unknown_key(fmt::format("{} {}", to_string(key),
                                was_here ? "has been released; restore it before you release it"
                                         : "was not saved in this step; check its micro-batch, segment and name"));
}

lease session_core::lend(entry& e, stream_ref stream) noexcept {
  ++e.leases;
  ++holders_.count;
  lease held;
  held.core_ = this;
  held.entry_ = &e;
  held.address_ = e.device.address();
  held.bytes_ = e.bytes;
  held.stream_ = stream;
  return held;
}

void session_core::end(lease& ended) noexcept {
  entry& e = *ended.entry_;
  e.add_use(ended.stream_);
  tape_.ended_lease(e, ended.stream_);
  ended.core_ = nullptr;
  ended.address_ = nullptr;
  if (--e.leases == 0) {
    ledger_.met(item_event::lease_ended, e);
    if (e.state() == item_state::offloading) store_.mark_uses(e);
    release_if_unused(e);
  }
  drop_holder();
}

void session_core::free(block& freed) noexcept {
  {
    event_handle const use = store_.events().record_if_alive(freed.stream_);
    tape_.did(asked::of_slot(asked::what::free, freed.slot_), freed.stream_);
    store_.device_tier().free(scratch_.take_out(freed.slot_), {&use, 1});
  }  // given back before the pool may go with the last holder
  transfers_.look_for_fetches();
  drop_holder();
}

/// Nobody uses the item now: whatever waited for that may happen.
void session_core::release_if_unused(entry& e) noexcept {
  if (e.leases != 0) return;
  if (e.course.release_asked) {
    store_.release(e);
    transfers_.look_for_fetches();
    return;
  }
  if (!e.idle()) return;
  if (e.state() == item_state::hosted || e.state() == item_state::dropped) {
    if (e.device) store_.vacate(e);  // a way back that failed left its bytes to the leases
  } else if (e.state() == item_state::resident && !e.course.restored) {
    if (e.course.where == placement::recompute || (e.course.where == placement::offload && e.host.is_good()))
      give_up_device_bytes(e);
  }
}

/// The device bytes go; if there is a host copy, the item can still come from there.
void session_core::give_up_device_bytes(entry& e) noexcept {
  ledger_.met(e.host.is_good() ? item_event::evicted : item_event::dropped, e);
  if (e.host.is_good()) {
    store_.evict(e);
  } else {
    store_.drop(e);
  }
}

}  // namespace ferry::path
