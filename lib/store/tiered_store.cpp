#include "store/tiered_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ferry/error.hpp"
#include "store/transfer.hpp"
#include "support/pause.hpp"

namespace ferry::store {

tiered_store::tiered_store(device& owner, store_limits const& limits)
    : device_(owner),
      events_(owner),
      device_pool_(owner, limits.device_bytes),
      pinned_(owner, memory_space::pinned, limits.pinned_bytes),
      in_flight_(owner, limits.in_flight_bytes) {
  releases_.reserve(64);
  marks_.reserve(16);
}

tiered_store::~tiered_store() {
  device_pool_.wait_for_uses();
  for (auto& waiting : releases_) {
    for (auto const& use : waiting.uses) wait_until_over(device_, use.ref());
  }
  notify_releases();
}

entry* tiered_store::find(item_key const& key) {
  if (likely_ != nullptr && likely_->key == key) return likely_;
  auto const found = entries_.find(key);
  if (found == entries_.end() || found->second.state() == item_state::released) return nullptr;
  return likely_ = &found->second;
}

entry const* tiered_store::find(item_key const& key) const { return const_cast<tiered_store*>(this)->find(key); }

entry* tiered_store::known(item_key const& key) {
  auto const found = entries_.find(key);
  return found != entries_.end() ? &found->second : nullptr;
}

entry& tiered_store::admit(item_key const& key) {
  auto const [place, is_new] = entries_.try_emplace(key, key);
  if (!is_new && place->second.state() != item_state::released) {
    throw duplicate_key(
        fmt::format("{} is saved already; release it first, or use another name, segment or "
                    "micro-batch",
                    to_string(key)));
  }
  return place->second;
}

void tiered_store::make_resident(entry& e, device_region&& region, event_handle ready) {
  e.advance(item_state::resident);
  e.bytes = region.bytes();
  e.lives_at = region.in_place;
  if (e.lives_at != nullptr) ++e.lives_at->items;
  e.device.replace(std::move(region));
  e.device.written_by(std::move(ready));
  e.save_order = ++saves_;
  live_.push_back(e);
}

void tiered_store::drop(entry& e) {
  e.advance(item_state::dropped);
  vacate(e);
}

void tiered_store::evict(entry& e) {
  e.advance(item_state::hosted);
  vacate(e);
}

void tiered_store::vacate(entry& e) {
  auto const marks = take_marks(e);
  give_back(e.device.replace(), std::move(e.on_release), marks);
}

void tiered_store::mark_uses(entry& e) {
  for (auto const stream : e.users) {
    if (auto mark = events_.record_if_alive(stream)) e.uses.push_back(std::move(mark));
  }
  e.users.clear();
}

std::span<event_handle const> tiered_store::take_marks(entry& e) {
  marks_.clear();
  for (auto& use : e.uses) marks_.push_back(std::move(use));
  e.uses.clear();
  // The writer counts as a user, unless a later mark on its stream covers it.
  auto const& work = e.device.work();
  bool const covered = work && std::ranges::find(e.users, work.stream()) != e.users.end();
  if (work && !covered) marks_.push_back(work);
  for (auto const stream : e.users) {
    if (auto mark = events_.record_if_alive(stream)) marks_.push_back(std::move(mark));
  }
  e.users.clear();
  return marks_;
}

void tiered_store::give_back(device_region&& region, release_callback&& on_release,
                             std::span<event_handle const> uses) {
  bool const adopted = region.adopted;
  device_pool_.free(std::move(region), uses);
  if (!adopted || !on_release) return;
  adopted_release waiting{std::move(on_release), {uses.begin(), uses.end()}};
  if (!tell_if_unused(waiting)) releases_.push_back(std::move(waiting));
}

void tiered_store::release(entry& e) {
  if (transfer* const t = std::exchange(e.moving, nullptr)) {
    t->cancel.store(true, std::memory_order_release);
    t->owner.item = nullptr;
    t->orphans.any = true;
    auto const marks = take_marks(e);
    t->orphans.uses.assign(marks.begin(), marks.end());
    t->orphans.device = e.device.replace();
    t->orphans.pinned = e.host.replace();
    t->orphans.release = std::move(e.on_release);
  }
  vacate(e);
  if (home* const place = std::exchange(e.lives_at, nullptr)) --place->items;
  if (e.host) e.host.replace();
  e.advance(item_state::released);
  e.course.release_asked = false;
  if (e.rebuild.possible) e.rebuild.how->enqueue.reset();
  e.rebuild.possible = false;
  // Backward goes on with the item saved before this one.
  auto const place = live_.iterator_to(e);
  likely_ = place == live_.begin() ? nullptr : &*std::prev(place);
  e.in_save_order.unlink();
  e.awaiting_offload.unlink();
}

void tiered_store::free_orphans(transfer& ended) {
  if (!ended.orphans.any) return;
  ended.orphans.any = false;
  give_back(std::exchange(ended.orphans.device, {}), std::move(ended.orphans.release), ended.orphans.uses);
  ended.orphans.pinned = {};
  ended.orphans.uses.clear();
}

bool tiered_store::tell_if_unused(adopted_release& waiting) {
  // One event is passed on, so all but one of the uses must be over; a trainer with one compute stream is
  // told at once.
  auto const over = [this](event_handle const& use) { return device_.query(use.ref()) != event_status::pending; };
  auto const pending = std::ranges::find_if_not(waiting.uses, over);
  if (pending != waiting.uses.end() && std::any_of(pending + 1, waiting.uses.end(), std::not_fn(over))) return false;
  event_ref const done = pending != waiting.uses.end() ? pending->ref()
                         : !waiting.uses.empty()       ? waiting.uses.back().ref()
                                                       : event_ref{};
  waiting.tell(done);
  return true;
}

void tiered_store::tell_releases() {
  std::erase_if(releases_, [this](adopted_release& waiting) { return tell_if_unused(waiting); });
}

std::size_t tiered_store::forget_unused(std::uint64_t oldest) {
  return std::erase_if(entries_, [&](auto const& named) {
    auto const& e = named.second;
    bool const in_order = e.course.first_need != item_course::never;  // whoever knows the order of needs points to it
    return e.state() == item_state::released && e.saved_in_step < oldest && !in_order;
  });
}

}  // namespace ferry::store
