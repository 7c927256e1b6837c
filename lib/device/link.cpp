// One direction of the host device's link; see link.hpp for ownership, threads and order.
#include "device/link.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "support/pause.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ferry {

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
constexpr bool sanitized = false;
#endif

// Below this a copy fits the cache of whoever reads it next.
constexpr std::size_t streaming_threshold_bytes = std::size_t{128} << 10;

// More than this is not waking up but somebody else's work on the core.
constexpr link_clock::duration longest_wake_up = std::chrono::microseconds(60);

// Bounded, so that an absurdly slow link cannot overflow the clock.
link_clock::duration nanoseconds(double count) noexcept {
  constexpr double most = 1e15;
  return std::chrono::nanoseconds(std::llround(std::min(count, most)));
}

void sleep_until(link_clock::time_point when) noexcept {
  // steady_clock is CLOCK_MONOTONIC; an absolute deadline survives signals and preemption.
  auto const since_epoch = when.time_since_epoch();
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  auto const rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch - seconds);
  timespec const deadline{static_cast<time_t>(seconds.count()), static_cast<long>(rest.count())};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

#if defined(__SSE2__)
// Requires: `to` aligned to 16 bytes, `bytes` a multiple of 64.
void stream_lines(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += 64) {
    auto const* source = reinterpret_cast<__m128i const*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    __m128i const a = _mm_loadu_si128(source);
    __m128i const b = _mm_loadu_si128(source + 1);
    __m128i const c = _mm_loadu_si128(source + 2);
    __m128i const d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // streaming stores are not ordered by the release that announces the copy's end
}
#endif

}  // namespace

link_speed checked_speed(link_speed speed) {
  if (!std::isfinite(speed.gbps) || !std::isfinite(speed.latency_us) || speed.gbps < 0 || speed.latency_us < 0) {
    throw invalid_argument(
        fmt::format("a link of {} GB/s and {} us latency is impossible; set FERRY_LINK_GBPS and FERRY_LINK_LATENCY_US "
                    "to zero or more",
                    speed.gbps, speed.latency_us));
  }
  return speed;
}

contention checked_contention(contention const& beside) {
  for (double const share : {beside.out_beside_back, beside.back_beside_out, beside.compute_beside_out,
                             beside.compute_beside_back, beside.compute_beside_both}) {
    if (share >= contention::least && share <= 1) continue;
    throw invalid_argument(fmt::format("a share of {} of a speed beside something else is impossible; give {} to 1",
                                       share, contention::least));
  }
  return beside;
}

link_slot schedule_copy(link_speed speed, link_clock::time_point ready, link_clock::time_point next_free,
                        std::size_t bytes) noexcept {
  auto const start = std::max(ready, next_free);
  if (speed.gbps <= 0) return {start, start};
  auto const latency = start > next_free ? nanoseconds(speed.latency_us * 1e3) : link_clock::duration::zero();
  // GB/s is bytes per nanosecond.
  return {start, start + latency + nanoseconds(static_cast<double>(bytes) / speed.gbps)};
}

link_clock::time_point end_beside(link_slot alone, std::span<link_slot const> other, double share) noexcept {
  auto at = alone.start;
  auto left = alone.end - alone.start;  // as it would take alone
  for (auto const& busy : other) {
    if (busy.end <= at) continue;
    auto const before = std::max(busy.start - at, link_clock::duration::zero());
    if (before >= left) break;
    at += before;
    left -= before;
    auto const stretched = nanoseconds(static_cast<double>(left.count()) / share);
    if (at + stretched <= busy.end) return at + stretched;
    left -= nanoseconds(static_cast<double>((busy.end - at).count()) * share);
    at = busy.end;
  }
  return at + left;
}

void work_times::begin(link_clock::time_point start) {
  // Copies beside which more gaps than that have been are of no interest to a schedule.
  constexpr std::size_t most = 64;
  std::lock_guard const lock(mutex_);
  if (!latest_.empty() && start <= latest_.back().end) return;
  if (latest_.size() >= most) latest_.erase(latest_.begin());
  latest_.push_back({start, start});
}

void work_times::last_until(link_clock::time_point end) {
  std::lock_guard const lock(mutex_);
  if (!latest_.empty()) latest_.back().end = std::max(latest_.back().end, end);
}

link_clock::time_point work_times::end_beside(link_slot alone, double share) const {
  std::lock_guard const lock(mutex_);
  return ferry::end_beside(alone, latest_, share);
}

link_clock::time_point settle_copy(link_slot scheduled, link_clock::duration moving) noexcept {
  // Measured by the time spent moving, not by the clock: a thread that woke up late to a fast copy still
  // ends on schedule, whereas a link set faster than memory must not collect credit.
  return std::max(scheduled.end, scheduled.start + moving);
}

void copy_bytes(void* to, void const* from, std::size_t bytes) noexcept {
#if defined(__SSE2__)
  // A sanitizer sees every byte of a memcpy, but not streaming stores.
  if (!sanitized && bytes >= streaming_threshold_bytes) {
    auto* target = static_cast<std::byte*>(to);
    auto const* source = static_cast<std::byte const*>(from);
    std::size_t const head = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
    std::size_t const body = (bytes - head) / 64 * 64;
    std::memcpy(target, source, head);
    stream_lines(target + head, source + head, body);
    std::memcpy(target + head + body, source + head + body, bytes - head - body);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

paced_link::paced_link(link_speed speed) : speed_(checked_speed(speed)) {}

link_clock::time_point paced_link::copy(void* to, void const* from, std::size_t bytes, link_clock::time_point ready) {
  std::lock_guard const exclusive(busy_);
  auto const slot = schedule_copy(speed(), ready, next_free_, bytes);
  work_.begin(slot.start);
  work_.last_until(beside_other(slot).end);  // whoever begins now sees it
  auto const begin = link_clock::now();
  copy_bytes(to, from, bytes);
  auto const moved = link_clock::now();
  auto end = settle_copy(beside_other(slot), moved - begin);
  for (auto waited_for = slot.start; waited_for < end;) {
    work_.last_until(end);
    if (link_clock::now() < end) wait_until(end);
    waited_for = end;
    end = std::max(end, settle_copy(beside_other(slot), moved - begin));
  }
  next_free_ = end;
  return end;
}

link_slot paced_link::beside_other(link_slot alone) const {
  return other_ == nullptr ? alone : link_slot{alone.start, other_->end_beside(alone, share_beside_)};
}

void paced_link::disturbed_by(paced_link const& other, double share) noexcept {
  other_ = share < 1 ? &other.work_ : nullptr;
  share_beside_ = share;
}

void paced_link::wait_until(link_clock::time_point when) noexcept {
  // Waking up takes tens of microseconds: get up that much earlier, as learnt from the last times, and look
  // at the clock for what is left.
  auto const alarm = when - wake_up_time_;
  if (link_clock::now() < alarm) {
    sleep_until(alarm);
    auto const late = link_clock::now() - alarm;
    wake_up_time_ = std::min((wake_up_time_ * 7 + late) / 8, longest_wake_up);
  }
  while (link_clock::now() < when) relax_cpu();
}

void paced_link::set_speed(link_speed speed) {
  auto const valid = checked_speed(speed);
  std::lock_guard const lock(speed_mutex_);
  speed_ = valid;
}

void paced_link::set_gbps(double gbps) {
  std::lock_guard const lock(speed_mutex_);
  speed_ = checked_speed({gbps, speed_.latency_us});
}

link_speed paced_link::speed() const {
  std::lock_guard const lock(speed_mutex_);
  return speed_;
}

}  // namespace ferry
