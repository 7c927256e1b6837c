// CUDA's memory management: what is allowed when, and what the order checker is told of it.
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "resolve.hpp"

namespace cudasim {

namespace {

std::uintptr_t number(void const* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Nothing may run any more that could use memory which is about to go; CUDA waits there too.
void await_all_streams() {
  for (auto* const each : sim().streams.all()) each->line.await_all();
}

cudaError_t allocate(space where, void** result, std::size_t bytes) {
  emulation& own = sim();
  if (result == nullptr) return cudaErrorInvalidValue;
  *result = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* const made = own.memory.allocate(where, this_thread().device, bytes);
  if (made == nullptr) return cudaErrorMemoryAllocation;
  own.checker.slab_added(made, bytes, own.memory.find(made)->name);
  *result = made;
  return cudaSuccess;
}

/// The allocation that begins at the address and may be freed so; reports what is wrong otherwise.
std::optional<allocation> freeable(char const* function, void const* address, space expected) {
  emulation& own = sim();
  auto const found = own.memory.find(address);
  if (!found || found->where != expected || found->begin != number(address)) {
    own.report(fmt::format("invalid free: {} is given an address that no {} begins at", function,
                           expected == space::device ? "device memory" : "pinned memory"));
    return std::nullopt;
  }
  if (found->freed) {
    own.report(fmt::format("double free: {} is given '{}', which was freed before", function, found->name.view()));
    return std::nullopt;
  }
  return found;
}

cudaError_t free_now(char const* function, void* address, space expected) {
  emulation& own = sim();
  if (address == nullptr) return cudaSuccess;
  auto const found = freeable(function, address, expected);
  if (!found) return cudaErrorInvalidValue;
  own.checker.slab_removed(address);
  own.blocks.forget(found->begin, found->end());
  own.memory.mark_freed(found->begin);
  await_all_streams();
  own.memory.release(found->begin);
  return cudaSuccess;
}

/// Memory that exists in stream order: the allocation counts as the first write.
cudaError_t allocate_in_order(char const* function, void** result, std::size_t bytes, std::size_t pool,
                              cudaStream_t handle) {
  emulation& own = sim();
  if (result == nullptr) return cudaErrorInvalidValue;
  *result = nullptr;
  auto const [stream, error] = resolve_stream(function, handle);
  if (error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (own.captures.status(*stream) != cudaStreamCaptureStatusNone) {
    own.report(fmt::format("forbidden while capturing: {}; the emulation captures no allocations", function));
    own.captures.invalidate(*stream);
    return cudaErrorStreamCaptureUnsupported;
  }
  void* const made = own.memory.allocate(space::device, stream->device.index, bytes, pool);
  if (made == nullptr) return cudaErrorMemoryAllocation;
  own.checker.slab_added(made, bytes, own.memory.find(made)->name);
  *result = made;
  return submit(*stream, {.name = operation_name(function),
                          .kind = "allocation",
                          .accesses = {ferry::writes(made, bytes)},
                          .run = [](stream_state&) {}});
}

cudaError_t free_in_order(void* address, cudaStream_t handle) {
  emulation& own = sim();
  auto const [stream, error] = resolve_stream("cudaFreeAsync", handle);
  if (stream == nullptr) return error;
  if (address == nullptr) return error;
  auto const found = freeable("cudaFreeAsync", address, space::device);
  if (!found) return cudaErrorInvalidValue;
  operation work{.name = operation_name("cudaFreeAsync"),
                 .kind = "free",
                 .accesses = {ferry::writes(address, found->bytes)},
                 .run = [begin = found->begin](stream_state&) { sim().memory.release(begin); }};
  cudaError_t const result = submit(*stream, std::move(work));
  // Whatever is enqueued from now on may not use it. The slab stays with the checker: only stream order frees it.
  own.checker.freed(address, found->bytes);
  own.memory.mark_freed(found->begin);
  return result;
}

std::size_t pool_number(cudaMemPool_t pool) { return reinterpret_cast<std::uintptr_t>(pool) >> 8U; }

}  // namespace

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return api_call("cudaMalloc", allocating, [&] { return allocate(space::device, devPtr, size); });
}

cudaError_t cudaFree(void* devPtr) {
  return api_call("cudaFree", freeing, [&] { return free_now("cudaFree", devPtr, space::device); });
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  return api_call("cudaHostAlloc", allocating, [&] {
    constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    return (flags & ~known) != 0 ? cudaErrorInvalidValue : allocate(space::pinned, pHost, size);
  });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return api_call("cudaMallocHost", allocating, [&] { return allocate(space::pinned, ptr, size); });
}

cudaError_t cudaFreeHost(void* ptr) {
  return api_call("cudaFreeHost", freeing, [&] { return free_now("cudaFreeHost", ptr, space::pinned); });
}

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  return api_call("cudaMallocAsync", by_handle,
                  [&] { return allocate_in_order("cudaMallocAsync", devPtr, size, 0, hStream); });
}

cudaError_t cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
  return api_call("cudaMallocFromPoolAsync", by_handle, [&] {
    return allocate_in_order("cudaMallocFromPoolAsync", ptr, size, pool_number(memPool), stream);
  });
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  return api_call("cudaFreeAsync", destroying, [&] { return free_in_order(devPtr, hStream); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const struct cudaMemPoolProps* poolProps) {
  return api_call("cudaMemPoolCreate", allocating, [&] {
    if (memPool == nullptr || poolProps == nullptr) return cudaErrorInvalidValue;
    if (poolProps->allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
    if (poolProps->location.type != cudaMemLocationTypeDevice || sim().device(poolProps->location.id) == nullptr) {
      return cudaErrorInvalidValue;
    }
    std::size_t const most = poolProps->maxSize != 0 ? poolProps->maxSize : SIZE_MAX;
    *memPool = reinterpret_cast<cudaMemPool_t>(sim().memory.add_pool(most) << 8U);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  return api_call("cudaMemPoolDestroy", destroying,
                  [&] { return sim().memory.remove_pool(pool_number(memPool)) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void* value) {
  // How much a pool keeps back changes only times, which the emulation does not have.
  return api_call("cudaMemPoolSetAttribute", allocating,
                  [&] { return value != nullptr ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int) {
  return api_call("cudaHostRegister", allocating, [&] {
    emulation& own = sim();
    if (ptr == nullptr || size == 0) return cudaErrorInvalidValue;
    if (!own.memory.add_registered(ptr, size, this_thread().device)) return cudaErrorHostMemoryAlreadyRegistered;
    own.checker.slab_added(ptr, size, own.memory.find(ptr)->name);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return api_call("cudaHostUnregister", freeing, [&] {
    emulation& own = sim();
    auto const found = own.memory.find(ptr);
    if (!found || found->where != space::registered || found->begin != number(ptr)) {
      return cudaErrorHostMemoryNotRegistered;
    }
    own.checker.slab_removed(ptr);
    own.blocks.forget(found->begin, found->end());
    await_all_streams();
    own.memory.remove_registered(found->begin);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, void const* ptr) {
  return api_call("cudaPointerGetAttributes", call_rules{}, [&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    auto* const address = const_cast<void*>(ptr);
    auto const found = sim().memory.find(ptr);
    if (!found || found->freed) {
      *attributes = {cudaMemoryTypeUnregistered, cudaInvalidDeviceId, nullptr, address};
    } else if (found->where == space::device) {
      *attributes = {cudaMemoryTypeDevice, found->device, address, nullptr};
    } else {
      *attributes = {cudaMemoryTypeHost, found->device, address, address};
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api_call("cudaMemGetInfo", call_rules{}, [&] {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    int const device = this_thread().device;
    *free = sim().memory.free_bytes(device);
    *total = sim().memory.device_bytes(device);
    return cudaSuccess;
  });
}

}  // extern "C"
