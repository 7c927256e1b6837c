#include "path/room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ferry/error.hpp"
#include "support/pause.hpp"

namespace ferry::path {

using observe::measurement;
using store::device_region;
using store::entry;
using store::event_handle;
using store::item_event;

namespace {

/// Device bytes, when it ends.
bool gives_bytes_back(transfer const& t) {
  bool const back = t.job.direction == copy_direction::device_to_host || t.cancel.load(std::memory_order_relaxed);
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

room::room(surroundings const& around, room_path& path) : around_(around), path_(path) {
  droppable_.reserve(64);
  reaching_.reserve(64);
  leaving_.reserve(64);
}

device_region room::make(std::size_t bytes, label const& name, stream_ref stream) {
  return wait_for_room({bytes, name}, stream,
                       [&] { return around_.store.device_tier().allocate(bytes, name, stream); });
}

device_region room::make_for(entry const& e, stream_ref stream) {
  return wait_for_room({e.bytes, e.key.name, &e.key}, stream, [&] { return around_.store.bytes_for(e, stream); });
}

device_region room::make_to_fetch(entry const& e, stream_ref stream) {
  return wait_for_room({e.bytes, e.key.name, &e.key}, stream, [&] { return around_.store.bytes_for(e); });
}

device_region room::make_at(store::home& place, label const& name, stream_ref stream) {
  return wait_for_room({place.bytes, name}, stream, [&] { return around_.store.device_tier().take(place); });
}

device_region room::make_for(item_key const& key, device_view memory, stream_ref stream) {
  return wait_for_room({memory.bytes, key.name, &key}, stream,
                       [&] { return around_.store.device_tier().adopt(memory.address, memory.bytes); });
}

/// The stream is the one that the bytes are for.
template <typename Allocate>
device_region room::wait_for_room(request const& wanted, stream_ref stream, Allocate allocate) {
  std::size_t const bytes = wanted.bytes;
  if (around_.recorder.on()) around_.recorder.handed_out(bytes, around_.blocks.bytes(), around_.store);
  if (auto region = allocate()) {
    note_forced_bytes();
    return std::move(*region);
  }
  raised_flag const while_making_room(being_made_);
  bool const hopeless = bytes > around_.store.device_tier().bytes().limit_bytes();
  std::optional<device_region> region;
  entry* blamed = nullptr;
  event_handle from;
  patience waiting(around_.on);
  while (!hopeless) {
    path_.progress();
    if ((region = allocate())) break;
    // What a plan has brought back early is there for a reason: rather wait for what the plan sends out.
    bool const by_plan = around_.plan.is_active() && bytes_are_coming();
    if (!by_plan && give_way(false)) continue;
    if (bytes_are_coming()) {
      if (blamed == nullptr) blamed = oldest_offloading();
      if (!from) from = around_.store.events().record_if_possible(stream, event_timing::on);
      switch (drop_instead_of_waiting(bytes)) {
        case drop_result::dropped:
          break;
        case drop_result::not_yet:
          waiting.wait_or_look(around_.settings.stall_tolerance_us);
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
  around_.ledger.waited_for_bytes(blamed, waiting.waited_us());
  if (from && around_.clock.knows_a_stretch() && !around_.recorder.is_paused())
    around_.ledger.measure(measurement::kind::starved, blamed, std::move(from), stream);
  if (!region) throw_no_room(wanted);
  note_forced_bytes();
  return std::move(*region);
}

/// Frees the device bytes of one item, or starts to. `firmly`: even of one that the policy would keep.
bool room::give_way(bool firmly) {
  entry* farthest = nullptr;
  entry* farthest_prefetch = nullptr;
  for (auto& e : around_.store.live()) {
    auto const farther = [&](entry const* than) {
      return than == nullptr || around_.order.rank(e) > around_.order.rank(*than);
    };
    if (e.state() == item_state::resident && e.idle()) {
      bool const again = e.host.is_good() || (e.course.may_drop && (firmly || e.course.where == placement::recompute));
      if (again && farther(farthest)) farthest = &e;
    } else if (e.state() == item_state::prefetching && e.leases == 0 &&
               !e.moving->cancel.load(std::memory_order_relaxed) && farther(farthest_prefetch)) {
      farthest_prefetch = &e;
    }
  }
  if (farthest != nullptr) {
    bool const clean = farthest->host.is_good();
    around_.ledger.count(clean ? reason::evicted_for_space : reason::dropped_for_space, *farthest);
    path_.give_up_device_bytes(*farthest);
    return true;
  }
  if (farthest_prefetch != nullptr) {
    around_.ledger.met(item_event::fetch_called_off, *farthest_prefetch);
    farthest_prefetch->moving->cancel.store(true, std::memory_order_release);
    around_.ledger.count(reason::prefetch_cancelled_for_space, *farthest_prefetch);
    return true;
  }
  return false;
}

bool room::leave_behind(entry& e, bool firmly) {
  // Whoever holds another lease has been told the address.
  if (e.leases > 1 || !e.users.empty() || !e.uses.empty() || e.lives_at != nullptr) return false;
  auto& tier = around_.store.device_tier();
  auto region = tier.allocate(e.bytes, e.key.name);
  raised_flag const while_making_room(being_made_);
  for (constexpr double patient_us = 200; firmly && !region && e.state() == item_state::prefetching;) {
    if (!give_way(false)) break;
    patience waiting(around_.on);
    do {
      path_.progress();
      region = tier.allocate(e.bytes, e.key.name);
      if (region || around_.forecast.link().is_punctual()) break;
      waiting.wait_or_look(patient_us);  // what was called off has to be noticed
    } while (waiting.waited_us() < patient_us);
  }
  if (!region || e.state() != item_state::prefetching) return false;
  around_.ledger.met(item_event::left_behind, e);
  e.moving->left_behind = e.device.replace(std::move(*region));
  e.advance(item_state::hosted);  // what the transfer brings is not the item's any more
  return true;
}

/// Those that will give bytes back: first what was called off, then the others as the engine will send them.
void room::list_leaving() {
  leaving_.clear();
  for (auto const& t : around_.moving.records()) {
    if (gives_bytes_back(*t)) leaving_.push_back(t.get());
  }
  std::ranges::sort(leaving_, {}, [](transfer const* t) {
    bool const begun = t->issued_bytes.load(std::memory_order_relaxed) > 0;
    return std::tuple(!t->cancel.load(std::memory_order_relaxed), !t->urgent.load(std::memory_order_relaxed), !begun,
                      t->job.priority);
  });
}

/// Somebody waits for so many bytes: if one of the items on their way out would free them sooner than those before it,
/// it goes first. Requires: `list_leaving`.
void room::let_the_smallest_go_first(std::size_t bytes) {
  std::size_t freed = 0;
  std::size_t in_turn = 0;
  transfer* sooner = nullptr;
  for (auto* const t : leaving_) {
    std::size_t const left = t->job.bytes - t->arrived_bytes.load(std::memory_order_relaxed);
    std::size_t const frees = around_.forecast.freed_by(*t);
    bool const goes = !t->cancel.load(std::memory_order_relaxed) && !t->left_behind;
    if (freed < bytes && goes) in_turn += left;
    freed += frees + t->left_behind.bytes();
    if (goes && frees >= bytes && left < in_turn && (sooner == nullptr || t->job.bytes < sooner->job.bytes)) sooner = t;
  }
  if (sooner == nullptr || in_turn == 0) return;
  sooner->urgent.store(true, std::memory_order_relaxed);
  list_leaving();
}

/// Somebody waits for bytes of items that are on their way out. If that takes longer than to rebuild other items later,
/// these are dropped: such as still stand in the link's queue, or were to stay. Their bytes are free at once.
room::drop_result room::drop_instead_of_waiting(std::size_t bytes) {
  if (around_.forecast.link().bytes_per_us(copy_direction::device_to_host) <= 0) return drop_result::never;
  auto const& tier = around_.store.device_tier().bytes();
  std::size_t const needed = bytes > tier.free_bytes() ? bytes - tier.free_bytes() : 1;
  constexpr double longest_us = 1e12;
  list_leaving();
  if (!around_.plan.is_active())
    let_the_smallest_go_first(needed);  // a plan has put them in the order in which forward needs their bytes
  double const wait_us =
      std::clamp(around_.forecast.room_us(leaving_, needed) - around_.clock.busy_us(), 0.0, longest_us);
  double const limit_us = wait_us - around_.settings.stall_tolerance_us;
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
void room::list_droppable() {
  list_reaching();
  droppable_.clear();
  for (auto& e : around_.store.live()) {
    if (!could_be_dropped(e)) continue;
    double const once_us = around_.forecast.rebuild_later_us(e, decide::unknown_us);
    if (once_us == decide::unknown_us) continue;
    double cost_us = once_us;
    for_each_rebuilt_from(e, [&](entry const&) { cost_us += once_us; });
    droppable_.push_back({&e, cost_us});
  }
  std::ranges::sort(droppable_, {},
                    [](drop_offer const& one) { return one.cost_us / static_cast<double>(one.item->device.bytes()); });
}

void room::drop_for(drop_offer const& one, double wait_us) {
  around_.ledger.count(reason::dropped_instead_of_waiting, *one.item, {wait_us, one.cost_us});
  if (one.item->moving != nullptr) {
    drop_unsent(*one.item);
  } else {
    path_.give_up_device_bytes(*one.item);
  }
}

/// In forward, at no other cost than its recipe. Requires: `list_reaching`.
bool room::could_be_dropped(entry& e) {
  if (e.leases > 0 || e.course.restored || !e.rebuild.possible) return false;
  bool const unused = e.state() == item_state::resident
                          ? e.course.may_drop && e.moving == nullptr
                          : e.state() == item_state::offloading && e.moving->issued_bytes == 0 && !e.moving->cancel;
  if (!unused || !rebuilding_fits(e)) return false;
  // Those that were dropped before, counting on this one.
  auto const where = std::exchange(e.course.where, placement::recompute);
  bool fit = true;
  for_each_rebuilt_from(e, [&](entry const& other) { fit = fit && rebuilding_fits(other); });
  e.course.where = where;
  return fit;
}

/// Dropped items whose recipes read other segments.
void room::list_reaching() {
  reaching_.clear();
  for (auto const& e : around_.store.live()) {
    if (e.to_be_rebuilt() && e.rebuild.possible && e.reaches_beyond_segment()) reaching_.push_back(&e);
  }
}

/// Dropped items of other segments whose recipes read this one. Requires: `list_reaching`.
template <typename Visit>
void room::for_each_rebuilt_from(entry const& e, Visit visit) {
  for (auto const* const other : reaching_) {
    auto const inputs = other->rebuild.how->inputs.keys();
    if (other->key.segment != e.key.segment && std::ranges::find(inputs, e.key) != inputs.end()) visit(*other);
  }
}

/// There will be room for the recipe in the midst of backward of the item's segment: it reads no other segment, or what
/// it reads there fits beside everything of its own.
bool room::rebuilding_fits(entry const& e) {
  std::size_t const limit = around_.store.device_tier().bytes().limit_bytes();
  std::size_t const outside = bytes_from_outside(e, e.key.segment, limit);
  if (outside == 0 || outside > limit) return outside == 0;
  auto const& step = around_.adaptation.measured();
  bool const measured = step && e.key.segment < step->segments.size();
  std::size_t inside =
      std::max(measured ? step->segments[e.key.segment].backward_scratch_bytes : around_.blocks.last_peak_bytes(),
               e.rebuild.how->scratch_bytes);
  for (auto const& other : around_.store.live()) {
    bool const beside = other.key.segment == e.key.segment && other.key.micro_batch == e.key.micro_batch;
    if (beside) inside += other.bytes;
  }
  return outside + inside <= limit;
}

/// What the recipe reads of other segments, and what must be rebuilt there first. Looks no further beyond `limit`.
std::size_t room::bytes_from_outside(entry const& e, std::uint32_t segment, std::size_t limit) const {
  std::size_t sum = 0;
  for (auto const& key : e.rebuild.how->inputs.keys()) {
    if (key.segment == segment || sum > limit) continue;
    entry const* const input = around_.store.find(key);
    if (input == nullptr) return limit + 1;
    sum += input->bytes;
    if (input->to_be_rebuilt() && input->rebuild.possible) sum += bytes_from_outside(*input, segment, limit);
  }
  return sum;
}

void room::drop_unsent(entry& e) {
  around_.ledger.met(item_event::offload_called_off, e);
  e.course.where = placement::recompute;
  e.moving->cancel.store(true, std::memory_order_release);
}

/// Sends out an item that came back and is not in use, for a policy that ferries. `firmly`: also one that a plan would
/// rather keep and that nothing can rebuild.
bool room::ferry_again(bool firmly) {
  bool const planned = around_.plan.is_active() || around_.policy.planning();
  for (auto& e : around_.store.live()) {
    bool const may_go =
        e.course.where == placement::offload ||
        (firmly && planned && !e.rebuild.possible && e.record.stats.last != reason::kept_after_failed_offload);
    if (!may_go || e.state() != item_state::resident || !e.idle() || e.host.is_good()) continue;
    if (e.awaiting_offload.is_linked()) continue;
    path_.offload(e);
    if (e.state() == item_state::offloading) return true;
  }
  return false;
}

entry* room::oldest_offloading() noexcept {
  for (auto& e : around_.store.live()) {
    if (e.state() == item_state::offloading) return &e;
  }
  return nullptr;
}

/// Some transfer under way gives device bytes back when it ends, or the device is about to be done with some.
bool room::bytes_are_coming() {
  if (around_.store.device_tier().places().any_leaving()) return true;
  if (around_.moving.under_way() == 0) return false;
  return std::ranges::any_of(around_.moving.records(), [](auto const& t) { return gives_bytes_back(*t); });
}

void room::throw_no_room(request const& wanted) {
  std::size_t const bytes = wanted.bytes;
  auto& tier = around_.store.device_tier();
  std::size_t in_use = around_.blocks.bytes();
  std::size_t kept = 0;
  for (auto const& e : around_.store.live()) (e.leases > 0 ? in_use : kept) += e.device.bytes();
  std::size_t const limit = tier.bytes().limit_bytes();
  std::string text = fmt::format(
      "out of device memory: {} for '{}'{} do not fit the budget of {}, of which {} are in use by blocks and leases "
      "and {} are kept for backward",
      format_bytes(bytes), wanted.name.view(),
      wanted.item == nullptr
          ? ""
          : fmt::format(" (segment {}, micro-batch {})", wanted.item->segment, wanted.item->micro_batch),
      format_bytes(limit), format_bytes(in_use), format_bytes(kept));
  if (bytes > limit) {
    text += fmt::format("; raise FERRY_BUDGET to at least {}", format_bytes(bytes));
  } else if (in_use + bytes > limit) {
    text += fmt::format("; one segment needs at least {} at once: raise FERRY_BUDGET", format_bytes(in_use + bytes));
  } else if (tier.bytes().free_bytes() >= bytes) {
    text += fmt::format("; {} are free, but the largest gap has {}: raise FERRY_BUDGET",
                        format_bytes(tier.bytes().free_bytes()), format_bytes(tier.largest_free_bytes()));
  } else if (around_.settings.policy.kind == policy_kind::keep) {
    text += "; raise FERRY_BUDGET, or let Ferry move or drop items: FERRY_POLICY=offload or recompute";
  } else if (around_.ledger.totals().count(reason::kept_pinned_full) > 0) {
    text += "; raise FERRY_HOST_BUDGET, which is used up, or FERRY_BUDGET";
  } else {
    text += "; raise FERRY_BUDGET, give the kept items recipes, or choose FERRY_POLICY=offload";
  }
  throw out_of_device_memory(text, bytes, limit);
}

/// What the step needs whatever is kept: `selective` may fill the rest of the budget.
void room::note_forced_bytes() noexcept {
  if (!around_.policy.measuring() || around_.recorder.is_paused()) return;
  std::size_t forced = around_.store.device_tier().bytes().used_bytes();
  for (auto const& e : around_.store.live()) {
    if (e.idle() && e.state() == item_state::resident && e.course.may_drop)
      forced -= e.device.region().piece.counted_bytes();
  }
  forced_peak_bytes_ = std::max(forced_peak_bytes_, forced);
}

}  // namespace ferry::path
