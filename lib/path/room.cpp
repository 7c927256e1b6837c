// room: device bytes for a block, an item on its way back, or adopted memory. What gives way, in this order:
// items whose bytes can be had again for nothing or by a recipe, farthest need first; prefetches, farthest
// need first; then bytes already on their way out are waited for; then items go out a second time; at last
// what a policy would rather keep.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

device_region session_core::make_room(std::size_t bytes, label const& name) {
  return wait_for_room(bytes, name, [&] { return store_.device_tier().allocate(bytes, name); });
}

device_region session_core::make_room_adopting(device_view memory) {
  return wait_for_room(memory.bytes, "adopted memory",
                       [&] { return store_.device_tier().adopt(memory.address, memory.bytes); });
}

template <typename Allocate>
device_region session_core::wait_for_room(std::size_t bytes, label const& name, Allocate allocate) {
  if (recorder_.on()) recorder_.handed_out(bytes, scratch_bytes_, store_);
  if (auto region = allocate()) {
    note_forced_bytes();
    return std::move(*region);
  }
  // While room is being made, prefetches must not take it.
  making_room_ = true;
  struct restore_flag {
    bool& flag;
    ~restore_flag() { flag = false; }
  } const guard{making_room_};

  bool const hopeless = bytes > store_.device_tier().bytes().limit_bytes();
  std::optional<device_region> region;
  entry* blamed = nullptr;
  patience waiting(device_);
  while (!hopeless) {
    progress();
    if ((region = allocate())) break;
    // What a plan has brought back early is there for a reason: rather wait for what the plan sends out.
    bool const by_plan = conductor_ != nullptr && bytes_are_coming();
    if (!by_plan && give_way(false)) continue;
    if (bytes_are_coming()) {
      if (blamed == nullptr) blamed = oldest_offloading();
      switch (drop_instead_of_waiting(bytes)) {
        case drop_result::dropped:
          break;
        case drop_result::not_yet:
          waiting.wait_or_look(settings_.stall_tolerance_us);
          break;
        case drop_result::never:
          waiting.wait();
          break;
      }
      continue;
    }
    if (ferry_again()) continue;
    if ((region = allocate())) break;
    if (!give_way(true)) break;
  }
  waited_for_bytes(blamed, waiting.waited_us());
  if (!region) throw_no_room(bytes, name);
  note_forced_bytes();
  return std::move(*region);
}

/// Frees the device bytes of one item, or starts to. `firmly`: even of one that the policy would keep.
bool session_core::give_way(bool firmly) {
  entry* farthest = nullptr;
  entry* farthest_prefetch = nullptr;
  for (auto& e : store_.live()) {
    auto const farther = [&](entry const* than) { return than == nullptr || order_.rank(e) > order_.rank(*than); };
    if (e.state() == item_state::resident && e.idle()) {
      bool const again = e.host_copy_good || (e.may_drop && (firmly || e.where == placement::recompute));
      if (again && farther(farthest)) farthest = &e;
    } else if (e.state() == item_state::prefetching && e.leases == 0 &&
               !e.moving->cancel.load(std::memory_order_relaxed) && farther(farthest_prefetch)) {
      farthest_prefetch = &e;
    }
  }
  if (farthest != nullptr) {
    bool const clean = farthest->host_copy_good;
    count(clean ? reason::evicted_for_space : reason::dropped_for_space, *farthest);
    if (clean) {
      store_.evict(*farthest);
    } else {
      store_.drop(*farthest);
    }
    return true;
  }
  if (farthest_prefetch != nullptr) {
    farthest_prefetch->moving->cancel.store(true, std::memory_order_release);
    count(reason::prefetch_cancelled_for_space, *farthest_prefetch);
    return true;
  }
  return false;
}

/// Those that will give bytes back, as the engine will send them.
void session_core::list_leaving() {
  leaving_.clear();
  for (auto const& t : transfers_) {
    bool const leaves = t->submitted && t->direction == copy_direction::device_to_host && t->item != nullptr &&
                        !t->cancel.load(std::memory_order_relaxed);
    if (leaves) leaving_.push_back(t.get());
  }
  std::ranges::sort(leaving_, {}, [](transfer const* t) {
    bool const begun = t->issued_bytes.load(std::memory_order_relaxed) > 0;
    return std::pair(!begun, t->priority);
  });
}

/// Somebody waits for bytes of items that are on their way out. If that takes longer than to rebuild other items later,
/// these are dropped: such as still stand in the link's queue, or were to stay. Their bytes are free at once.
session_core::drop_result session_core::drop_instead_of_waiting(std::size_t bytes) {
  if (engine_.chunk_us(copy_direction::device_to_host) <= 0) return drop_result::never;
  auto const& tier = store_.device_tier().bytes();
  std::size_t const needed = bytes > tier.free_bytes() ? bytes - tier.free_bytes() : 1;
  constexpr double longest_us = 1e12;
  list_leaving();
  double const wait_us = std::clamp(room_us(needed) - pace_.busy_us(), 0.0, longest_us);
  double const limit_us = wait_us - settings_.stall_tolerance_us;
  list_droppable();
  if (droppable_.empty()) return drop_result::never;
  // One that is enough by itself, or as many as it takes of those that give most bytes for their time.
  auto const enough = [&](drop_offer const& one) { return one.item->device.bytes() >= needed; };
  auto const one = std::ranges::find_if(droppable_, enough);
  std::size_t freed = 0;
  double cost_us = 0;
  std::size_t count_of_many = 0;
  while (freed < needed && count_of_many < droppable_.size()) {
    freed += droppable_[count_of_many].item->device.bytes();
    cost_us += droppable_[count_of_many++].cost_us;
  }
  if (one != droppable_.end() && one->cost_us <= cost_us) {
    if (one->cost_us >= limit_us) return drop_result::not_yet;
    drop_for(*one, wait_us);
    return drop_result::dropped;
  }
  if (freed < needed || cost_us >= limit_us) return drop_result::not_yet;
  for (std::size_t i = 0; i < count_of_many; ++i) drop_for(droppable_[i], wait_us);
  return drop_result::dropped;
}

/// What could be dropped, and for how much; those that give most bytes for it first.
void session_core::list_droppable() {
  droppable_.clear();
  for (auto& e : store_.live()) {
    if (!could_be_dropped(e)) continue;
    double const cost_us = rebuild_later_us(e, unknown_us);
    if (cost_us != unknown_us) droppable_.push_back({&e, cost_us});
  }
  std::ranges::sort(droppable_, {},
                    [](drop_offer const& one) { return one.cost_us / static_cast<double>(one.item->device.bytes()); });
}

void session_core::drop_for(drop_offer const& one, double wait_us) {
  count(reason::dropped_instead_of_waiting, *one.item, {wait_us, one.cost_us});
  if (one.item->moving != nullptr) {
    drop_unsent(*one.item);
  } else {
    store_.drop(*one.item);
  }
}

/// In forward, at no other cost than its recipe.
bool session_core::could_be_dropped(entry const& e) const {
  if (e.leases > 0 || e.restored || !e.has_recipe) return false;
  if (e.state() == item_state::resident) return e.may_drop && e.moving == nullptr;
  return e.state() == item_state::offloading && e.moving->issued_bytes == 0 && !e.moving->cancel;
}

/// It is dropped as soon as its transfer has been called off.
void session_core::drop_unsent(entry& e) {
  e.where = placement::recompute;
  e.moving->cancel.store(true, std::memory_order_release);
}

/// Sends out an item that came back and is not in use, for a policy that ferries.
bool session_core::ferry_again() {
  for (auto& e : store_.live()) {
    if (e.state() != item_state::resident || !e.idle() || e.where != placement::offload || e.host_copy_good) continue;
    if (e.awaiting_offload.is_linked()) continue;
    offload(e);
    if (e.state() == item_state::offloading) return true;
  }
  return false;
}

entry* session_core::oldest_offloading() noexcept {
  for (auto& e : store_.live()) {
    if (e.state() == item_state::offloading) return &e;
  }
  return nullptr;
}

/// Some transfer under way gives device bytes back when it ends.
bool session_core::bytes_are_coming() const noexcept {
  if (transfers_under_way_ == 0) return false;
  for (auto const& t : transfers_) {
    if (!t->submitted) continue;
    if (t->direction == copy_direction::device_to_host || t->cancel.load(std::memory_order_relaxed)) return true;
  }
  return false;
}

void session_core::throw_no_room(std::size_t bytes, label const& name) {
  auto& tier = store_.device_tier();
  std::size_t in_use = scratch_bytes_;
  std::size_t kept = 0;
  for (auto const& e : store_.live()) (e.leases > 0 ? in_use : kept) += e.device.bytes();
  std::size_t const limit = tier.bytes().limit_bytes();
  std::string text = fmt::format(
      "out of device memory: {} for '{}' do not fit the budget of {}, of which {} are in use by blocks and leases and "
      "{} are kept for backward",
      format_bytes(bytes), name.view(), format_bytes(limit), format_bytes(in_use), format_bytes(kept));
  if (bytes > limit) {
    text += fmt::format("; raise FERRY_BUDGET to at least {}", format_bytes(bytes));
  } else if (in_use + bytes > limit) {
    text += fmt::format("; one segment needs at least {} at once: raise FERRY_BUDGET", format_bytes(in_use + bytes));
  } else if (tier.bytes().free_bytes() >= bytes) {
    text += fmt::format("; {} are free, but the largest gap has {}: raise FERRY_BUDGET",
                        format_bytes(tier.bytes().free_bytes()), format_bytes(tier.largest_free_bytes()));
  } else if (settings_.policy.kind == policy_kind::keep) {
    text += "; raise FERRY_BUDGET, or let Ferry move or drop items: FERRY_POLICY=offload or recompute";
  } else if (totals_.count(reason::kept_pinned_full) > 0) {
    text += "; raise FERRY_HOST_BUDGET, which is used up, or FERRY_BUDGET";
  } else {
    text += "; raise FERRY_BUDGET, give the kept items recipes, or choose FERRY_POLICY=offload";
  }
  throw out_of_device_memory(text, bytes, limit);
}

/// What the step needs whatever is kept: `selective` may fill the rest of the budget.
void session_core::note_forced_bytes() noexcept {
  if (!policy_.measuring()) return;
  std::size_t forced = store_.device_tier().bytes().used_bytes();
  for (auto const& e : store_.live()) {
    if (e.idle() && e.state() == item_state::resident && e.may_drop) forced -= e.device.piece.held.bytes();
  }
  forced_peak_bytes_ = std::max(forced_peak_bytes_, forced);
}

}  // namespace ferry::path
