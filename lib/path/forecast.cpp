// forecast: when a transfer would be over, how long a recipe would take, and which of the two is the better wait.
//
// All times are from now, by this step's measured pace and the link's measured speed. A wait costs only what is left of
// it once the device has done what is enqueued already.
#include <algorithm>

#include "path/session_core.hpp"

namespace ferry::path {

/// The chunk that is being copied; nothing if there is none or nobody knows how long one takes.
std::optional<session_core::chunk_times> session_core::chunk_under_way(copy_direction direction) const {
  auto const& link = engine_.counters(direction);
  auto const since = std::chrono::nanoseconds(link.copying_since_ns.load(std::memory_order_relaxed));
  double const bytes_per_us = link.bytes_per_us.load(std::memory_order_relaxed);
  if (since == std::chrono::nanoseconds(0) || bytes_per_us <= 0) return std::nullopt;
  double const bytes_us = static_cast<double>(link.copying_bytes.load(std::memory_order_relaxed)) / bytes_per_us;
  return chunk_times{microseconds_of(device_.now() - since), bytes_us,
                     link.latency_us.load(std::memory_order_relaxed) + bytes_us};
}

/// How much longer the chunk that is being copied has taken than any should. Nobody knows when the link will go on.
double session_core::standstill_us(copy_direction direction) const {
  auto const chunk = chunk_under_way(direction);
  return chunk ? std::max(0.0, chunk->so_far_us - 2 * chunk->usual_us - engine_.wake_up_us()) : 0;
}

/// Until `bytes` more have gone over the link, those in flight included. The chunk that is being copied has been for a
/// while. A link that stands still is taken to do so for as long again as it has, so that whoever waits loses at most
/// twice what he need have.
double session_core::link_us(copy_direction direction, std::size_t bytes) const {
  auto const& link = engine_.counters(direction);
  double const bytes_per_us = link.bytes_per_us.load(std::memory_order_relaxed);
  if (bytes_per_us <= 0) return unknown_us;
  double const all_us = static_cast<double>(bytes) / bytes_per_us;
  auto const chunk = chunk_under_way(direction);
  if (!chunk) return link.latency_us.load(std::memory_order_relaxed) + all_us;
  return std::max(0.0, all_us - std::min(chunk->so_far_us, chunk->bytes_us)) + standstill_us(direction);
}

/// When the item would be on the device if it were urgent: behind the chunks that are in flight already.
double session_core::arrival_us(entry const& e) const {
  std::size_t remaining = e.bytes;
  std::size_t own_in_flight = 0;
  if (e.state() == item_state::prefetching) {
    own_in_flight = e.moving->in_flight_bytes();
    remaining -= e.moving->arrived_bytes.load(std::memory_order_relaxed);
    if (e.moving->phase.load(std::memory_order_acquire) != transfer_phase::queued) {
      return link_us(copy_direction::host_to_device, remaining);
    }
  }
  auto const& link = engine_.counters(copy_direction::host_to_device);
  std::size_t const in_flight = link.in_flight_bytes.load(std::memory_order_relaxed);
  std::size_t const ahead = in_flight > own_in_flight ? in_flight - own_in_flight : 0;
  return link_us(copy_direction::host_to_device, remaining + ahead);
}

/// The last chunk will be there before a host that naps would notice, and is not overdue: a stall may have begun. Where
/// the host is punctual a nap ends in time, and nothing need be guessed.
bool session_core::about_to_arrive(entry const& e) const {
  if (engine_.is_punctual() || arrival_us(e) > engine_.wake_up_us()) return false;
  auto const chunk = chunk_under_way(copy_direction::host_to_device);
  return !chunk || chunk->so_far_us <= chunk->usual_us;
}

/// How long compute would stand still for the chunks of the item that are in flight. Requires: it is being fetched.
double session_core::coming_us(entry const& e) {
  return std::max(0.0, link_us(copy_direction::host_to_device, e.moving->in_flight_bytes()) - pace_.busy_us());
}

double session_core::part_of_recipe_us(entry const& e, std::size_t rows) {
  return e.recipe_us * static_cast<double>(rows) / static_cast<double>(e.how->rows);
}

/// How long the recipe would keep compute, by its last run, with whatever its inputs need first: each comes over the
/// link or by its own recipe, whichever is sooner. What arrives within `hidden_us` costs nothing. Looks no further
/// once `limit` is reached.
double session_core::rebuild_us(entry const& e, double limit, double hidden_us) {
  counted_.clear();
  rebuild_cost cost{.link_us = -hidden_us};
  return add_recipe(e, limit, cost) ? cost.us() : unknown_us;
}

/// False if the item cannot be rebuilt.
bool session_core::add_recipe(entry const& e, double limit, rebuild_cost& cost) {
  if (!e.has_recipe || e.recipe_us < 0) return false;
  double recipe_us = e.recipe_us;
  if (e.state() == item_state::prefetching) {
    std::size_t const there = whole_rows(e, e.moving->issued_bytes.load(std::memory_order_relaxed));
    if (there > 0) recipe_us = std::min(recipe_us, coming_us(e) + recipe_us - part_of_recipe_us(e, there));
  }
  cost.recipes_us += recipe_us;
  counted_.push_back(&e);
  for (auto const& key : e.how->inputs.keys()) {
    if (cost.us() >= limit) return true;
    entry const* const input = store_.find(key);
    if (input == nullptr || input->state() == item_state::recomputing) return false;
    bool const there = input->on_device() && !is_lost(*input);
    if (there || std::ranges::find(counted_, input) != counted_.end()) continue;
    if (!add_input(*input, limit, cost)) return false;
  }
  return true;
}

bool session_core::add_input(entry const& input, double limit, rebuild_cost& cost) {
  double const arrival = input.host.is_good() ? arrival_us(input) : unknown_us;
  rebuild_cost const fetched{.recipes_us = cost.recipes_us, .link_us = cost.link_us + arrival};
  rebuild_cost rebuilt = cost;
  std::size_t const counted = counted_.size();
  if (add_recipe(input, std::min(limit, fetched.us()), rebuilt) && rebuilt.us() < fetched.us()) {
    cost = rebuilt;
    return true;
  }
  counted_.resize(counted);
  counted_.push_back(&input);
  cost = fetched;
  return arrival != unknown_us;
}

/// What the recipe will cost backward if the item is dropped now: what else the item's own segment needs will be
/// brought back for that one's sake.
double session_core::rebuild_later_us(entry const& e, double limit) const {
  if (!e.has_recipe || e.recipe_us < 0) return unknown_us;
  double total = e.recipe_us;
  for (auto const& key : e.how->inputs.keys()) {
    if (total >= limit) return total;
    entry const* const input = store_.find(key);
    if (input == nullptr) return unknown_us;
    if (input->to_be_rebuilt() && key.segment != e.key.segment) total += rebuild_later_us(*input, limit - total);
  }
  return total;
}

/// The rule: the recipe is taken when it would be over before the transfer, by more than FERRY_STALL_TOLERANCE_US. What
/// was seen is that look's, or, while the answer is no, that of the longest wait.
bool session_core::recipe_is_sooner(entry const& e, outlook& seen) {
  if (!e.has_recipe) return false;
  double const arrival = arrival_us(e);
  if (arrival == unknown_us) return false;
  double const busy_us = pace_.busy_us();
  double const wait_us = std::max(0.0, arrival - busy_us);
  if (wait_us <= 0) return false;
  double const limit = wait_us - settings_.stall_tolerance_us;
  double const recipe_us = rebuild_us(e, std::max(0.0, limit), busy_us);
  felt_.weighed |= recipe_us < wait_us;
  if (limit <= 0) return false;
  bool const sooner = recipe_us < limit;
  if (sooner || wait_us > seen.transfer_us) seen = {wait_us, recipe_us};
  return sooner;
}

outlook session_core::foresee(item_key const& key) {
  require_step("foresee");
  entry& e = require(key);
  if (e.on_device()) return {};
  double const arrival = e.state() == item_state::dropped ? unknown_us : arrival_us(e);
  double const busy_us = pace_.busy_us();
  return {std::max(0.0, arrival - busy_us), rebuild_us(e, unknown_us, busy_us)};
}

/// How long until transfers under way have given back so many bytes. Of one that was called off, only what is in flight
/// has to end.
double session_core::room_us(std::size_t bytes) const {
  std::size_t freed = 0;
  std::size_t sent = 0;
  double called_off_us = 0;
  for (auto const* const t : leaving_) {
    if (freed >= bytes) break;
    if (t->cancel.load(std::memory_order_relaxed) || t->left_behind) {
      std::size_t const in_flight = t->in_flight_bytes();
      if (in_flight > 0) called_off_us = std::max(called_off_us, link_us(t->direction, in_flight));
      freed += t->left_behind.bytes();
    } else {
      sent += t->bytes - t->arrived_bytes.load(std::memory_order_relaxed);
    }
    freed += freed_by(*t);
  }
  if (freed < bytes) return unknown_us;
  return std::max(called_off_us, sent > 0 ? link_us(copy_direction::device_to_host, sent) : 0);
}

/// Device bytes of its item that are free once the transfer has ended.
std::size_t session_core::freed_by(transfer const& t) noexcept {
  if (t.item == nullptr) return t.orphaned_device.bytes();
  if (t.left_behind || t.item->leases > 0) return 0;
  bool const stays = t.cancel.load(std::memory_order_relaxed) && t.direction == copy_direction::device_to_host &&
                     t.item->where != placement::recompute;
  return stays ? 0 : t.item->device.bytes();
}

}  // namespace ferry::path
