// restore: an item comes back for a consumer, from wherever it is, and the consumer's stream is ordered
// after whatever brings it. Where both a transfer and a recipe could, the sooner one does.
#include <fmt/format.h>

#include <limits>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();

}  // namespace

lease session_core::restore(item_key const& key, stream_ref stream) {
  require_step("restore");
  require_own(stream);
  entry& e = require(key);
  enter_segment(pass::backward, key, stream);
  progress();
  // Lent first: nothing may take the item away while it is being brought back.
  lease held = lend(e, stream);
  journal_.needed(e);
  bring_back(e, stream);
  held.address_ = e.device.address();
  e.restored = true;
  ++e.stats.restores;
  ++totals_.restores;
  bool const backward_begins = !order_.in_backward();
  order_.restored(e);
  if (recorder_.on()) recorder_.restored(e);
  // From then on there is more to prefetch only when bytes have come free or an item has become hosted.
  if (prefetch_due_ || backward_begins) prefetch_ahead();
  return held;
}

void session_core::bring_back(entry& e, stream_ref stream) {
  bool by_link = false;  // the recipe would have been sooner, but could not
  outlook seen;
  for (int failures = 0;;) {
    switch (e.state()) {
      case item_state::offloading:
        // Needed again already: what is left of the copy would be for nothing.
        e.moving->cancel.store(true, std::memory_order_release);
        if (writer_failed(e)) {
          wait_for_transfer(e);
          break;
        }
        count(reason::offload_cancelled_by_restore, e);
        order_after_writer(e, stream);
        return;
      case item_state::resident:
        if (writer_failed(e) && forget_device_copy(e)) break;
        count(reason::restored_resident, e);
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
        if (failures > 0 && e.has_recipe) {
          recompute(e, stream, reason::recomputed_after_failed_transfer);
          return;
        }
        if (failures > 1) {
          throw transfer_error(fmt::format("{} cannot be brought back: {}", to_string(e.key), e.failure));
        }
        if (!by_link && recipe_is_sooner(e, seen)) {
          if (recompute_instead(e, stream, seen)) return;
          by_link = true;
          break;
        }
        e.failure.clear();
        prefetch(e, e.device ? std::exchange(e.device, {}) : make_room(e.bytes, e.key.name));
        break;
      case item_state::prefetching:
        if (!by_link && recipe_is_sooner(e, seen) && stop_prefetch(e, stream)) {
          if (recompute_instead(e, stream, seen)) return;
          by_link = true;
          break;
        }
        if (e.state() != item_state::prefetching) break;  // it arrived before it could be stopped
        await_arrival(e, stream);
        if (e.state() == item_state::hosted) {
          if (!e.failure.empty()) ++failures;  // else it had been cancelled to make room
          break;
        }
        count(reason::restored_from_host, e, seen);
        return;
      case item_state::recomputing:
        throw_cycle(e);
      case item_state::released:
        throw internal_error(fmt::format("{} was released while it was being restored", to_string(e.key)));
    }
  }
}

bool session_core::writer_failed(entry const& e) const {
  return e.ready && device_.query(e.ready.ref()) == event_status::failed;
}

/// What stands in the device bytes is not the item: its writer failed. True if it can be had another way.
bool session_core::forget_device_copy(entry& e) {
  if (e.leases > 1 || !(e.host_copy_good || e.has_recipe)) return false;
  e.advance(e.host_copy_good ? item_state::hosted : item_state::dropped);
  e.ready = {};
  return true;
}

void session_core::order_after_writer(entry& e, stream_ref stream) {
  if (!e.ready) return;
  switch (device_.query(e.ready.ref())) {
    case event_status::complete:
      return;
    case event_status::pending:
      if (e.ready.stream() != stream) device_.wait(stream, e.ready.ref());
      return;
    case event_status::failed:
      device_.synchronize(e.ready.ref());  // throws, with the name of what failed
  }
}

void session_core::wait_for_transfer(entry const& e) {
  if (e.moving == nullptr) return;  // taking in what has ended might send the item on its way
  patience waiting(device_);
  for (progress(); e.moving != nullptr; progress()) waiting.wait();
}

/// Makes the stream wait for an item in transit. The host waits only until the last chunk is in the copy
/// stream's queue; with checksums until it has been verified. A transfer that fails, or had been cancelled
/// to make room, leaves the item hosted.
void session_core::await_arrival(entry& e, stream_ref stream) {
  auto from = store_.events().record(stream, event_timing::on);
  e.moving->urgent.store(true, std::memory_order_relaxed);
  auto const still_coming = [&] {
    return e.state() == item_state::prefetching &&
           (settings_.verify == verify_mode::checksum ||
            e.moving->phase.load(std::memory_order_acquire) != transfer_phase::issued);
  };
  if (still_coming()) {
    patience waiting(device_);
    for (progress(); still_coming(); progress()) waiting.wait();
  }
  if (e.state() == item_state::hosted) return;
  if (e.state() == item_state::prefetching) device_.wait(stream, e.moving->done);
  measure(measurement::kind::exposed, e, std::move(from), stream);
}

/// True if the transfer was stopped in time. The stream is then ordered after the chunks that were under
/// way, so that a recipe may write where they do.
bool session_core::stop_prefetch(entry& e, stream_ref stream) {
  transfer& t = *e.moving;
  t.cancel.store(true, std::memory_order_release);
  auto phase = transfer_phase::queued;
  patience waiting(device_);
  while ((phase = t.phase.load(std::memory_order_acquire)) == transfer_phase::queued) waiting.wait();
  if (phase == transfer_phase::issued) return false;
  if (phase == transfer_phase::stopped) {
    device_.wait(stream, t.done);
    return true;
  }
  wait_for_transfer(e);  // it has ended: take that in
  return e.state() == item_state::hosted;
}

/// Takes the recipe although the link would do. False if the recipe cannot, and the link must.
bool session_core::recompute_instead(entry& e, stream_ref stream, outlook const& seen) {
  try {
    recompute(e, stream, reason::recomputed_sooner_than_transfer, seen);
    return true;
  } catch (stream_error const&) {
    throw;  // what failed was not the recipe's doing, and its owner must hear of it
  } catch (error const& cause) {
    log_.info("{} is fetched after all: {}", to_string(e.key), cause.what());
    return false;
  }
}

bool session_core::recipe_is_sooner(entry const& e, outlook& seen) const {
  if (!e.has_recipe) return false;
  double const arrival = arrival_us(e);
  if (arrival == unknown) return false;
  double const limit = arrival - settings_.stall_tolerance_us;
  double const rebuild = rebuild_us(e, limit);
  seen = {arrival, rebuild == unknown ? 0 : rebuild};
  return rebuild < limit;
}

/// When the item would be on the device if it were urgent: behind the chunks that are in flight already.
double session_core::arrival_us(entry const& e) const {
  auto const& link = engine_.counters(copy_direction::host_to_device);
  double const bytes_per_us = link.bytes_per_us.load(std::memory_order_relaxed);
  if (bytes_per_us <= 0) return unknown;
  std::size_t remaining = e.bytes;
  if (e.state() == item_state::prefetching) {
    remaining -= e.moving->arrived_bytes.load(std::memory_order_relaxed);
    if (e.moving->phase.load(std::memory_order_acquire) != transfer_phase::queued) {
      return static_cast<double>(remaining) / bytes_per_us;
    }
  }
  std::size_t const chunks = transfers_under_way_ > 0 ? engine_.chunks_ahead(copy_direction::host_to_device) : 0;
  std::size_t const ahead = chunks * settings_.chunk_bytes;
  return static_cast<double>(remaining + ahead) / bytes_per_us;
}

/// How long the recipe would take, by its last run, with whatever its inputs need first. Looks no further
/// once `limit` is reached.
double session_core::rebuild_us(entry const& e, double limit) const {
  if (!e.has_recipe || e.stats.recipe_us <= 0) return unknown;
  double total = e.stats.recipe_us;
  for (auto const& key : e.how->inputs.keys()) {
    if (total >= limit) return total;
    entry const* const input = store_.find(key);
    if (input == nullptr || input->state() == item_state::recomputing) return unknown;
    if (input->on_device()) continue;
    total += input->state() == item_state::dropped ? rebuild_us(*input, limit - total) : arrival_us(*input);
  }
  return total;
}

}  // namespace ferry::path
