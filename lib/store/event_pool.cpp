#include "store/event_pool.hpp"

#include "ferry/error.hpp"

namespace ferry::store {

std::optional<double> elapsed_us(device& on, event_handle const& from, event_handle const& to) noexcept {
  try {
    return on.elapsed_us(from.ref(), to.ref());
  } catch (error const&) {
    return std::nullopt;
  }
}

event_handle event_pool::record(stream_ref stream, event_timing timing) {
  auto& idle = idle_[static_cast<std::size_t>(timing)];
  if (idle.empty()) {
    all_.push_back(std::make_unique<pooled_event>(device_, timing));
    all_.back()->home = &idle;
    idle.reserve(all_.size());  // giving an event back must never allocate
    idle.push_back(all_.back().get());
  }
  pooled_event* const taken = idle.back();
  idle.pop_back();
  event_handle handle(taken);
  taken->stream = stream;
  device_.record(taken->mark, stream);
  return handle;
}

event_handle event_pool::record_if_possible(stream_ref stream, event_timing timing) noexcept {
  try {
    return record(stream, timing);
  } catch (error const&) {
    return {};
  }
}

event_handle event_pool::record_if_alive(stream_ref stream, event_timing timing) noexcept {
  try {
    return record(stream, timing);
  } catch (error const&) {
    // Without a mark its work must be over: a stream that was destroyed has none left, any other is waited for. What
    // fails there is not ours to hear of: whoever enqueued it has to be told.
    device_.drain(stream);
    return {};
  }
}

}  // namespace ferry::store
