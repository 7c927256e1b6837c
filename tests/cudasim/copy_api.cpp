// CUDA's copies, memsets and host functions.
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "resolve.hpp"

namespace cudasim {

namespace {

/// One side of a copy.
struct side {
  std::optional<allocation> in;  ///< none: pageable memory
  [[nodiscard]] bool on_device() const { return in && in->where == space::device; }
};

char const* kind_text(bool from_device, bool to_device) {
  if (from_device) return to_device ? "copy D2D" : "copy D2H";
  return to_device ? "copy H2D" : "copy H2H";
}

bool matches(cudaMemcpyKind kind, bool from_device, bool to_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

char const* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return "cudaMemcpyHostToHost";
    case cudaMemcpyHostToDevice:
      return "cudaMemcpyHostToDevice";
    case cudaMemcpyDeviceToHost:
      return "cudaMemcpyDeviceToHost";
    case cudaMemcpyDeviceToDevice:
      return "cudaMemcpyDeviceToDevice";
    case cudaMemcpyDefault:
      return "cudaMemcpyDefault";
  }
  return "a kind that does not exist";
}

/// The link that the copy goes over; null if it stays on one side.
work_cost cost_of(side const& to, side const& from, std::size_t bytes) {
  if (to.on_device() == from.on_device()) return {};
  bool const down = from.on_device();
  return {work_cost::kind::copy, down ? from.in->device : to.in->device,
          down ? direction::device_to_host : direction::host_to_device, static_cast<double>(bytes)};
}

operation make_copy(ferry::label const& name, void* to, side const& to_side, void const* from, side const& from_side,
                    std::size_t bytes) {
  emulation& own = sim();
  operation result{.name = name, .kind = kind_text(from_side.on_device(), to_side.on_device()), .bytes = bytes};
  if (from_side.in) result.accesses.push_back(ferry::reads(from, bytes));
  if (to_side.in) result.accesses.push_back(ferry::writes(to, bytes));
  result.cost = cost_of(to_side, from_side, bytes);
  gated_link* const link =
      result.cost.what == work_cost::kind::copy ? &own.device(result.cost.device)->link(result.cost.which) : nullptr;
  result.run = [link, bytes, target = own.memory.bytes_at(to), source = own.memory.bytes_at(from)](stream_state& on) {
    if (link != nullptr) {
      on.line.copy(*link, target, source, bytes);
    } else {
      std::memmove(target, source, bytes);
    }
  };
  return result;
}

cudaError_t copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  emulation& own = sim();
  auto const [stream, error] = resolve_stream("cudaMemcpyAsync", handle);
  if (error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;

  auto const name = operation_name("cudaMemcpyAsync");
  auto const source = locate(fmt::format("the copy '{}' reads", name.view()), from, bytes);
  auto const target = locate(fmt::format("the copy '{}' writes", name.view()), to, bytes);
  if (source.wrong || target.wrong) return cudaErrorInvalidValue;
  side const from_side{source.in};
  side const to_side{target.in};
  if (!matches(kind, from_side.on_device(), to_side.on_device())) {
    own.report(fmt::format("wrong copy kind: '{}' is given {} for a {}", name.view(), name_of(kind),
                           kind_text(from_side.on_device(), to_side.on_device())));
    return cudaErrorInvalidValue;
  }
  bool const pageable = !source.in || !target.in;
  if (pageable) {
    own.report(
        fmt::format("pageable asynchronous copy: '{}' {} memory that is neither pinned nor registered, so it is "
                    "not asynchronous",
                    name.view(), !source.in ? "reads" : "writes"));
    if (own.captures.number_of(*stream) != 0) return cudaErrorStreamCaptureUnsupported;
  }
  cudaError_t const result = submit(*stream, make_copy(name, to, to_side, from, from_side, bytes));
  if (pageable) stream->line.await_all();  // as CUDA does, through a buffer of its own
  return result;
}

cudaError_t set(void* address, int value, std::size_t bytes, cudaStream_t handle) {
  emulation& own = sim();
  auto const [stream, error] = resolve_stream("cudaMemsetAsync", handle);
  if (error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  auto const name = operation_name("cudaMemsetAsync");
  auto const found = locate(fmt::format("the memset '{}' writes", name.view()), address, bytes);
  if (!found.in) {
    if (!found.wrong) own.report(fmt::format("host pointer: the memset '{}' writes memory of the host", name.view()));
    return cudaErrorInvalidValue;
  }
  return submit(*stream, {.name = name,
                          .kind = "memset",
                          .accesses = {ferry::writes(address, bytes)},
                          .run = [at = own.memory.bytes_at(address), value, bytes](stream_state&) {
                            std::memset(at, value, bytes);
                          }});
}

/// The thread is in a host function, however that ends.
class host_function_scope {
 public:
  host_function_scope() = default;
  host_function_scope(host_function_scope const&) = delete;
  host_function_scope& operator=(host_function_scope const&) = delete;
  ~host_function_scope() { this_thread().in_host_function = before_; }

 private:
  bool const before_ = std::exchange(this_thread().in_host_function, true);
};

cudaError_t call_host(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  auto const [stream, error] = resolve_stream("cudaLaunchHostFunc", handle);
  if (error != cudaSuccess) return error;
  if (function == nullptr) return cudaErrorInvalidValue;
  operation work{.name = operation_name("cudaLaunchHostFunc"), .kind = "host function"};
  work.cost.what = work_cost::kind::host_function;
  work.run = [function, argument](stream_state&) {
    host_function_scope const inside;
    function(argument);
  };
  return submit(*stream, std::move(work));
}

}  // namespace

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaMemcpyAsync(void* dst, void const* src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream) {
  return api_call("cudaMemcpyAsync", by_handle, [&] { return copy(dst, src, count, kind, stream); });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  return api_call("cudaMemsetAsync", by_handle, [&] { return set(devPtr, value, count, stream); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return api_call("cudaLaunchHostFunc", by_handle, [&] { return call_host(stream, fn, userData); });
}

}  // extern "C"
