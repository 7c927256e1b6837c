#include "path/transfer_engine.hpp"

#include <pthread.h>
#define XXH_INLINE_ALL  // in headers as a whole: nothing to link
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ferry/error.hpp"
#include "support/pause.hpp"

namespace ferry::path {

namespace {

void add(std::atomic<double>& to, double amount) {
  to.store(to.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}
void add(std::atomic<std::uint64_t>& to, std::uint64_t amount) { to.fetch_add(amount, std::memory_order_relaxed); }

std::uint64_t checksum_of(std::span<device_view const> pieces, order_hooks* listener) {
  if (listener != nullptr) {
    for (auto const& piece : pieces) listener->host_access(reads(piece.address, piece.bytes), "checksum");
  }
  if (pieces.size() == 1) return XXH3_64bits(pieces[0].address, pieces[0].bytes);
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> const state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (auto const& piece : pieces) XXH3_64bits_update(state.get(), piece.address, piece.bytes);
  return XXH3_64bits_digest(state.get());
}

/// Where a copy goes on, and how far from there both sides lie in one piece.
struct copy_place {
  std::byte* to;
  std::byte const* from;
  std::size_t bytes;
};
copy_place place_of(store::transfer_job const& job, std::size_t done) {
  auto* to = static_cast<std::byte*>(job.to);
  auto const* from = static_cast<std::byte const*>(job.from);
  if (job.pieces.empty()) return {to + done, from + done, job.bytes - done};
  std::size_t inside = done;
  auto piece = job.pieces.begin();
  for (; inside >= piece->bytes; ++piece) inside -= piece->bytes;
  auto* const on_device = static_cast<std::byte*>(piece->address) + inside;
  std::size_t const left = piece->bytes - inside;
  if (job.direction == copy_direction::device_to_host) return {to + done, on_device, left};
  return {on_device, from + done, left};
}

}  // namespace

transfer_engine::copy_lane::copy_lane(device& on, copy_direction which, label const& name)
    : direction(which), copies(on, stream_kind::copy, name) {
  // One more than can be in flight, so that the mark of the chunk before stands while it is asked for.
  ring.reserve(max_chunks_ahead + 1);
  for (std::size_t i = 0; i <= max_chunks_ahead; ++i) ring.emplace_back(on);
  waiting.reserve(queue_capacity);
}

void transfer_engine::copy_lane::expect(double gbps, double share_beside) noexcept {
  estimate.expect_share(share_beside);
  counters.share_beside.store(estimate.share_beside(), std::memory_order_relaxed);
  if (gbps <= 0) return;
  estimate.expect(1e3 * gbps);
  counters.bytes_per_us.store(estimate.bytes_per_us(), std::memory_order_relaxed);
}

transfer_engine::transfer_engine(device& on, engine_options options)
    : device_(on),
      listener_(on.order()),
      time_(on.time()),
      options_(options),
      d2h_(on, copy_direction::device_to_host, "ferry d2h"),
      h2d_(on, copy_direction::host_to_device, "ferry h2d"),
      link_(on, d2h_.counters, h2d_.counters, time_ != nullptr && time_->is_punctual()) {
  auto const& has = on.capabilities();
  options_.checksum &= has.holds_bytes;
  d2h_.expect(has.device_to_host_gbps, has.beside.out_beside_back);
  h2d_.expect(has.host_to_device_gbps, has.beside.back_beside_out);
  if (time_ != nullptr) {
    time_->add(*this);
  } else {
    thread_ = std::thread([this] { run(); });
  }
}

transfer_engine::~transfer_engine() {
  stopping_.store(true);
  if (time_ != nullptr) {
    stop_acting();
  } else {
    stop_thread();
  }
}

void transfer_engine::tell_listener(transfer_event what, transfer const& t) const {
  auto const phase = t.phase.load(std::memory_order_relaxed);
  bool const out = t.job.direction == copy_direction::device_to_host;
  bool const some = t.progress.chunks_in_flight > 0;
  listener_->met(out ? "offload" : "fetch",
                 phase == transfer_phase::queued    ? "queued"
                 : phase == transfer_phase::issued  ? "issued"
                 : phase == transfer_phase::stopped ? "stopped"
                                                    : "ended",
                 to_string(what), some ? "chunks in flight" : "nothing in flight");
}

void transfer_engine::stop_acting() noexcept {
  try {
    for (time_->settle(); !nothing_under_way(); time_->pass_time()) {
    }
  } catch (error const&) {
    // What is in flight will never arrive; the device says so when it drops the stream.
  }
  time_->remove(*this);
}

void transfer_engine::stop_thread() {
  set_alert(true);
  // The engine may be waiting for room among the ended.
  while (!exited_.load()) {
    while (next_ended() != nullptr) {
    }
    nap(std::chrono::microseconds(20));
  }
  thread_.join();
}

void transfer_engine::submit(transfer& submitted) {
  if (listener_ != nullptr) listener_->hand_over(&submissions_);
  if (time_ != nullptr) {
    submissions_.push(&submitted);  // every submission is accepted at once, so there is room
    time_->settle();
    return;
  }
  while (!submissions_.push(&submitted)) nap(std::chrono::microseconds(20));
  submitted_.fetch_add(1);
  wake_.ring();
}

std::size_t transfer_engine::chunks_ahead(copy_direction direction) const noexcept {
  // Waking up takes tens of microseconds, on a busy machine several times that; no time at all where it is punctual.
  if (link_.is_punctual()) return 2;
  constexpr double cover_us = 1000;
  double const bytes_per_us = counters(direction).bytes_per_us.load(std::memory_order_relaxed);
  if (bytes_per_us <= 0) return first_chunks_ahead;
  double const chunks = std::ceil(cover_us * bytes_per_us / static_cast<double>(options_.chunk_bytes));
  return 1 + static_cast<std::size_t>(std::clamp(chunks, 1.0, static_cast<double>(max_chunks_ahead - 1)));
}

transfer* transfer_engine::next_ended() {
  if (time_ != nullptr) time_->settle();
  transfer* ended = nullptr;
  if (!ended_.pop(ended)) return nullptr;
  if (listener_ != nullptr) listener_->take_over(&ended_);
  return ended;
}

void transfer_engine::set_alert(bool alert) {
  alert_.store(alert);
  if (alert) wake_.ring();
}

void transfer_engine::run() {
  pthread_setname_np(pthread_self(), "ferry-transfers");
  sharpen_sleep();  // the default slack of 50 us would let the link run dry
  while (!(stopping_.load(std::memory_order_relaxed) && nothing_under_way())) {
    if (progress()) {
      idle_nap_us_ = shortest_idle_nap_us;
    } else {
      rest();
    }
  }
  exited_.store(true);
}

bool transfer_engine::act() {
  std::uint64_t const before = finished_;
  bool moved = progress();
  while (!ended_late_.empty() && ended_.push(ended_late_.front())) {
    ended_late_.pop_front();
    moved = true;
  }
  return moved || finished_ != before;
}

bool transfer_engine::progress() {
  bool moved = accept_submissions();
  for (auto* lane : {&d2h_, &h2d_}) {
    moved |= reap(*lane);
    moved |= handle_cancellations(*lane);
    moved |= issue(*lane);
  }
  return moved;
}

bool transfer_engine::accept_submissions() {
  bool any = false;
  transfer* submitted = nullptr;
  while (submissions_.pop(submitted)) {
    if (listener_ != nullptr) listener_->take_over(&submissions_);
    auto& lane = submitted->job.direction == copy_direction::device_to_host ? d2h_ : h2d_;
    met(transfer_event::accepted, *submitted);
    lane.waiting.push_back(submitted);
    ++accepted_;
    any = true;
  }
  return any;
}

bool transfer_engine::reap(copy_lane& lane) {
  bool any = false;
  while (lane.in_flight > 0) {
    chunk& oldest = lane.ring[lane.first];
    auto const status = device_.query(oldest.mark());
    if (status == event_status::pending) break;
    lane.first = (lane.first + 1) % lane.ring.size();
    --lane.in_flight;
    --oldest.of->progress.chunks_in_flight;
    lane.counters.in_flight_bytes.fetch_sub(oldest.bytes, std::memory_order_relaxed);
    auto const now = device_.now();
    double const beside = share_beside_other(lane, now);
    if (lane.in_flight == 0) lane.work.end(now);
    copies_next(lane, now);
    if (status == event_status::complete) {
      learn_speed(lane, oldest, beside);
      chunk_arrived(lane, oldest);
    } else {
      met(transfer_event::chunk_failed, *oldest.of);
      lane.failing = true;
      if (std::ranges::find(lane.failed, oldest.of) == lane.failed.end()) lane.failed.push_back(oldest.of);
    }
    any = true;
  }
  if (lane.failing && lane.in_flight == 0) recover(lane);
  return any;
}

/// By the device's own marks: when the engine gets to look says nothing about the link.
void transfer_engine::learn_speed(copy_lane& lane, chunk const& arrived, double beside) {
  auto const index = static_cast<std::size_t>(&arrived - lane.ring.data());
  chunk const& before = lane.ring[(index + lane.ring.size() - 1) % lane.ring.size()];
  if (!arrived.met_idle_link && !before.is_still_marked()) return;
  double took_us = 0;
  try {
    took_us = device_.elapsed_us(arrived.met_idle_link ? arrived.begin.ref() : before.mark(), arrived.mark());
  } catch (error const&) {
    return;  // the copy is none the worse for it
  }
  add(lane.counters.busy_us, took_us);
  lane.estimate.arrived(arrived.bytes, took_us, arrived.met_idle_link, beside);
  lane.counters.bytes_per_us.store(lane.estimate.bytes_per_us(), std::memory_order_relaxed);
  lane.counters.latency_us.store(lane.estimate.latency_us(), std::memory_order_relaxed);
  lane.counters.share_beside.store(lane.estimate.share_beside(), std::memory_order_relaxed);
}

/// Of the time that the oldest chunk in flight has taken, that in which the other direction was at work.
double transfer_engine::share_beside_other(copy_lane const& lane, std::chrono::nanoseconds now) const noexcept {
  if (now <= lane.copying_since) return 0;
  auto const beside = other_than(lane).work.until(now) - lane.other_worked;
  return static_cast<double>(beside.count()) / static_cast<double>((now - lane.copying_since).count());
}

/// The oldest chunk in flight is the one that the link is at, from now on.
void transfer_engine::copies_next(copy_lane& lane, std::chrono::nanoseconds now) noexcept {
  bool const any = lane.in_flight > 0;
  lane.copying_since = now;
  lane.other_worked = other_than(lane).work.until(now);
  lane.counters.copying_bytes.store(any ? lane.ring[lane.first].bytes : 0, std::memory_order_relaxed);
  lane.counters.copying_since_ns.store(any ? now.count() : 0, std::memory_order_relaxed);
}

void transfer_engine::chunk_arrived(copy_lane& lane, chunk& arrived) {
  auto const now = device_.now();
  auto const started = std::max(arrived.issued, lane.last_completion);
  lane.last_completion = now;
  add(lane.counters.chunks, 1);
  add(lane.counters.bytes, arrived.bytes);

  transfer& t = *arrived.of;
  std::size_t const before = t.arrived_bytes.load(std::memory_order_relaxed);
  if (before == 0) t.result.copying_since = started;
  t.result.copying_until = now;
  std::size_t const total = before + arrived.bytes;
  met(total == t.job.bytes ? transfer_event::last_chunk_arrived : transfer_event::chunk_arrived, t);
  t.arrived_bytes.store(total, std::memory_order_release);
  t.result.moved_us = microseconds_of(now - t.progress.began);
  if (total == t.job.bytes) {
    finish(t, verify(t) ? transfer_phase::completed : transfer_phase::failed);
  } else if (t.progress.chunks_in_flight == 0 && t.phase.load(std::memory_order_relaxed) == transfer_phase::stopped) {
    finish(t, transfer_phase::abandoned);
  }
}

bool transfer_engine::verify(transfer& arrived) {
  if (!options_.checksum) return true;
  bool const offload = arrived.job.direction == copy_direction::device_to_host;
  auto const hash = [&](void const* address) {
    auto const& job = arrived.job;
    bool const scattered = !job.pieces.empty() && address == (offload ? job.from : job.to);
    device_view const whole{const_cast<void*>(address), job.bytes};
    return checksum_of(scattered ? job.pieces : std::span(&whole, 1), listener_);
  };
  bool const sees_device = device_.capabilities().host_addressable;
  arrived.result.checksum = hash(offload || sees_device ? arrived.job.to : arrived.job.from);
  std::uint64_t const expected =
      !offload ? arrived.job.expected_checksum : (sees_device ? hash(arrived.job.from) : arrived.result.checksum);
  if (arrived.result.checksum == expected) return true;
  met(transfer_event::checksum_wrong, arrived);
  arrived.result.failure = "the checksum of the copy does not match (FERRY_VERIFY=checksum)";
  return false;
}

void transfer_engine::recover(copy_lane& lane) {
  std::string why = "a copy failed";
  try {
    device_.synchronize(lane.copies);
  } catch (error const& e) {
    why = e.what();
  }
  lane.failing = false;
  for (transfer* t : lane.failed) {
    met(transfer_event::drained, *t);
    std::erase(lane.waiting, t);
    if (t->result.failure.empty()) t->result.failure = why;
    finish(*t, transfer_phase::failed);
  }
  lane.failed.clear();
}

bool transfer_engine::handle_cancellations(copy_lane& lane) {
  if (lane.failing) return false;  // `recover` ends what failed, and must not find it ended already
  bool const all = stopping_.load(std::memory_order_relaxed);
  return std::erase_if(lane.waiting, [&](transfer* t) {
           if (!all && !t->cancel.load(std::memory_order_acquire)) return false;
           met(t->progress.chunks_in_flight == 0 ? transfer_event::called_off_unsent
                                                 : transfer_event::called_off_in_flight,
               *t);
           if (t->progress.chunks_in_flight == 0) {
             finish(*t, transfer_phase::abandoned);
           } else {
             stop(lane, *t);
           }
           return true;
         }) > 0;
}

/// No more of it is issued; whoever takes over its bytes is ordered after the chunks in flight.
void transfer_engine::stop(copy_lane& lane, transfer& cancelled) {
  try {
    record_done(lane, cancelled);
    cancelled.phase.store(transfer_phase::stopped, std::memory_order_release);
  } catch (error const& e) {
    give_up(lane, cancelled, e);
  }
}

void transfer_engine::record_done(copy_lane& lane, transfer& of) {
  device_.record(of.done, lane.copies);
  ++of.progress.times_done;
}

/// Chunks issued earlier may still be under way: `recover` ends the transfer once they are over.
void transfer_engine::give_up(copy_lane& lane, transfer& failed, error const& cause) {
  met(transfer_event::call_refused, failed);
  failed.result.failure = cause.what();
  lane.failing = true;
  lane.failed.push_back(&failed);
}

bool transfer_engine::issue(copy_lane& lane) {
  bool any = false;
  std::size_t const ahead = chunks_ahead(lane.direction);
  while (!lane.failing && lane.in_flight < ahead) {
    transfer* const next = pick(lane);
    if (next == nullptr) break;
    issue_chunk(lane, *next);
    any = true;
  }
  return any;
}

transfer* transfer_engine::pick(copy_lane& lane) {
  transfer* best = nullptr;
  bool best_urgent = false;
  for (std::size_t i = 0; i < lane.waiting.size();) {
    transfer* const t = lane.waiting[i];
    bool const urgent = t->urgent.load(std::memory_order_relaxed);
    bool const sooner =
        best == nullptr || (urgent && !best_urgent) || (urgent == best_urgent && t->job.priority < best->job.priority);
    if (sooner) {
      auto const gate = gates(*t);
      if (gate == event_status::failed) {
        lane.waiting.erase(lane.waiting.begin() + static_cast<std::ptrdiff_t>(i));
        met(transfer_event::producer_failed, *t);
        t->result.failure = "the work that produces the item failed";
        finish(*t, transfer_phase::failed);
        continue;
      }
      if (gate == event_status::complete) {
        best = t;
        best_urgent = urgent;
      }
    }
    ++i;
  }
  return best;
}

event_status transfer_engine::gates(transfer& waiting) {
  if (waiting.progress.gates_passed) return event_status::complete;
  for (auto const& gate : waiting.job.gates) {
    auto const status = device_.query(gate.ref());
    if (status == event_status::pending) return status;
    // Bytes whose last user failed are as free as any; an item whose producer failed is garbage.
    if (status == event_status::failed && waiting.job.direction == copy_direction::device_to_host) return status;
  }
  waiting.progress.gates_passed = true;
  return event_status::complete;
}

void transfer_engine::issue_chunk(copy_lane& lane, transfer& chosen) {
  auto const now = device_.now();
  if (chosen.issued_bytes == 0) chosen.progress.began = now;
  std::size_t const size = lane.ring.size();
  chunk& next = lane.ring[(lane.first + lane.in_flight) % size];
  chunk const& newest = lane.ring[(lane.first + lane.in_flight + size - 1) % size];
  next.of = &chosen;
  auto const at = place_of(chosen.job, chosen.issued_bytes);
  next.bytes = std::min(options_.chunk_bytes, at.bytes);
  next.issued = now;
  next.met_idle_link = lane.in_flight == 0 || device_.query(newest.mark()) != event_status::pending;
  next.is_last = chosen.issued_bytes + next.bytes == chosen.job.bytes;
  try {
    if (next.met_idle_link) device_.record(next.begin, lane.copies);
    device_.copy(lane.copies, chosen.job.name, lane.direction, at.to, at.from, next.bytes);
    if (next.is_last) {
      record_done(lane, chosen);
    } else {
      device_.record(next.own_mark, lane.copies);
    }
    next.times_done = chosen.progress.times_done;
  } catch (error const& e) {
    give_up(lane, chosen, e);
    return;
  }
  met(next.is_last ? transfer_event::last_chunk_issued : transfer_event::chunk_issued, chosen);
  chosen.issued_bytes.store(chosen.issued_bytes + next.bytes, std::memory_order_relaxed);
  ++chosen.progress.chunks_in_flight;
  if (lane.in_flight++ == 0) {
    lane.work.begin(now);
    copies_next(lane, now);
  }
  lane.counters.in_flight_bytes.fetch_add(next.bytes, std::memory_order_relaxed);
  if (next.is_last) {
    std::erase(lane.waiting, &chosen);
    chosen.phase.store(transfer_phase::issued, std::memory_order_release);
  }
}

void transfer_engine::finish(transfer& ended, transfer_phase how) {
  auto& counters = (ended.job.direction == copy_direction::device_to_host ? d2h_ : h2d_).counters;
  add(how == transfer_phase::completed   ? counters.transfers
      : how == transfer_phase::abandoned ? counters.abandoned
                                         : counters.failed,
      1);
  ++finished_;
  if (listener_ != nullptr) listener_->hand_over(&ended_);
  ended.phase.store(how, std::memory_order_release);
  if (time_ != nullptr) {
    if (!ended_late_.empty() || !ended_.push(&ended)) ended_late_.push_back(&ended);
    return;
  }
  while (!ended_.push(&ended)) nap(std::chrono::microseconds(20));
}

bool transfer_engine::nothing_under_way() const noexcept {
  return d2h_.waiting.empty() && h2d_.waiting.empty() && d2h_.in_flight == 0 && h2d_.in_flight == 0 && !d2h_.failing &&
         !h2d_.failing;
}

void transfer_engine::rest() {
  if (!alert_.load() && nothing_under_way()) {
    wake_.wait([this] { return alert_.load() || submitted_.load() != accepted_; });
    return;
  }
  for (int i = 0; i < 100; ++i) {
    if (submissions_.read_available() != 0) return;
    relax_cpu();
  }
  // Half of what a lane has in hand keeps it fed, but an arrival should not go unnoticed for long. The longer nothing
  // is under way, the less likely is something now. Each look takes a core from the computation.
  constexpr double longest_busy_nap_us = 500;
  double nap_us = idle_nap_us_;
  idle_nap_us_ = std::min(2 * idle_nap_us_, longest_idle_nap_us);
  for (auto const* lane : {&d2h_, &h2d_}) {
    if (lane->in_flight == 0) continue;
    double const rate = lane->counters.bytes_per_us.load(std::memory_order_relaxed);
    double const in_hand = static_cast<double>(lane->in_flight * options_.chunk_bytes);
    nap_us = std::min(nap_us, rate > 0 ? std::min(0.5 * in_hand / rate, longest_busy_nap_us) : 20.0);
  }
  nap(std::chrono::microseconds(static_cast<long>(std::max(nap_us, 10.0))));
}

}  // namespace ferry::path
