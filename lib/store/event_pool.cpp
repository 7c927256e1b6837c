#include "store/event_pool.hpp"

#include "ferry/error.hpp"

namespace ferry::store {

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

event_handle event_pool::record_if_alive(stream_ref stream, event_timing timing) noexcept {
  try {
    return record(stream, timing);
  } catch (error const&) {
  }
  try {
    // Without a mark its work must be over: a stream that was destroyed has none left, any other is waited for.
    device_.synchronize(stream);
  } catch (error const&) {
    // It failed, or the device is lost: in either case nothing of it runs any more, or ever can be followed by others.
  }
  return {};
}

}  // namespace ferry::store
