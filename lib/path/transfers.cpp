#include "path/transfers.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ferry::path {

using store::entry;

void transfers::reserve() {
  if (!idle_.empty()) return;
  records_.push_back(std::make_unique<transfer>(device_));
  records_.back()->job.gates.reserve(16);
  idle_.reserve(records_.size());
  idle_.push_back(records_.back().get());
}

transfer& transfers::begin(entry& e, copy_direction direction) {
  transfer& t = *idle_.back();
  idle_.pop_back();
  t.job.direction = direction;
  t.job.bytes = e.bytes;
  t.job.pieces = {};
  t.job.name = e.key.name;
  t.job.priority = ++order_;
  t.owner.item = &e;
  // Whose it is: the item may be released before what moves it has ended.
  t.owner.key = e.key;
  t.owner.saved_in_step = e.saved_in_step;
  t.owner.log_line = e.record.log_line;
  t.submitted = true;
  t.phase.store(transfer_phase::queued, std::memory_order_relaxed);
  t.cancel.store(false, std::memory_order_relaxed);
  t.urgent.store(false, std::memory_order_relaxed);
  t.arrived_bytes.store(0, std::memory_order_relaxed);
  t.result.failure.clear();
  t.result.moved_us = 0;
  t.issued_bytes.store(0, std::memory_order_relaxed);
  t.progress.chunks_in_flight = 0;
  t.progress.gates_passed = false;
  e.moving = &t;
  ++under_way_;
  return t;
}

transfer* transfers::next_ended() {
  transfer* const ended = engine_.next_ended();
  if (ended == nullptr) return nullptr;
  --under_way_;
  ended->submitted = false;
  ended->in_flight = {};
  ended->job.gates.clear();
  return ended;
}

std::uint64_t transfers::first_open_step() const noexcept {
  auto first = std::numeric_limits<std::uint64_t>::max();
  for (auto const& t : records_) {
    if (t->submitted) first = std::min(first, t->owner.saved_in_step);
  }
  return first;
}

std::size_t transfers::coming_bytes() const noexcept {
  std::size_t sum = 0;
  if (under_way_ == 0) return sum;
  for (auto const& t : records_) {
    bool const comes = t->submitted && t->job.direction == copy_direction::host_to_device && !t->cancel;
    if (comes) sum += t->job.bytes - t->arrived_bytes;
  }
  return sum;
}

entry* transfers::next_deferred(std::size_t free_bytes) noexcept {
  if (deferred_.empty() || deferred_.front().bytes > free_bytes) return nullptr;
  entry& e = deferred_.front();
  deferred_.pop_front();
  return &e;
}

void transfers::begin_step() {
  std::uint64_t const total = engine_.counters(copy_direction::device_to_host).transfers +
                              engine_.counters(copy_direction::host_to_device).transfers;
  engine_.set_alert(std::exchange(total_before_step_, total) != total);
}

}  // namespace ferry::path
