#include "devices_cuda.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "ferry/config.hpp"

namespace ferry::command {

namespace {

/// CUDA counts 13.1 as 13010.
std::string version_text(int version) {
  return version > 0 ? fmt::format("{}.{}", version / 1000, version % 1000 / 10) : "none";
}

std::string capability_text(int architecture) { return fmt::format("{}.{}", architecture / 10, architecture % 10); }

std::string speed_text(double gbps, double share_beside) {
  if (gbps > 0 && share_beside < 1) {
    return fmt::format("{:.3g} GB/s, as measured; {:.3g} beside the other direction", gbps, share_beside * gbps);
  }
  if (gbps > 0) return fmt::format("{:.3g} GB/s, as measured", gbps);
  return "not measured yet: the first run on it measures it";
}

std::string gpu_text(cuda_description const& gpu) {
  auto const node = gpu.numa_node >= 0 ? fmt::format("NUMA node {}", gpu.numa_node) : "NUMA node unknown";
  return fmt::format("  cuda:{:<11} {}, compute capability {}\n", gpu.ordinal, gpu.name,
                     capability_text(gpu.architecture)) +
         fmt::format("    device memory  {} free of {}\n", format_bytes(gpu.free_bytes),
                     format_bytes(gpu.total_bytes)) +
         fmt::format("    PCI bus        {}, {}\n", gpu.pci_bus_id, node) +
         fmt::format("    device to host {}\n", speed_text(gpu.device_to_host_gbps, gpu.beside.out_beside_back)) +
         fmt::format("    host to device {}\n", speed_text(gpu.host_to_device_gbps, gpu.beside.back_beside_out));
}

nlohmann::ordered_json speed_json(double gbps, double share_beside) {
  if (gbps > 0) return {{"gbps", gbps}, {"share_beside", share_beside}};
  return nullptr;
}

nlohmann::ordered_json gpu_json(cuda_description const& gpu) {
  return {{"name", fmt::format("cuda:{}", gpu.ordinal)},
          {"gpu", gpu.name},
          {"uuid", gpu.uuid},
          {"compute_capability", capability_text(gpu.architecture)},
          {"total_bytes", gpu.total_bytes},
          {"free_bytes", gpu.free_bytes},
          {"pci_bus_id", gpu.pci_bus_id},
          {"numa_node", gpu.numa_node >= 0 ? nlohmann::ordered_json(gpu.numa_node) : nlohmann::ordered_json(nullptr)},
          {"device_to_host", speed_json(gpu.device_to_host_gbps, gpu.beside.out_beside_back)},
          {"host_to_device", speed_json(gpu.host_to_device_gbps, gpu.beside.back_beside_out)}};
}

}  // namespace

std::string cuda_text(cuda_presence const& found) {
  if (!found.in_this_build) return "cuda: not in this build; for NVIDIA GPUs build with -DFERRY_CUDA=ON\n";
  std::string text = fmt::format("cuda: {}\n", found.why_not.empty() ? "NVIDIA GPUs" : found.why_not);
  text += fmt::format("  CUDA runtime     {}\n", version_text(found.runtime_version));
  text += fmt::format("  driver's CUDA    {}\n", version_text(found.driver_version));
  for (auto const& gpu : found.devices) text += gpu_text(gpu);
  return text;
}

nlohmann::ordered_json cuda_json(cuda_presence const& found) {
  nlohmann::ordered_json all{
      {"name", "cuda"}, {"available", found.why_not.empty()}, {"in_this_build", found.in_this_build}};
  if (!found.why_not.empty()) all["why_not"] = found.why_not;
  if (!found.in_this_build) return all;
  all["runtime_version"] = version_text(found.runtime_version);
  all["driver_version"] = version_text(found.driver_version);
  auto gpus = nlohmann::ordered_json::array();
  for (auto const& gpu : found.devices) gpus.push_back(gpu_json(gpu));
  all["gpus"] = std::move(gpus);
  return all;
}

std::string automatic_device(cuda_presence const& found) { return found.why_not.empty() ? "cuda:0" : "host"; }

}  // namespace ferry::command
