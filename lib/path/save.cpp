// save: a block, or memory of the trainer's, becomes an item; the policy says what is to become of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

namespace {

void require_rows(item_key const& key, std::size_t bytes, recipe const& how) {
  if (!how || (how.rows > 0 && bytes % how.rows == 0)) return;
  throw invalid_argument(
      fmt::format("save of {}: its {} bytes are not {} equal rows; give the recipe a number of rows "
                  "that divides them, or 1",
                  to_string(key), bytes, how.rows));
}

}  // namespace

lease session_core::save(item_key const& key, block&& memory, stream_ref stream, recipe how) {
  require_step("save");
  require_own(stream);
  if (!memory) throw invalid_argument(fmt::format("save of {}: the block is empty", to_string(key)));
  if (memory.core_ != this) {
    throw invalid_argument(fmt::format("save of {}: the block belongs to another session", to_string(key)));
  }
  require_rows(key, memory.bytes(), how);
  enter_segment(pass::forward, key, stream);
  clock_.called();
  auto ready = store_.events().record(stream);  // if that fails, the block is still the caller's
  entry& e = store_.admit(key);
  auto region = scratch_.let_go(memory.slot_);
  if (recorder_.on() && scratch_.is_newest(memory.slot_)) recorder_.scratch_saved(scratch_.bytes());
  memory.core_ = nullptr;
  memory.address_ = nullptr;
  --holders_.count;  // never the last: the caller's session holds it too
  return settle_in(e, std::move(region), std::move(ready), stream, {}, std::move(how));
}

lease session_core::save(item_key const& key, device_view memory, stream_ref stream, release_callback on_release,
                         recipe how) {
  require_step("save");
  require_own(stream);
  if (memory.address == nullptr || memory.bytes == 0) {
    throw invalid_argument(fmt::format("save of {}: the memory to adopt is {}", to_string(key),
                                       memory.address == nullptr ? "a null pointer" : "of zero bytes"));
  }
  require_rows(key, memory.bytes, how);
  enter_segment(pass::forward, key, stream);
  clock_.called();
  auto ready = store_.events().record(stream);
  entry& e = store_.admit(key);
  return settle_in(e, room_.make_for(memory, stream), std::move(ready), stream, std::move(on_release), std::move(how));
}

lease session_core::settle_in(entry& e, device_region&& region, event_handle ready, stream_ref stream,
                              release_callback on_release, recipe how) {
  support::stage const here("ferry save");
  ledger_.met(item_event::saved, e);
  store_.make_resident(e, std::move(region), std::move(ready));
  if (how) {
    e.has_recipe = true;
    if (e.how == nullptr) e.how = std::make_unique<recipe>();
    *e.how = std::move(how);
  }
  if (on_release) e.on_release = std::move(on_release);
  e.had_recipe = e.has_recipe;
  e.restored = false;
  e.failure.clear();
  e.saved_in_step = ledger_.totals().steps;
  e.stats.bytes = e.bytes;
  ++e.stats.saves;
  ++ledger_.totals().saves;

  if (recorder_.on()) recorder_.saved(e);
  ledger_.steps().saved(e);

  auto const [where, why] = decide(e);
  e.where = where;
  e.may_drop = e.has_recipe && !(where == placement::keep && policy_.keep_is_firm());
  ledger_.count(why, e);

  lease held = lend(e, stream);
  try {
    if (where == placement::offload) offload(e);
  } catch (error const& problem) {  // the item is saved all the same
    log_.warning("after the save of {}: {}", to_string(e.key), problem.what());
    next_choice(e, reason::dropped_after_failed_offload, reason::kept_after_failed_offload);
  }
  see_to_others("save");
  return held;
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
  ended.core_ = nullptr;
  ended.address_ = nullptr;
  if (--e.leases == 0) {
    ledger_.met(item_event::let_go, e);
    if (e.state() == item_state::offloading) store_.mark_uses(e);
    release_if_unused(e);
  }
  drop_holder();
}

/// Nobody uses the item now: whatever waited for that may happen.
void session_core::release_if_unused(entry& e) noexcept {
  if (e.leases != 0) return;
  if (e.release_asked) {
    store_.release(e);
    prefetch_due_ = true;
    return;
  }
  if (!e.idle()) return;
  if (e.state() == item_state::hosted || e.state() == item_state::dropped) {
    if (e.device) store_.vacate(e);  // a way back that failed left its bytes to the leases
  } else if (e.state() == item_state::resident && !e.restored) {
    if (e.where == placement::recompute || (e.where == placement::offload && e.host.is_good())) vacate(e);
  }
}

/// The device bytes go; if there is a host copy, the item can still come from there.
void session_core::vacate(entry& e) noexcept {
  ledger_.met(e.host.is_good() ? item_event::evicted : item_event::dropped, e);
  if (e.host.is_good()) {
    store_.evict(e);
  } else {
    store_.drop(e);
  }
}

}  // namespace ferry::path
