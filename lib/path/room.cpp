// room: device bytes for a block, an item on its way back, or adopted memory. What gives way, in this order:
// items whose bytes can be had again for nothing or by a recipe, farthest need first; prefetches, farthest
// need first; then bytes already on their way out are waited for; then items go out a second time; at last
// what a policy would rather keep.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "ferry/error.hpp"
#include "path/session_core.hpp"

namespace ferry::path {

namespace {

/// Device bytes, when it ends.
bool gives_bytes_back(transfer const& t) {
  bool const back = t.direction == copy_direction::device_to_host || t.cancel.load(std::memory_order_relaxed);
  return t.submitted && (back || t.left_behind);
}

/// Set for as long as this lives, however that ends.
class raised_flag {
 public:
  explicit raised_flag(bool& flag) noexcept : flag_(flag), before_(std::exchange(flag, true)) {}
  raised_flag(raised_flag const&) = delete;
  raised_flag& operator=(raised_flag const&) = delete;
  ~raised_flag() { flag_ = before_; }

 private:
  bool& flag_;
  bool before_;
};

}  // namespace

device_region session_core::make_room(std::size_t bytes, label const& name, stream_ref stream) {
  return wait_for_room(bytes, name, stream, [&] { return store_.device_tier().allocate(bytes, name); });
}

device_region session_core::make_room_adopting(device_view memory, stream_ref stream) {
  return wait_for_room(memory.bytes, "adopted memory", stream,
                       [&] { return store_.device_tier().adopt(memory.address, memory.bytes); });
}

/// The stream is the one that the bytes are for.
template <typename Allocate>
device_region session_core::wait_for_room(std::size_t bytes, label const& name, stream_ref stream, Allocate allocate) {
  if (recorder_.on()) recorder_.handed_out(bytes, scratch_.bytes(), store_);
  if (auto region = allocate()) {
    note_forced_bytes();
    return std::move(*region);
  }
  raised_flag const while_making_room(making_room_);
  bool const hopeless = bytes > store_.device_tier().bytes().limit_bytes();
  std::optional<device_region> region;
  entry* blamed = nullptr;
  event_handle from;
  patience waiting(device_);
  while (!hopeless) {
    progress();
    if ((region = allocate())) break;
    // What a plan has brought back early is there for a reason: rather wait for what the plan sends out.
    bool const by_plan = follower_.is_active() && bytes_are_coming();
    if (!by_plan && give_way(false)) continue;
    if (bytes_are_coming()) {
      if (blamed == nullptr) blamed = oldest_offloading();
      if (!from) from = store_.events().record_if_possible(stream, event_timing::on);
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
    if (ferry_again(false)) continue;
    if ((region = allocate())) break;
    if (!give_way(true) && !ferry_again(true)) break;
  }
  ledger_.waited_for_bytes(blamed, waiting.waited_us());
  if (from && clock_.knows_a_stretch()) ledger_.measure(measurement::kind::starved, blamed, std::move(from), stream);
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
      bool const again = e.host.is_good() || (e.may_drop && (firmly || e.where == placement::recompute));
      if (again && farther(farthest)) farthest = &e;
    } else if (e.state() == item_state::prefetching && e.leases == 0 &&
               !e.moving->cancel.load(std::memory_order_relaxed) && farther(farthest_prefetch)) {
      farthest_prefetch = &e;
    }
  }
  if (farthest != nullptr) {
    bool const clean = farthest->host.is_good();
    ledger_.count(clean ? reason::evicted_for_space : reason::dropped_for_space, *farthest);
    vacate(*farthest);
    return true;
  }
  if (farthest_prefetch != nullptr) {
    ledger_.met(item_event::fetch_called_off, *farthest_prefetch);
    farthest_prefetch->moving->cancel.store(true, std::memory_order_release);
    ledger_.count(reason::prefetch_cancelled_for_space, *farthest_prefetch);
    return true;
  }
  return false;
}

/// The item gives up bytes that the link still writes, if there are others; `firmly`: if what is needed later must make
/// way. The transfer gives them back when it ends.
bool session_core::leave_behind(entry& e, bool firmly) {
  // Whoever holds another lease has been told the address.
  if (e.leases > 1 || !e.users.empty() || !e.uses.empty()) return false;
  auto& tier = store_.device_tier();
  auto region = tier.allocate(e.bytes, e.key.name);
  raised_flag const while_making_room(making_room_);
  for (constexpr double patient_us = 200; firmly && !region && e.state() == item_state::prefetching;) {
    if (!give_way(false)) break;
    patience waiting(device_);
    do {
      progress();
      region = tier.allocate(e.bytes, e.key.name);
      if (region || forecast_.link().is_punctual()) break;
      waiting.wait_or_look(patient_us);  // what was called off has to be noticed
    } while (waiting.waited_us() < patient_us);
  }
  if (region && e.state() != item_state::prefetching) {
    tier.free(std::move(*region), {});
    return false;
  }
  if (!region) return false;
  ledger_.met(item_event::left_behind, e);
  e.moving->left_behind = e.device.replace(std::move(*region));
  e.advance(item_state::hosted);  // what the transfer brings is not the item's any more
  return true;
}

/// Those that will give bytes back: first what was called off, then the others as the engine will send them.
void session_core::list_leaving() {
  leaving_.clear();
  for (auto const& t : transfers_.records()) {
    if (gives_bytes_back(*t)) leaving_.push_back(t.get());
  }
  std::ranges::sort(leaving_, {}, [](transfer const* t) {
    bool const begun = t->issued_bytes.load(std::memory_order_relaxed) > 0;
    return std::tuple(!t->cancel.load(std::memory_order_relaxed), !t->urgent.load(std::memory_order_relaxed), !begun,
                      t->priority);
  });
}

/// Somebody waits for so many bytes: if one of the items on their way out would free them sooner than those before it,
/// it goes first. Requires: `list_leaving`.
void session_core::hurry(std::size_t bytes) {
  std::size_t freed = 0;
  std::size_t in_turn = 0;
  transfer* sooner = nullptr;
  for (auto* const t : leaving_) {
    std::size_t const left = t->bytes - t->arrived_bytes.load(std::memory_order_relaxed);
    std::size_t const frees = forecast_.freed_by(*t);
    bool const goes = !t->cancel.load(std::memory_order_relaxed) && !t->left_behind;
    if (freed < bytes && goes) in_turn += left;
    freed += frees + t->left_behind.bytes();
    if (goes && frees >= bytes && left < in_turn && (sooner == nullptr || t->bytes < sooner->bytes)) sooner = t;
  }
  if (sooner == nullptr || in_turn == 0) return;
  sooner->urgent.store(true, std::memory_order_relaxed);
  list_leaving();
}

/// Somebody waits for bytes of items that are on their way out. If that takes longer than to rebuild other items later,
/// these are dropped: such as still stand in the link's queue, or were to stay. Their bytes are free at once.
session_core::drop_result session_core::drop_instead_of_waiting(std::size_t bytes) {
  if (forecast_.link().bytes_per_us(copy_direction::device_to_host) <= 0) return drop_result::never;
  auto const& tier = store_.device_tier().bytes();
  std::size_t const needed = bytes > tier.free_bytes() ? bytes - tier.free_bytes() : 1;
  constexpr double longest_us = 1e12;
  list_leaving();
  if (!follower_.is_active()) hurry(needed);  // a plan has put them in the order in which forward needs their bytes
  double const wait_us = std::clamp(forecast_.room_us(leaving_, needed) - clock_.busy_us(), 0.0, longest_us);
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
  if (freed < needed) return drop_result::never;
  if (cost_us >= limit_us) return drop_result::not_yet;
  // What has gone may be what others would be rebuilt from.
  for (std::size_t i = 0; i < count_of_many; ++i) {
    list_reaching();
    if (could_be_dropped(*droppable_[i].item)) drop_for(droppable_[i], wait_us);
  }
  return drop_result::dropped;
}

/// What could be dropped, and for how much; those that give most bytes for it first.
void session_core::list_droppable() {
  list_reaching();
  droppable_.clear();
  for (auto& e : store_.live()) {
    if (!could_be_dropped(e)) continue;
    double const once_us = forecast_.rebuild_later_us(e, decide::unknown_us);
    if (once_us == decide::unknown_us) continue;
    double cost_us = once_us;
    for_each_rebuilt_from(e, [&](entry const&) { cost_us += once_us; });
    droppable_.push_back({&e, cost_us});
  }
  std::ranges::sort(droppable_, {},
                    [](drop_offer const& one) { return one.cost_us / static_cast<double>(one.item->device.bytes()); });
}

void session_core::drop_for(drop_offer const& one, double wait_us) {
  ledger_.count(reason::dropped_instead_of_waiting, *one.item, {wait_us, one.cost_us});
  if (one.item->moving != nullptr) {
    drop_unsent(*one.item);
  } else {
    vacate(*one.item);
  }
}

/// In forward, at no other cost than its recipe. Requires: `list_reaching`.
bool session_core::could_be_dropped(entry& e) {
  if (e.leases > 0 || e.restored || !e.has_recipe) return false;
  bool const unused = e.state() == item_state::resident
                          ? e.may_drop && e.moving == nullptr
                          : e.state() == item_state::offloading && e.moving->issued_bytes == 0 && !e.moving->cancel;
  if (!unused || !rebuilding_fits(e)) return false;
  // Those that were dropped before, counting on this one.
  auto const where = std::exchange(e.where, placement::recompute);
  bool fit = true;
  for_each_rebuilt_from(e, [&](entry const& other) { fit = fit && rebuilding_fits(other); });
  e.where = where;
  return fit;
}

/// Dropped items whose recipes read other segments.
void session_core::list_reaching() {
  reaching_.clear();
  for (auto const& e : store_.live()) {
    if (e.to_be_rebuilt() && e.has_recipe && e.reaches_beyond_segment()) reaching_.push_back(&e);
  }
}

/// Dropped items of other segments whose recipes read this one. Requires: `list_reaching`.
template <typename Visit>
void session_core::for_each_rebuilt_from(entry const& e, Visit visit) {
  for (auto const* const other : reaching_) {
    auto const inputs = other->how->inputs.keys();
    if (other->key.segment != e.key.segment && std::ranges::find(inputs, e.key) != inputs.end()) visit(*other);
  }
}

/// There will be room for the recipe in the midst of backward of the item's segment: it reads no other segment, or what
/// it reads there fits beside everything of its own.
bool session_core::rebuilding_fits(entry const& e) {
  std::size_t const limit = store_.device_tier().bytes().limit_bytes();
  std::size_t const outside = bytes_from_outside(e, e.key.segment, limit);
  if (outside == 0 || outside > limit) return outside == 0;
  auto const& step = adaptation_.measured();
  bool const measured = step && e.key.segment < step->segments.size();
  std::size_t inside =
      measured ? step->segments[e.key.segment].backward_scratch_bytes : scratch_.last_peak_bytes();
  for (auto const& other : store_.live()) {
    bool const beside = other.key.segment == e.key.segment && other.key.micro_batch == e.key.micro_batch;
    if (beside) inside += other.bytes;
  }
  return outside + inside <= limit;
}

/// What the recipe reads of other segments, and what must be rebuilt there first. Looks no further beyond `limit`.
std::size_t session_core::bytes_from_outside(entry const& e, std::uint32_t segment, std::size_t limit) const {
  std::size_t sum = 0;
  for (auto const& key : e.how->inputs.keys()) {
    if (key.segment == segment || sum > limit) continue;
    entry const* const input = store_.find(key);
    if (input == nullptr) return limit + 1;
    sum += input->bytes;
    if (input->to_be_rebuilt() && input->has_recipe) sum += bytes_from_outside(*input, segment, limit);
  }
  return sum;
}

/// It is dropped as soon as its transfer has been called off.
void session_core::drop_unsent(entry& e) {
  ledger_.met(item_event::offload_called_off, e);
  e.where = placement::recompute;
  e.moving->cancel.store(true, std::memory_order_release);
}

/// Sends out an item that came back and is not in use, for a policy that ferries. `firmly`: also one that a plan would
/// rather keep and that nothing can rebuild.
bool session_core::ferry_again(bool firmly) {
  bool const planned = follower_.is_active() || policy_.planning();
  for (auto& e : store_.live()) {
    bool const may_go = e.where == placement::offload ||
                        (firmly && planned && !e.has_recipe && e.stats.last != reason::kept_after_failed_offload);
    if (!may_go || e.state() != item_state::resident || !e.idle() || e.host.is_good()) continue;
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
  if (transfers_.under_way() == 0) return false;
  return std::ranges::any_of(transfers_.records(), [](auto const& t) { return gives_bytes_back(*t); });
}

void session_core::throw_no_room(std::size_t bytes, label const& name) {
  auto& tier = store_.device_tier();
  std::size_t in_use = scratch_.bytes();
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
  } else if (ledger_.totals().count(reason::kept_pinned_full) > 0) {
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
    if (e.idle() && e.state() == item_state::resident && e.may_drop) forced -= e.device.region().piece.held.bytes();
  }
  forced_peak_bytes_ = std::max(forced_peak_bytes_, forced);
}

}  // namespace ferry::path
