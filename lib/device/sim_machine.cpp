// The sim device's streams, engines and clock; see sim_machine.hpp for ownership, order and threads.
#include "device/sim_machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "device/link.hpp"
#include "ferry/error.hpp"

namespace ferry {

using std::chrono::nanoseconds;

sim_pace::stretch sim_pace::at(nanoseconds when) const {
  stretch now;
  for (auto const& each : slow_downs_) {
    if (each.from <= when && when < each.until) now.factor *= each.factor;
    for (auto const border : {each.from, each.until}) {
      if (border > when) now.until = std::min(now.until, border);
    }
  }
  return now;
}

nanoseconds sim_pace::end_of(nanoseconds start, nanoseconds span) const {
  auto left = static_cast<double>(span.count());  // at full speed
  auto when = start;
  for (;;) {
    auto const [factor, change] = at(when);
    if (std::isfinite(factor)) {
      if (factor == 1 && change == sim_slow_down::never && when == start) return start + span;
      double const needed = left * factor;
      auto const most = static_cast<double>((sim_slow_down::never - when).count());
      if (needed < most && when + nanoseconds(std::llround(needed)) <= change) {
        return when + nanoseconds(std::llround(needed));
      }
      if (change == sim_slow_down::never) return change;
      left = std::max(0.0, left - static_cast<double>((change - when).count()) / factor);
    }
    if (change == sim_slow_down::never) return change;
    when = change;
  }
}

double sim_pace::done_ns(nanoseconds from, nanoseconds until) const {
  double done = 0;
  while (from < until) {
    auto const [factor, change] = at(from);
    auto const next = std::min(until, change);
    done += static_cast<double>((next - from).count()) / factor;
    from = next;
  }
  return done;
}

void sim_machine::set_link(copy_direction direction, link_speed speed) {
  link_of(direction).speed = checked_speed(speed);
}

sim_machine::sim_machine(link_speed device_to_host, link_speed host_to_device, contention beside, bool recalls_copies)
    : recalls_copies_(recalls_copies), beside_(checked_contention(beside)), contended_(beside.any()) {
  set_link(copy_direction::device_to_host, device_to_host);
  set_link(copy_direction::host_to_device, host_to_device);
}

sim_stream& sim_machine::add_stream(label const& name) {
  auto& added = streams_.emplace_back(name);
  open_.push_back(&added);
  return added;
}

void sim_machine::close(sim_stream& stream, std::string const& why_dropped) {
  settle_pace();
  if (!stream.idle()) {
    if (!stream.poisoned()) stream.fail_head({stream.head().name.str(), why_dropped});
    while (!stream.idle()) skip_head(stream);
    for (auto const direction : {copy_direction::device_to_host, copy_direction::host_to_device}) {
      auto& link = link_of(direction);
      std::erase(link.ready, &stream);
      if (link.copying == &stream) link.copying = nullptr;
      start_copy(link);
    }
  }
  stream.closed = true;
  std::erase(open_, &stream);
  start_all();
}

sim_event& sim_machine::add_event(event_timing timing) {
  if (spare_events_.empty()) {
    spare_events_.reserve(events_.size() + 1);  // so that removing an event never allocates
    spare_events_.push_back(&events_.emplace_back());
  }
  auto& added = *spare_events_.back();
  spare_events_.pop_back();
  added.timing = timing;
  return added;
}

void sim_machine::remove_event(sim_event& removed) noexcept {
  removed.mark = {};  // a stamp still queued finds another mark and leaves the event alone
  removed.stamp.reset();
  spare_events_.push_back(&removed);
}

void sim_machine::enqueue(sim_stream& stream, sim_task&& task) {
  stream.push(std::move(task));
  start_all();
}

void sim_machine::record(sim_event& event, sim_stream& stream) {
  event.stamp.reset();
  bool const timed = event.timing == event_timing::on;
  event.mark = {&stream, stream.submitted() + (timed ? 1 : 0)};
  if (timed) enqueue(stream, {{}, sim_stamp{&event}});
}

void sim_machine::wait(sim_stream& stream, sim_event const& event) {
  if (event.mark.stream == &stream || event.mark.status() == event_status::complete) return;
  enqueue(stream, {{}, sim_wait{event.mark}});
}

sim_stream* sim_machine::next(std::chrono::nanoseconds latest) {
  while (!happenings_.empty() && happenings_.top().is_stale()) happenings_.pop();
  if (happenings_.empty() || happenings_.top().when > latest) {
    if (latest != std::chrono::nanoseconds::max()) now_ns_.store(latest.count(), std::memory_order_relaxed);
    return nullptr;
  }
  auto const first = happenings_.top();
  happenings_.pop();
  now_ns_.store(first.when.count(), std::memory_order_relaxed);
  return first.stream;
}

sim_operation sim_machine::operation_of(sim_stream& stream) const {
  auto const& task = stream.head();
  auto const* const copy = std::get_if<sim_copy>(&task.work);
  return {.name = task.name,
          .stream = stream.name(),
          .where = engine_of(task),
          .bytes = copy != nullptr ? copy->bytes : 0,
          .start = stream.began,
          .end = stream.over};
}

bool sim_machine::failure_is_due(label const& name) {
  bool due = false;
  std::erase_if(failures_, [&](sim_failure& each) {
    if (!each.name.empty() && each.name != name) return false;
    if (--each.nth > 0) return false;
    due = true;
    return true;
  });
  return due;
}

void sim_machine::finish(sim_stream& stream, std::optional<std::string> const& cause) {
  if (cause && !stream.poisoned()) {  // one failure covers the next, until it is reported
    stream.fail_head({stream.head().name.str(), fmt::format("the operation '{}' failed on the stream '{}': {}",
                                                            stream.head().name.view(), stream.name().view(), *cause)});
  }
  settle_pace();
  auto const over = stream.pop();
  if (auto const* const copy = std::get_if<sim_copy>(&over.work)) {
    auto& link = link_of(copy->direction);
    link.copying = nullptr;
    link.next_free = now();
    start_copy(link);
  }
  start_all();
}

void sim_machine::slow_down(sim_slow_down const& added) {
  if (!(added.factor > 0)) {
    throw invalid_argument(
        fmt::format("a slow-down by a factor of {} is impossible; pass one above zero", added.factor));
  }
  pace_of(added.what).add(added);
}

void sim_machine::fail(sim_failure const& added) {
  if (added.nth == 0) throw invalid_argument("operations that fail are counted from one; pass an nth of one or more");
  failures_.push_back(added);
}

// What can begin now, does.

void sim_machine::start_all() {
  settle_pace();
  for (bool moved = true; moved;) {
    moved = false;
    for (auto* const stream : open_) moved |= start(*stream);
  }
  predict_ends();
}

/// Moves the stream on as far as it goes without time. True if it passed anything that others may wait for.
bool sim_machine::start(sim_stream& stream) {
  bool passed = false;
  while (!stream.idle() && !stream.under_way) {
    sim_task& head = stream.head();
    if (auto* const wait = std::get_if<sim_wait>(&head.work)) {
      // Work is skipped behind a failure, waits are not: a failed mark promises that all before it is over.
      if (wait->mark.status() == event_status::pending) return passed;
      auto const* const why = wait->mark.stream->failure_at(wait->mark.sequence);
      if (why != nullptr && !stream.poisoned()) {
        stream.fail_head(
            {why->operation, fmt::format("{}; the stream '{}' waited for it", why->message, stream.name().view())});
      }
    } else if (stream.poisoned() && (recalls_copies_ || !std::holds_alternative<sim_copy>(head.work))) {
      // Skipped below.
    } else if (auto* const stamp = std::get_if<sim_stamp>(&head.work)) {
      if (stamp->event->mark == sim_ticket{&stream, stream.completed() + 1}) stamp->event->stamp = now();
    } else if (auto* const launch = std::get_if<sim_launch>(&head.work)) {
      begin(stream, now(), launch->cost);
      return passed;
    } else {
      auto& link = link_of(std::get<sim_copy>(head.work).direction);
      stream.under_way = true;
      stream.began = now();  // ready; `start_copy` says when it begins
      link.ready.push_back(&stream);
      start_copy(link);
      return passed;
    }
    skip_head(stream);
    passed = true;
  }
  return passed;
}

void sim_machine::start_copy(link_state& link) {
  if (link.copying != nullptr || link.ready.empty()) return;
  auto& stream = *link.ready.front();
  link.ready.pop_front();
  link.copying = &stream;
  using moment = link_clock::time_point;
  auto const slot = schedule_copy(link.speed, moment(stream.began), moment(link.next_free),
                                  std::get<sim_copy>(stream.head().work).bytes);
  begin(stream, slot.start.time_since_epoch(), slot.end - slot.start);
}

void sim_machine::begin(sim_stream& stream, nanoseconds start, nanoseconds span) {
  stream.under_way = true;
  stream.began = start;
  stream.over = pace_of(engine_of(stream.head())).end_of(start, span);
  stream.order = ++begun_;
  stream.left_ns = static_cast<double>(span.count());
  if (stream.over != sim_slow_down::never) happenings_.push({stream.over, stream.order, &stream});
}

// What runs beside something else. Where nothing disturbs anything, ends are known from the beginning.

/// Not a copy that waits for the link.
bool sim_machine::is_running(sim_stream& stream) {
  if (stream.idle() || !stream.under_way) return false;
  auto const* const copy = std::get_if<sim_copy>(&stream.head().work);
  return copy == nullptr || link_of(copy->direction).copying == &stream;
}

/// Of the head's speed, what is left of it beside what the links are doing.
double sim_machine::rate_of(sim_stream& stream) {
  bool const out = link_of(copy_direction::device_to_host).copying != nullptr;
  bool const back = link_of(copy_direction::host_to_device).copying != nullptr;
  switch (engine_of(stream.head())) {
    case sim_engine::device_to_host:
      return back ? beside_.out_beside_back : 1;
    case sim_engine::host_to_device:
      return out ? beside_.back_beside_out : 1;
    case sim_engine::compute:
      break;
  }
  return beside_.of_compute(out, back);
}

void sim_machine::settle_pace() {
  if (!contended_ || paced_since_ == now()) return;
  for (auto* const stream : open_) {
    if (!is_running(*stream)) continue;
    auto const since = std::max(paced_since_, stream->began);
    stream->left_ns -= pace_of(engine_of(stream->head())).done_ns(since, now()) * rate_of(*stream);
  }
  paced_since_ = now();
}

/// If what is under way stays what it is.
void sim_machine::predict_ends() {
  if (!contended_) return;
  for (auto* const stream : open_) {
    if (!is_running(*stream)) continue;
    nanoseconds const left(std::llround(std::max(0.0, stream->left_ns) / rate_of(*stream)));
    auto const end = pace_of(engine_of(stream->head())).end_of(now(), left);
    if (end == std::exchange(stream->over, end)) continue;
    stream->order = ++begun_;
    if (end != sim_slow_down::never) happenings_.push({end, stream->order, stream});
  }
}

void sim_machine::skip_head(sim_stream& stream) {
  auto skipped = stream.pop();
  if (auto* const launch = std::get_if<sim_launch>(&skipped.work)) dropped_.push_back(std::move(launch->work));
}

sim_engine sim_machine::engine_of(sim_task const& task) noexcept {
  auto const* const copy = std::get_if<sim_copy>(&task.work);
  if (copy == nullptr) return sim_engine::compute;
  return copy->direction == copy_direction::device_to_host ? sim_engine::device_to_host : sim_engine::host_to_device;
}

// In words.

std::string sim_machine::describe_waiting() const {
  std::string all;
  for (auto const* const stream : open_) {
    if (stream->idle()) continue;
    if (!all.empty()) all += "; ";
    all += fmt::format("the stream '{}' {}", stream->name().view(), describe_waiting(*stream));
  }
  return all.empty() ? "no stream has any work left" : all;
}

std::string sim_machine::describe_waiting(sim_stream const& stream) const {
  auto const& head = stream.task(stream.completed() + 1);
  if (auto const* const wait = std::get_if<sim_wait>(&head.work)) {
    auto const& other = *wait->mark.stream;
    auto const& last = other.task(wait->mark.sequence).name;
    return fmt::format("waits for the stream '{}'{}", other.name().view(),
                       last.empty() ? std::string() : fmt::format(", up to '{}'", last.view()));
  }
  auto const* const copy = std::get_if<sim_copy>(&head.work);
  if (copy == nullptr) return fmt::format("stands still in '{}'", head.name.view());
  auto const& link = links_[static_cast<std::size_t>(copy->direction)];
  char const* const way = copy->direction == copy_direction::device_to_host ? "device to host" : "host to device";
  if (link.copying == &stream) return fmt::format("stands still in the copy '{}' from {}", head.name.view(), way);
  return fmt::format("waits with the copy '{}' for the link from {}", head.name.view(), way);
}

}  // namespace ferry
