// CUDA's streams and events.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "resolve.hpp"

namespace cudasim {

namespace {

cudaError_t create_stream(cudaStream_t* result, unsigned flags, int priority = 0) {
  emulation& own = sim();
  if (result == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) return cudaErrorInvalidValue;
  device_state& on = *own.device(this_thread().device);
  *result = own.streams.create(on, *own.work);
  own.streams.find(*result)->priority = priority;
  return cudaSuccess;
}

void pass_virtual_time(virtual_duration seen) { this_thread().now = std::max(this_thread().now, seen); }

/// The thread sees all work of the stream done.
void see(stream_state& stream) {
  stream.line.synchronize();
  std::lock_guard const lock(stream.time_mutex);
  pass_virtual_time(stream.virtual_end);
}

void saw(event_state& event) {
  std::lock_guard const lock(event.time_mutex);
  pass_virtual_time(event.virtual_time);
}

bool forbid_if_capturing(char const* function, stream_state& stream) {
  emulation& own = sim();
  if (own.captures.status(stream) == cudaStreamCaptureStatusNone) return false;
  own.report(fmt::format("forbidden while capturing: {} of the stream {} that captures", function, stream.name.view()));
  own.captures.invalidate(stream);
  return true;
}

/// An event recorded in a capture stands for a point in the graph, which nobody can wait for.
bool forbid_if_captured(char const* function, event_state const& event) {
  emulation& own = sim();
  if (event.capture == 0) return false;
  own.report(fmt::format("forbidden while capturing: {} of an event that was recorded in a capture", function));
  return true;
}

cudaError_t record(cudaEvent_t event_handle, cudaStream_t stream_handle) {
  emulation& own = sim();
  auto const [stream, stream_error] = resolve_stream("cudaEventRecord", stream_handle);
  if (stream_error != cudaSuccess) return stream_error;
  auto const [event, event_error] = resolve_event("cudaEventRecord", event_handle);
  if (event_error != cudaSuccess) return event_error;
  if (event->device != &stream->device) {
    own.report(fmt::format("stream of another device: cudaEventRecord of an event of device {} on the stream {}",
                           event->device->index, stream->name.view()));
    return cudaErrorInvalidResourceHandle;
  }
  event->capture = own.captures.number_of(*stream);
  if (event->capture != 0) return cudaSuccess;
  stream->line.record(*event);
  event->recorded = true;
  if (own.clock.running()) {
    std::scoped_lock const lock(stream->time_mutex, event->time_mutex);
    event->virtual_time = std::max(stream->virtual_end, this_thread().now);
  }
  return cudaSuccess;
}

/// Within a capture order is that of the stream; it cannot depend on anything outside.
cudaError_t wait_in_capture(stream_state& stream, event_state const& event) {
  emulation& own = sim();
  auto const number = own.captures.number_of(stream);
  if (event.capture == number) return cudaSuccess;
  own.report(
      fmt::format("forbidden while capturing: cudaStreamWaitEvent on the stream {} joins captured work with work "
                  "that is not captured",
                  stream.name.view()));
  own.captures.invalidate(stream);
  return cudaErrorStreamCaptureIsolation;
}

cudaError_t wait(cudaStream_t stream_handle, cudaEvent_t event_handle) {
  emulation& own = sim();
  auto const [stream, stream_error] = resolve_stream("cudaStreamWaitEvent", stream_handle);
  if (stream_error != cudaSuccess) return stream_error;
  auto const [event, event_error] = resolve_event("cudaStreamWaitEvent", event_handle);
  if (event_error != cudaSuccess) return event_error;
  if (event->capture != 0 || own.captures.number_of(*stream) != 0) return wait_in_capture(*stream, *event);
  stream->line.wait(*event);
  if (own.clock.running()) {
    std::scoped_lock const lock(stream->time_mutex, event->time_mutex);
    stream->virtual_end = std::max(stream->virtual_end, event->virtual_time);
  }
  return cudaSuccess;
}

cudaError_t query(event_state& event) {
  if (!event.recorded) return cudaSuccess;
  if (!sim().work->saw_end(event)) return cudaErrorNotReady;
  saw(event);
  return event.device->broken.load();
}

cudaError_t synchronize(event_state& event) {
  if (!event.recorded) return cudaSuccess;
  sim().work->await(event);
  saw(event);
  return event.device->broken.load();
}

/// When the event was passed, from any beginning; none if it was not yet.
std::optional<std::chrono::nanoseconds> time_of(event_state& event) {
  auto const stamp = sim().work->stamp(event);
  if (!stamp || !sim().clock.running()) return stamp;
  std::lock_guard const lock(event.time_mutex);
  return event.virtual_time;
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  auto const [from, from_error] = resolve_event("cudaEventElapsedTime", start);
  if (from_error != cudaSuccess) return from_error;
  auto const [to, to_error] = resolve_event("cudaEventElapsedTime", end);
  if (to_error != cudaSuccess) return to_error;
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  if (!from->timed || !to->timed) {
    sim().report("event without timing: cudaEventElapsedTime of an event made with cudaEventDisableTiming");
    return cudaErrorInvalidResourceHandle;
  }
  if (!from->recorded || !to->recorded) return cudaErrorInvalidResourceHandle;
  auto const first = time_of(*from);
  auto const last = time_of(*to);
  if (!first || !last) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*last - *first).count();
  return cudaSuccess;
}

}  // namespace

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return api_call("cudaStreamCreateWithFlags", call_rules{}, [&] { return create_stream(pStream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return api_call("cudaStreamCreateWithPriority", call_rules{},
                  [&] { return create_stream(pStream, flags, priority); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  return api_call("cudaStreamGetPriority", call_rules{}, [&] {
    auto const [stream, error] = resolve_stream("cudaStreamGetPriority", hStream);
    if (error == cudaSuccess && priority != nullptr) *priority = stream->priority;
    return error;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api_call("cudaStreamDestroy", destroying, [&] {
    auto const [found, error] = resolve_stream("cudaStreamDestroy", stream);
    if (found == nullptr || found->handle == nullptr) return cudaErrorInvalidResourceHandle;
    return sim().streams.destroy(stream) ? error : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api_call("cudaStreamSynchronize", waiting, [&] {
    auto const [found, error] = resolve_stream("cudaStreamSynchronize", stream);
    if (found == nullptr) return error;
    if (forbid_if_capturing("cudaStreamSynchronize", *found)) return cudaErrorStreamCaptureUnsupported;
    see(*found);
    return found->device.broken.load();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api_call("cudaStreamQuery", waiting, [&] {
    auto const [found, error] = resolve_stream("cudaStreamQuery", stream);
    if (error != cudaSuccess) return error;
    if (forbid_if_capturing("cudaStreamQuery", *found)) return cudaErrorStreamCaptureUnsupported;
    if (!found->line.idle()) return cudaErrorNotReady;
    see(*found);
    return found->device.broken.load();
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return api_call("cudaStreamWaitEvent", by_handle, [&] { return wait(stream, event); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return api_call("cudaEventCreateWithFlags", call_rules{}, [&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    bool const timed = (flags & cudaEventDisableTiming) == 0;
    *event = sim().events.create(*sim().device(this_thread().device), timed, *sim().work);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_call("cudaEventDestroy", destroying, [&] {
    auto const [found, error] = resolve_event("cudaEventDestroy", event);
    if (found == nullptr) return error;
    return sim().events.destroy(event, *sim().work) ? error : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api_call("cudaEventRecord", by_handle, [&] { return record(event, stream); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api_call("cudaEventQuery", waiting, [&] {
    auto const [found, error] = resolve_event("cudaEventQuery", event);
    if (error != cudaSuccess) return error;
    return forbid_if_captured("cudaEventQuery", *found) ? cudaErrorCapturedEvent : query(*found);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api_call("cudaEventSynchronize", waiting, [&] {
    auto const [found, error] = resolve_event("cudaEventSynchronize", event);
    if (found == nullptr) return error;
    return forbid_if_captured("cudaEventSynchronize", *found) ? cudaErrorCapturedEvent : synchronize(*found);
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return api_call("cudaEventElapsedTime", by_handle, [&] { return elapsed(ms, start, end); });
}

}  // extern "C"
