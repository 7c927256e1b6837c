// An item comes back for a consumer, from wherever it is, and the consumer's stream is ordered after whatever brings
// it. Where both a transfer and a recipe could, the sooner one does.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

void session_core::bring_back(entry& e, stream_ref stream) {
  bool by_link = false;  // the recipe would have been sooner, but could not
  outlook seen;
  for (int failures = 0;;) {
    switch (e.state()) {
      case item_state::offloading:
        // Needed again already: what is left of the copy would be for nothing.
        e.moving->cancel.store(true, std::memory_order_release);
        if (forecast_.is_lost(e)) {
          wait_for_transfer(e);
          break;
        }
        ledger_.count(reason::offload_cancelled_by_restore, e);
        order_after_writer(e, stream);
        return;
      case item_state::resident:
        if (forecast_.is_lost(e) && forget_device_copy(e)) break;
        ledger_.count(reason::restored_resident, e);
        order_after_writer(e, stream);
        return;
      case item_state::dropped:
        recompute(e, stream, reason::recomputed_by_plan);
        return;
      case item_state::hosted:
        wait_for_transfer(e);
        if (e.state() != item_state::hosted) break;  // making progress has sent for it
        if (e.device && e.leases > 1) {
          throw transfer_error(
              fmt::format("{} could not be brought back for a lease that is still held ({}); end that "
                          "lease, then restore it again",
                          to_string(e.key), e.failure));
        }
        if (failures > 0 && forecast_.can_be_rebuilt(e)) {
          recompute(e, stream, reason::recomputed_after_failed_transfer);
          return;
        }
        if (failures > 1) {
          throw transfer_error(fmt::format("{} cannot be brought back: {}", to_string(e.key), e.failure));
        }
        if (!by_link && forecast_.recipe_is_sooner(e, seen)) {
          if (recompute_instead(e, stream, seen)) return;
          by_link = true;
          seen = {};
          break;
        }
        e.failure.clear();
        prefetch(e, e.device ? device_region() : room_.make_to_fetch(e, stream));
        break;
      case item_state::prefetching:
        switch (await_arrival(e, stream, !by_link, seen)) {
          case wait_result::arrived:
            ledger_.count(reason::restored_from_host, e, seen);
            return;
          case wait_result::still_hosted:
            if (!e.failure.empty()) ++failures;  // else it had been cancelled to make room
            break;
          case wait_result::recipe_is_sooner:
            if (auto const there = stop_prefetch(e, stream)) {
              if (recompute_instead(e, stream, seen, *there)) return;
            }
            by_link = true;
            seen = {};
            break;
        }
        break;
      case item_state::recomputing:
        throw_cycle(e);
      case item_state::released:
        throw internal_error(fmt::format("{} was released while it was being restored", to_string(e.key)));
    }
  }
}

/// Gives up the device bytes of an item that is lost there. True if it can be had another way.
bool session_core::forget_device_copy(entry& e) {
  ledger_.met(item_event::found_lost, e);
  if (e.leases > 1 || !(e.host.is_good() || e.rebuild.possible)) return false;
  e.advance(e.host.is_good() ? item_state::hosted : item_state::dropped);
  e.device.disown();
  return true;
}

/// Throws: `stream_error`, with the name of what failed, if that was to write the item.
void session_core::order_after_writer(entry& e, stream_ref stream) {
  auto const& work = e.device.work();
  switch (e.device.look(device_)) {
    case store::verdict::good:
      return;
    case store::verdict::pending:
      if (work.stream() != stream) device_.wait(stream, work.ref());
      return;
    case store::verdict::lost:
      device_.synchronize(work.ref());
      [[fallthrough]];  // it has thrown
    case store::verdict::unwritten:
      throw internal_error(fmt::format("{} is lent before anybody has written it", to_string(e.key)));
  }
}

void session_core::wait_for_transfer(entry const& e) {
  if (e.moving == nullptr) return;  // taking in what has ended might send the item on its way
  patience waiting(device_);
  for (progress(); e.moving != nullptr; progress()) waiting.wait();
}

/// Waits for an item in transit, for as long as that is better than the recipe. The host does not return before the
/// item is there or about to be: so it can still change its mind, and the device has work meanwhile. Without a recipe,
/// and without checksums, it leaves the waiting to the stream once the last chunk is in the copy stream's queue.
/// A transfer that fails, or had been cancelled to make room, leaves the item hosted.
session_core::wait_result session_core::await_arrival(entry& e, stream_ref stream, bool may_recompute, outlook& seen) {
  e.moving->urgent.store(true, std::memory_order_relaxed);
  if (double const wait_us = forecast_.arrival_us(e); wait_us != decide::unknown_us)
    recompute_ahead(stream, wait_us - clock_.busy_us());
  auto from = store_.events().record_if_possible(stream, event_timing::on);
  may_recompute = may_recompute && forecast_.rebuild_us(e, decide::unknown_us, 0) != decide::unknown_us;
  bool const see_it_arrive = verifies(settings_.verify, verify_mode::checksum);
  patience waiting(device_);
  for (progress(); e.state() == item_state::prefetching; progress()) {
    if (may_recompute && forecast_.recipe_is_sooner(e, seen)) {
      ledger_.measure(measurement::kind::exposed_so_far, &e, std::move(from), stream);
      return wait_result::recipe_is_sooner;
    }
    bool const issued = e.moving->phase.load(std::memory_order_acquire) == transfer_phase::issued;
    if (issued && !see_it_arrive && (!may_recompute || forecast_.about_to_arrive(e))) break;
    if (may_recompute) {
      waiting.wait_or_look(std::max(settings_.stall_tolerance_us, 0.05 * e.rebuild.us));
    } else {
      waiting.wait();
    }
  }
  if (e.state() == item_state::hosted) {
    ledger_.measure(measurement::kind::exposed_so_far, &e, std::move(from), stream);
    return wait_result::still_hosted;
  }
  if (e.state() == item_state::prefetching) device_.wait(stream, e.moving->done);
  ledger_.measure(measurement::kind::exposed, &e, std::move(from), stream);
  return wait_result::arrived;
}

/// Stops the transfer so that a recipe may write the item, ordered after what is still in flight where that writes too.
/// Gives the rows that have arrived, or will by then, and need not be rebuilt. Nothing if the item has arrived or
/// failed meanwhile, or is so far that nothing can stop it and there are no other bytes.
std::optional<std::size_t> session_core::stop_prefetch(entry& e, stream_ref stream) {
  auto const elsewhere = [&]() -> std::optional<std::size_t> {
    bool const stuck = forecast_.link().standstill_us(copy_direction::host_to_device) > 0;
    return room_.leave_behind(e, stuck) ? std::optional(0) : std::nullopt;
  };
  transfer& t = *e.moving;
  auto phase = t.phase.load(std::memory_order_acquire);
  if (phase == transfer_phase::issued) return elsewhere();
  t.cancel.store(true, std::memory_order_release);
  patience waiting(device_);
  while ((phase = t.phase.load(std::memory_order_acquire)) == transfer_phase::queued) waiting.wait();
  if (phase == transfer_phase::issued) return elsewhere();
  std::size_t const there = forecast_.whole_rows(e, t.issued_bytes);
  if (phase == transfer_phase::stopped) {
    // Rows are worth their part of the recipe. Without any, other bytes cost nothing, and no chunk that gets stuck from
    // now on holds up the recipe.
    bool const stuck = forecast_.link().standstill_us(copy_direction::host_to_device) > 0 ||
                       forecast_.coming_us(e) > forecast_.part_of_recipe_us(e, there) + settings_.stall_tolerance_us;
    if ((there == 0 || stuck) && room_.leave_behind(e, stuck)) return 0;
    if (e.moving == &t) {  // it has not ended while others made way
      device_.wait(stream, t.done);
      return there;
    }
  }
  wait_for_transfer(e);  // it has ended: take that in
  if (e.state() != item_state::hosted) return std::nullopt;
  return phase == transfer_phase::abandoned && e.device ? there : 0;
}

/// Takes the recipe although the link would do. False if the recipe cannot, and the link must.
bool session_core::recompute_instead(entry& e, stream_ref stream, outlook const& seen, std::size_t rows_there) {
  if (!forecast_.can_be_rebuilt(e)) return false;
  try {
    auto const why = rows_there == 0 ? reason::recomputed_sooner_than_transfer : reason::recomputed_rows_still_missing;
    recompute(e, stream, why, seen, rows_there);
    return true;
  } catch (stream_error const&) {
    throw;  // what failed was not the recipe's doing, and its owner must hear of it
  } catch (error const& cause) {
    log_.info("{} is fetched after all: {}", to_string(e.key), cause.what());
    return false;
  }
}

}  // namespace ferry::path
