// A device on which chance decides who gets on when; see explored_device.hpp.
#include "explore/explored_device.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace ferry::testing {

namespace {

device_capabilities explored(device_capabilities has, exploration const& how) {
  if (how.by_address) has.addresses_per_byte = 1;
  return has;
}

}  // namespace

explored_device::explored_device(std::unique_ptr<device> inner, sim_device& clock, exploration const& how,
                                 std::uint64_t seed)
    : inner_(std::move(inner)),
      clock_(clock),
      how_(how),
      chance_(seed),
      capabilities_(explored(inner_->capabilities(), how)),
      checker_(inner_->order() == nullptr ? std::make_unique<order_checker>() : nullptr),
      listener_(checker_ != nullptr ? static_cast<order_hooks&>(*checker_) : *inner_->order()) {}

explored_device::~explored_device() = default;

std::vector<std::string> explored_device::order_violations() const {
  return checker_ != nullptr ? checker_->violations() : std::vector<std::string>{};
}

// Who gets on.

/// Before each call to the device, whoever makes it, others may get on.
void explored_device::take_turns() {
  // Thrown in the trainer's thread, so that it is seen who waits. Who waits for a dead link does so for hours.
  if (++calls_ >= limit_ && acting_ == nullptr) {
    if (limit_ > most_calls) std::abort();  // whoever was told goes on all the same
    limit_ += most_calls / 100;
    throw endless("it goes on and on: a million calls to the device");
  }
  if (acting_ != nullptr) {
    if (chance_.per_mille(how_.engine_pauses)) acting_->line->pause();
  } else if (chance_.per_mille(how_.host_slips)) {
    slip();
  }
  if (stormy_ && how_.lost_at != 0 && calls_ >= how_.lost_at) lost_ = true;
}

/// The same, and the call may fail.
void explored_device::before_call(char const* what) {
  take_turns();
  bool const struck = was_told_to_fail(what) || (stormy_ && chance_.per_mille(how_.failing_calls));
  if (!lost_ && !struck) return;
  ++failed_calls_;
  throw call_failed(std::string(what) + (lost_ ? ": the device is lost" : " was struck by lightning"));
}

bool explored_device::was_told_to_fail(char const* what) {
  bool due = false;
  std::erase_if(told_, [&](auto& each) {
    bool const now = each.first == what && --each.second == 0;
    due |= now;
    return now;
  });
  return due;
}

/// Of a call that fails only with the device, as on a GPU.
void explored_device::before_waiting() {
  take_turns();
  if (lost_) throw call_failed("synchronize: the device is lost");
}

/// The trainer's thread is descheduled for a while.
void explored_device::slip() {
  constexpr std::uint64_t most_happenings = 64;
  constexpr std::uint64_t longest_ns = 300'000;
  for (auto left = chance_.up_to(most_happenings); left > 0; --left) {
    if (chance_.below(2) == 0) {
      static_cast<void>(let_some_act());
    } else {
      clock_.pass_time(std::chrono::nanoseconds(chance_.up_to(longest_ns)));
      unseen_ = true;
    }
  }
}

/// True if the agent has got on: done something, or come as far as an interruption.
bool explored_device::let_act(actor& chosen) {
  if (chosen.line->is_over()) return false;
  chosen.blocked = false;
  acting_ = &chosen;
  order_checker::speak_as(&chosen);
  struct back {
    explored_device& of;
    ~back() {
      of.acting_ = nullptr;
      order_checker::speak_as(nullptr);
    }
  } const guard{*this};
  chosen.line->resume();
  if (chosen.inside) return !chosen.blocked;
  unseen_ |= chosen.moved;
  return chosen.moved;
}

bool explored_device::let_some_act() { return !actors_.empty() && let_act(*actors_[chance_.below(actors_.size())]); }

/// Each once, to the end. True if one of them did anything.
bool explored_device::let_all_act() {
  bool any = false;
  for (auto const& each : actors_) {
    do {
      static_cast<void>(let_act(*each));
    } while (each->inside && !each->blocked && !each->line->is_over());
    any |= !each->inside && each->moved;
  }
  return any;
}

bool explored_device::settle() {
  if (acting_ != nullptr || chance_.per_mille(how_.engine_lags)) return false;
  constexpr std::uint64_t most_acts = 8;
  bool any = false;
  for (auto left = chance_.up_to(most_acts); left > 0 && let_some_act(); --left) any = true;
  return any;
}

void explored_device::pass(std::optional<std::chrono::nanoseconds> longest) {
  bool const looks_again = std::exchange(unseen_, false);
  if (chance_.below(2) == 0 && let_some_act()) return;
  try {
    longest ? clock_.pass_time(*longest) : clock_.pass_time();
  } catch (deadlock_error const&) {
    // Whoever waits may not have seen yet what has happened in the midst of its last look.
    if (!let_all_act() && !looks_again) throw;
  }
}

/// Waits as a thread does that is blocked in the device: everybody else gets on.
void explored_device::block(event_ref until) {
  while (inner_->query(until) == event_status::pending) {
    if (acting_ == nullptr) {
      pass(std::nullopt);
    } else {
      if (acting_->stuck) throw deadlock_error("the work that is waited for never ends");
      acting_->blocked = true;
      acting_->line->pause();
    }
  }
}

void explored_device::block(stream_ref until) {
  std::optional<ferry::event> mark;
  {
    exposure const roof(this, false);  // this is nobody's call
    mark.emplace(*inner_);
    inner_->record(*mark, until);
  }
  block(mark->ref());
}

void explored_device::add(agent& added) {
  auto& made = *actors_.emplace_back(std::make_unique<actor>());
  made.who = &added;
  made.line = std::make_unique<fiber>([&made] {
    while (!made.leaving) {
      made.inside = true;
      made.moved = made.who->act();
      made.inside = false;
      if (!made.leaving) made.line->pause();
    }
  });
}

void explored_device::remove(agent& removed) noexcept {
  auto const found = std::ranges::find_if(actors_, [&](auto const& each) { return each->who == &removed; });
  if (found == actors_.end()) return;
  actor& gone = **found;
  // Whatever it is in the midst of comes to its end.
  while (gone.inside && !gone.line->is_over()) {
    if (let_act(gone) || !gone.blocked) continue;
    try {
      clock_.pass_time();
    } catch (deadlock_error const&) {
      gone.stuck = true;
    }
  }
  gone.leaving = true;
  let_act(gone);
  actors_.erase(found);
}

// Memory, streams and events.

void* explored_device::allocate(memory_space space, std::size_t bytes) {
  before_call("allocate");
  void* const address = inner_->allocate(space, bytes);
  if (checker_ != nullptr) {
    checker_->slab_added(address, bytes * capabilities_.addresses_per_byte,
                         space == memory_space::device ? "device memory" : "pinned memory");
  }
  return address;
}

void explored_device::deallocate(memory_space space, void* address) noexcept {
  if (checker_ != nullptr && address != nullptr) checker_->slab_removed(address);
  inner_->deallocate(space, address);
}

stream_ref explored_device::create_stream(stream_kind kind, label const& name) {
  before_call("create_stream");
  stream_ref const made = inner_->create_stream(kind, name);
  if (checker_ != nullptr) ids_[made.native()] = checker_->add_stream(name);
  return {*this, made.native()};
}

void explored_device::destroy_stream(stream_ref stream) noexcept {
  inner_->destroy_stream(inner_of(stream));
  if (checker_ != nullptr) checker_->host_saw_stream(id_of(stream));
}

event_ref explored_device::create_event(event_timing timing) {
  before_call("create_event");
  return {*this, inner_->create_event(timing).native()};
}

void explored_device::destroy_event(event_ref event) noexcept {
  if (checker_ != nullptr) checker_->forget_event(event.native());
  inner_->destroy_event(inner_of(event));
}

// Work.

void explored_device::launch(stream_ref stream, label const& name, std::span<memory_access const> accesses,
                             unique_function<void()> work) {
  before_call("launch");
  inner_->launch(inner_of(stream), name, accesses, std::move(work));
  if (checker_ != nullptr) checker_->operation(id_of(stream), name, accesses);
}

void explored_device::copy(stream_ref stream, label const& name, copy_direction direction, void* to, void const* from,
                           std::size_t bytes) {
  before_call("copy");
  inner_->copy(inner_of(stream), name, direction, to, from, bytes);
  std::array const accesses{reads(from, bytes), writes(to, bytes)};
  if (checker_ != nullptr) checker_->operation(id_of(stream), name, accesses);
  if (!stormy_ || !chance_.per_mille(how_.corrupted)) return;
  auto* const victim = static_cast<std::byte*>(to) + chance_.below(bytes);
  inner_->launch(inner_of(stream), "corrupt", {}, [victim] { *victim ^= std::byte{1}; });
}

void explored_device::record(event_ref event, stream_ref stream) {
  before_call("record");
  inner_->record(inner_of(event), inner_of(stream));
  if (checker_ != nullptr) checker_->record(event.native(), id_of(stream));
}

void explored_device::wait(stream_ref stream, event_ref event) {
  before_call("wait");
  inner_->wait(inner_of(stream), inner_of(event));
  if (checker_ != nullptr) checker_->wait(id_of(stream), event.native());
}

event_status explored_device::query(event_ref event) {
  take_turns();
  if (lost_) return event_status::failed;
  auto const status = inner_->query(inner_of(event));
  if (status != event_status::pending && checker_ != nullptr) checker_->host_saw(event.native());
  return status;
}

void explored_device::synchronize(event_ref event) {
  before_waiting();
  block(inner_of(event));
  if (checker_ != nullptr) checker_->host_saw(event.native());
  inner_->synchronize(inner_of(event));
}

void explored_device::synchronize(stream_ref stream) {
  before_waiting();
  block(inner_of(stream));
  if (checker_ != nullptr) checker_->host_saw_stream(id_of(stream));
  inner_->synchronize(inner_of(stream));
}

void explored_device::drain(stream_ref stream) noexcept {
  take_turns();
  if (lost_) return;
  try {
    block(inner_of(stream));
  } catch (error const&) {
    // It was destroyed, or it never ends.
  }
  inner_->drain(inner_of(stream));
  if (checker_ != nullptr && ids_.contains(stream.native())) checker_->host_saw_stream(id_of(stream));
}

double explored_device::elapsed_us(event_ref from, event_ref to) {
  before_call("elapsed_us");
  return inner_->elapsed_us(inner_of(from), inner_of(to));
}

}  // namespace ferry::testing
