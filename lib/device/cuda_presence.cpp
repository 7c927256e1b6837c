#include "device/cuda_presence.hpp"

#include <array>
#include <string>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/cuda_calibration.hpp"
#include "device/cuda_error.hpp"
#include "device/near_memory.hpp"

namespace ferry::cuda {

namespace {

std::string uuid_text(cudaUUID_t const& uuid) {
  std::string text;
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

int require_gpus() {
  int count = 0;
  auto const status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (status == cudaErrorInsufficientDriver || status == cudaErrorStubLibrary ||
      status == cudaErrorSystemDriverMismatch) {
    int driver = 0;
    bool const too_old = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
    throw no_cuda(too_old ? fmt::format("the CUDA driver is too old (it is for CUDA {}.{}); update it, or use "
                                        "FERRY_DEVICE=host",
                                        driver / 1000, driver % 1000 / 10)
                          : "no CUDA driver; use FERRY_DEVICE=host");
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    throw no_cuda("CUDA sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use FERRY_DEVICE=host");
  }
  cuda::require(status, "cudaGetDeviceCount");
  return count;
}

cuda_description describe(int ordinal) {
  cuda_description gpu{.ordinal = ordinal};
  current_device const current(ordinal);
  cudaDeviceProp properties{};
  cuda::require(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  std::array<char, 32> bus_id{};
  cuda::require(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), ordinal),
                "cudaDeviceGetPCIBusId");
  cuda::require(cudaMemGetInfo(&gpu.free_bytes, &gpu.total_bytes), "cudaMemGetInfo");
  gpu.name = properties.name;
  gpu.uuid = uuid_text(properties.uuid);
  gpu.pci_bus_id = bus_id.data();
  gpu.architecture = 10 * properties.major + properties.minor;
  gpu.numa_node = numa_node_of(gpu.pci_bus_id);
  if (auto const measured = remembered_speed(gpu)) {
    gpu.device_to_host_gbps = measured->device_to_host;
    gpu.host_to_device_gbps = measured->host_to_device;
    gpu.beside.out_beside_back = measured->out_beside_back;
    gpu.beside.back_beside_out = measured->back_beside_out;
  }
  return gpu;
}

}  // namespace ferry::cuda

namespace ferry {

cuda_presence find_cuda() {
  cuda_presence found{.in_this_build = true};
  try {
    static_cast<void>(cudaRuntimeGetVersion(&found.runtime_version));
    static_cast<void>(cudaDriverGetVersion(&found.driver_version));
    int const count = cuda::require_gpus();
    for (int ordinal = 0; ordinal < count; ++ordinal) found.devices.push_back(cuda::describe(ordinal));
  } catch (error const& problem) {
    found.why_not = problem.what();
  }
  return found;
}

}  // namespace ferry
