// From what an API call is given to what the emulation has; see resolve.hpp.
#include "resolve.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace cudasim {

resolved<stream_state> resolve_stream(char const* function, cudaStream_t handle) {
  emulation& own = sim();
  bool const is_default = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  if (is_default) {
    own.report(
        fmt::format("default stream: {} uses it, which orders it with work that has nothing to do with it; "
                    "create a stream",
                    function));
    device_state* const device = own.device(this_thread().device);
    if (device == nullptr) return {nullptr, cudaErrorInvalidDevice};
    return {&own.streams.default_of(*device, *own.work), device->broken.load()};
  }
  auto* const found = own.streams.find(handle);
  if (found == nullptr) {
    own.report(fmt::format("invalid handle: {} is given a stream that was destroyed or never made", function));
    return {nullptr, cudaErrorInvalidResourceHandle};
  }
  return {found, found->device.broken.load()};
}

resolved<event_state> resolve_event(char const* function, cudaEvent_t handle) {
  emulation& own = sim();
  auto* const found = own.events.find(handle);
  if (found == nullptr) {
    own.report(fmt::format("invalid handle: {} is given an event that was destroyed or never made", function));
    return {nullptr, cudaErrorInvalidResourceHandle};
  }
  return {found, found->device->broken.load()};
}

ferry::label operation_name(char const* otherwise) {
  if (auto const& announced = this_thread().announced) return announced->name;
  auto const& ranges = this_thread().ranges;
  return ferry::label::truncated(ranges.empty() ? otherwise : std::string_view(ranges.back()));
}

std::string range_text(allocation const& in, void const* address, std::size_t bytes) {
  auto const from = reinterpret_cast<std::uintptr_t>(address) - in.begin;
  return fmt::format("'{}' [+{},+{}), which has {} bytes", in.name.view(), from, from + bytes, in.bytes);
}

located locate(std::string const& what, void const* address, std::size_t bytes) {
  emulation& own = sim();
  auto const found = own.memory.find(address);
  if (!found) return {};
  if (found->freed) {
    own.report(fmt::format("use after free: {} {} and was freed", what, range_text(*found, address, bytes)));
    return {std::nullopt, true};
  }
  if (bytes > found->end() - reinterpret_cast<std::uintptr_t>(address)) {
    own.report(fmt::format("out of range: {} {}", what, range_text(*found, address, bytes)));
    return {std::nullopt, true};
  }
  return {found, false};
}

}  // namespace cudasim
