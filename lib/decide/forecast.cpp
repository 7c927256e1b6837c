#include "decide/forecast.hpp"

#include <algorithm>

namespace ferry::decide {

forecast::forecast(device& on, store::tiered_store& store, link_view link, step_clock& clock, config const& settings)
    : device_(on), store_(store), link_(link), clock_(clock), settings_(settings) {
  counted_.reserve(64);
}

double forecast::arrival_us(store::entry const& e) const {
  std::size_t remaining = e.bytes;
  std::size_t own_in_flight = 0;
  if (e.state() == item_state::prefetching) {
    own_in_flight = e.moving->in_flight_bytes();
    remaining -= e.moving->arrived_bytes.load(std::memory_order_relaxed);
    if (e.moving->phase.load(std::memory_order_acquire) != store::transfer_phase::queued) {
      return link_.us_for(copy_direction::host_to_device, remaining);
    }
  }
  auto const& link = link_.counters(copy_direction::host_to_device);
  std::size_t const in_flight = link.in_flight_bytes.load(std::memory_order_relaxed);
  std::size_t const ahead = in_flight > own_in_flight ? in_flight - own_in_flight : 0;
  return link_.us_for(copy_direction::host_to_device, remaining + ahead);
}

bool forecast::about_to_arrive(store::entry const& e) const {
  if (link_.is_punctual() || arrival_us(e) > link_.wake_up_us()) return false;
  auto const chunk = link_.chunk_under_way(copy_direction::host_to_device);
  return !chunk || chunk->so_far_us <= chunk->usual_us;
}

double forecast::coming_us(store::entry const& e) {
  return std::max(0.0, link_.us_for(copy_direction::host_to_device, e.moving->in_flight_bytes()) - clock_.busy_us());
}

double forecast::part_of_recipe_us(store::entry const& e, std::size_t rows) {
  return e.rebuild.us * static_cast<double>(rows) / static_cast<double>(e.rebuild.how->rows);
}

double forecast::rebuild_us(store::entry const& e, double limit, double hidden_us) {
  counted_.clear();
  rebuild_cost cost{.link_us = -hidden_us};
  return add_recipe(e, limit, cost) ? cost.us() : unknown_us;
}

bool forecast::add_recipe(store::entry const& e, double limit, rebuild_cost& cost) {
  if (!e.rebuild.possible || e.rebuild.us < 0) return false;
  double recipe_us = e.rebuild.us;
  if (e.state() == item_state::prefetching) {
    std::size_t const there = whole_rows(e, e.moving->issued_bytes.load(std::memory_order_relaxed));
    if (there > 0) recipe_us = std::min(recipe_us, coming_us(e) + recipe_us - part_of_recipe_us(e, there));
  }
  cost.recipes_us += recipe_us;
  counted_.push_back(&e);
  for (auto const& key : e.rebuild.how->inputs.keys()) {
    if (cost.us() >= limit) return true;
    store::entry const* const input = store_.find(key);
    if (input == nullptr || input->state() == item_state::recomputing) return false;
    bool const there = input->on_device() && !is_lost(*input);
    if (there || std::ranges::find(counted_, input) != counted_.end()) continue;
    if (!add_input(*input, limit, cost)) return false;
  }
  return true;
}

bool forecast::add_input(store::entry const& input, double limit, rebuild_cost& cost) {
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

double forecast::rebuild_later_us(store::entry const& e, double limit) const {
  if (!e.rebuild.possible || e.rebuild.us < 0) return unknown_us;
  double total = e.rebuild.us;
  for (auto const& key : e.rebuild.how->inputs.keys()) {
    if (total >= limit) return total;
    store::entry const* const input = store_.find(key);
    if (input == nullptr) return unknown_us;
    if (input->to_be_rebuilt() && key.segment != e.key.segment) total += rebuild_later_us(*input, limit - total);
  }
  return total;
}

bool forecast::recipe_is_sooner(store::entry const& e, outlook& seen) {
  if (!e.rebuild.possible) return false;
  double const arrival = arrival_us(e);
  if (arrival == unknown_us) return false;
  double const busy_us = clock_.busy_us();
  double const wait_us = std::max(0.0, arrival - busy_us);
  if (wait_us <= 0) return false;
  double const limit = wait_us - settings_.stall_tolerance_us;
  double const recipe_us = rebuild_us(e, std::max(0.0, limit), busy_us);
  weighed_ |= recipe_us < wait_us;
  if (limit <= 0) return false;
  bool const sooner = recipe_us < limit;
  if (sooner || wait_us > seen.transfer_us) seen = {wait_us, recipe_us};
  return sooner;
}

outlook forecast::foresee(store::entry const& e) {
  if (e.on_device()) return {};
  double const arrival = e.state() == item_state::dropped ? unknown_us : arrival_us(e);
  double const busy_us = clock_.busy_us();
  return {std::max(0.0, arrival - busy_us), rebuild_us(e, unknown_us, busy_us)};
}

std::optional<outlook> forecast::lateness(store::entry const& e, double until_us, std::size_t coming_bytes) {
  if (!e.rebuild.possible || e.rebuild.us < 0) return std::nullopt;
  double const arrival_us = link_.us_for(copy_direction::host_to_device, coming_bytes + e.bytes);
  if (arrival_us == unknown_us) return std::nullopt;
  double const in_time_us = until_us + clock_.busy_us();
  double const late_us = arrival_us - in_time_us;
  double const limit_us = late_us - settings_.stall_tolerance_us;
  if (limit_us <= 0) return std::nullopt;
  double const recipe_us = rebuild_us(e, limit_us, in_time_us);
  return recipe_us < limit_us ? std::optional(outlook{late_us, recipe_us}) : std::nullopt;
}

double forecast::room_us(std::span<store::transfer* const> leaving, std::size_t bytes) const {
  std::size_t freed = 0;
  std::size_t sent = 0;
  double called_off_us = 0;
  for (auto const* const t : leaving) {
    if (freed >= bytes) break;
    if (t->cancel.load(std::memory_order_relaxed) || t->left_behind) {
      std::size_t const in_flight = t->in_flight_bytes();
      if (in_flight > 0) called_off_us = std::max(called_off_us, link_.us_for(t->job.direction, in_flight));
      freed += t->left_behind.bytes();
    } else {
      sent += t->job.bytes - t->arrived_bytes.load(std::memory_order_relaxed);
    }
    freed += freed_by(*t);
  }
  if (freed < bytes) return unknown_us;
  return std::max(called_off_us, sent > 0 ? link_.us_for(copy_direction::device_to_host, sent) : 0);
}

std::size_t forecast::freed_by(store::transfer const& t) noexcept {
  if (t.owner.item == nullptr) return t.orphans.device.bytes();
  if (t.left_behind || t.owner.item->leases > 0) return 0;
  bool const stays = t.cancel.load(std::memory_order_relaxed) && t.job.direction == copy_direction::device_to_host &&
                     t.owner.item->course.where != placement::recompute;
  return stays ? 0 : t.owner.item->device.bytes();
}

bool forecast::is_lost(store::entry const& e) const {
  return e.on_device() && e.device.look(device_) == store::verdict::lost;
}

std::size_t forecast::whole_rows(store::entry const& e, std::size_t bytes) const noexcept {
  if (!e.rebuild.possible || e.rebuild.how->rows == 1 || verifies(settings_.verify, verify_mode::checksum)) return 0;
  return std::min(bytes / (e.bytes / e.rebuild.how->rows), e.rebuild.how->rows - 1);
}

bool forecast::can_be_rebuilt(store::entry const& e) {
  counted_.clear();
  return e.rebuild.possible && inputs_can_be_had(e);
}

bool forecast::inputs_can_be_had(store::entry const& e) {
  counted_.push_back(&e);
  return std::ranges::all_of(e.rebuild.how->inputs.keys(), [this](item_key const& key) {
    store::entry const* const input = store_.find(key);
    if (input == nullptr || input->state() == item_state::recomputing) return false;
    bool const there = input->host.is_good() || (input->on_device() && !is_lost(*input));
    if (there || std::ranges::find(counted_, input) != counted_.end()) return true;
    return input->rebuild.possible && inputs_can_be_had(*input);
  });
}

bool forecast::could_be_rebuilt_now(store::entry const& e) const {
  if (e.state() != item_state::dropped || e.device || !e.rebuild.possible || e.rebuild.us < 0) return false;
  return std::ranges::all_of(e.rebuild.how->inputs.keys(), [this](item_key const& key) {
    store::entry const* const input = store_.find(key);
    return input != nullptr && input->on_device() && !is_lost(*input);
  });
}

}  // namespace ferry::decide
