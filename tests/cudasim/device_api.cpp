// CUDA's devices and versions.
#include <cstdio>

#include "emulation.hpp"

namespace cudasim {

namespace {

constexpr int capability_major = 8;
constexpr int capability_minor = 0;
constexpr int runtime_version = CUDART_VERSION;
constexpr int driver_version = CUDART_VERSION;

int bus_of(int device) { return 0x17 + device; }

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp result{};
  std::snprintf(result.name, sizeof(result.name), "Emulated GPU %d", device);
  std::snprintf(result.uuid.bytes, sizeof(result.uuid.bytes), "ferry-cudasim%d", device);
  result.totalGlobalMem = sim().memory.device_bytes(device);
  result.sharedMemPerBlock = 48U << 10U;
  result.sharedMemPerBlockOptin = 163U << 10U;
  result.sharedMemPerMultiprocessor = 164U << 10U;
  result.regsPerBlock = result.regsPerMultiprocessor = 65536;
  result.warpSize = 32;
  result.maxThreadsPerBlock = 1024;
  result.maxThreadsDim[0] = result.maxThreadsDim[1] = 1024;
  result.maxThreadsDim[2] = 64;
  result.maxGridSize[0] = 0x7FFFFFFF;
  result.maxGridSize[1] = result.maxGridSize[2] = 65535;
  result.major = capability_major;
  result.minor = capability_minor;
  result.multiProcessorCount = 108;
  result.canMapHostMemory = result.concurrentKernels = result.unifiedAddressing = 1;
  result.streamPrioritiesSupported = result.hostRegisterSupported = result.memoryPoolsSupported = 1;
  result.canUseHostPointerForRegisteredMem = 1;
  result.pciBusID = bus_of(device);
  result.asyncEngineCount = 2;
  result.memoryBusWidth = 5120;
  result.l2CacheSize = 40 << 20;
  result.maxThreadsPerMultiProcessor = 2048;
  return result;
}

/// False for an attribute that the emulation does not know.
bool attribute_of(cudaDeviceProp const& from, cudaDeviceAttr which, int& value) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return value = from.maxThreadsPerBlock, true;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxBlockDimZ:
      return value = from.maxThreadsDim[which - cudaDevAttrMaxBlockDimX], true;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return value = from.maxGridSize[which - cudaDevAttrMaxGridDimX], true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return value = static_cast<int>(from.sharedMemPerBlock), true;
    case cudaDevAttrWarpSize:
      return value = from.warpSize, true;
    case cudaDevAttrMultiProcessorCount:
      return value = from.multiProcessorCount, true;
    case cudaDevAttrIntegrated:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
      return value = 0, true;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
      return value = 1, true;
    case cudaDevAttrPciBusId:
      return value = from.pciBusID, true;
    case cudaDevAttrL2CacheSize:
      return value = from.l2CacheSize, true;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return value = from.maxThreadsPerMultiProcessor, true;
    case cudaDevAttrAsyncEngineCount:
      return value = from.asyncEngineCount, true;
    case cudaDevAttrComputeCapabilityMajor:
      return value = from.major, true;
    case cudaDevAttrComputeCapabilityMinor:
      return value = from.minor, true;
  }
  return false;
}

constexpr call_rules no_context{.current_device = false};

}  // namespace

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return api_call("cudaGetDeviceCount", no_context, [&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = sim().settings.devices;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api_call("cudaGetDevice", no_context, [&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = this_thread().device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", no_context, [&] {
    if (sim().device(device) == nullptr) return cudaErrorInvalidDevice;
    this_thread().device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* prop, int device) {
  return api_call("cudaGetDeviceProperties", no_context, [&] {
    if (prop == nullptr) return cudaErrorInvalidValue;
    if (sim().device(device) == nullptr) return cudaErrorInvalidDevice;
    *prop = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attr, int device) {
  return api_call("cudaDeviceGetAttribute", no_context, [&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (sim().device(device) == nullptr) return cudaErrorInvalidDevice;
    return attribute_of(properties_of(device), attr, *value) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return api_call("cudaDeviceGetPCIBusId", no_context, [&] {
    if (pciBusId == nullptr || len < 13) return cudaErrorInvalidValue;
    if (sim().device(device) == nullptr) return cudaErrorInvalidDevice;
    std::snprintf(pciBusId, static_cast<std::size_t>(len), "0000:%02X:00.0", static_cast<unsigned>(bus_of(device)));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return api_call("cudaDeviceGetStreamPriorityRange", call_rules{}, [&] {
    if (leastPriority != nullptr) *leastPriority = 0;
    if (greatestPriority != nullptr) *greatestPriority = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api_call("cudaDeviceSynchronize", call_rules{.unsafe_in_capture = true}, [&] {
    emulation& own = sim();
    own.report("device synchronisation: cudaDeviceSynchronize waits for all work of the device; wait for an event");
    for (auto* const each : own.streams.all()) {
      if (each->device.index != this_thread().device) continue;
      each->line.await_all();
      if (own.streams.find(each->handle) != nullptr) each->line.synchronize();  // tells the checker
    }
    return own.device(this_thread().device)->broken.load();
  });
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return api_call("cudaRuntimeGetVersion", any_time, [&] {
    if (runtimeVersion == nullptr) return cudaErrorInvalidValue;
    *runtimeVersion = runtime_version;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return api_call("cudaDriverGetVersion", any_time, [&] {
    if (driverVersion == nullptr) return cudaErrorInvalidValue;
    // Where there is no driver the answer is 0, and no error.
    *driverVersion = sim().calls.driver() == driver_state::removed ? 0 : driver_version;
    return cudaSuccess;
  });
}

}  // extern "C"
