// A stream of the sim device; see sim_stream.hpp for ownership and order.
#include "device/sim_stream.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ferry {

event_status sim_ticket::status() const noexcept {
  return stream == nullptr ? event_status::complete : stream->status(sequence);
}

event_status sim_stream::status(std::uint64_t sequence) const noexcept {
  if (completed_ < sequence) return event_status::pending;
  return failed_at(sequence) ? event_status::failed : event_status::complete;
}

sim_task sim_stream::pop() {
  sim_task taken = std::move(queue_.front());
  queue_.pop_front();
  ++completed_;
  under_way = false;
  return taken;
}

void sim_stream::fail_head(sim_cause why) {
  failed_.push_back({completed_ + 1, std::numeric_limits<std::uint64_t>::max(), std::move(why)});
}

sim_cause const* sim_stream::failure_at(std::uint64_t sequence) const noexcept {
  auto const found = std::ranges::find_if(
      failed_, [&](failed_range const& range) { return range.from <= sequence && sequence < range.to; });
  return found != failed_.end() ? &found->why : nullptr;
}

sim_cause const* sim_stream::unreported(std::uint64_t sequence) const noexcept {
  auto const found = std::ranges::find_if(
      failed_, [&](failed_range const& range) { return !range.why.reported && range.from <= sequence; });
  return found != failed_.end() ? &found->why : nullptr;
}

void sim_stream::recover() {
  if (failed_.empty() || failed_.back().why.reported) return;
  // A number of its own ends the range, so that an event recorded next lies outside of it.
  ++completed_;
  failed_.back().to = completed_;
  failed_.back().why.reported = true;
}

}  // namespace ferry
