#include "device/cuda_calibration.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ferry::cuda {

namespace {

constexpr char const* format_name = "ferry-link-speed";
constexpr int format_version = 1;

std::filesystem::path file_of(cuda_description const& gpu, std::filesystem::path const& folder) {
  return folder / fmt::format("link-{}.json", gpu.uuid);
}

/// The median of several copies, in GB/s.
double speed_of(device& on, stream_ref copies, copy_direction direction, memory const& there, memory const& here) {
  constexpr std::size_t rounds = 5;
  event const begin(on, event_timing::on);
  event const end(on, event_timing::on);
  bool const out = direction == copy_direction::device_to_host;
  std::array<double, rounds> gbps{};
  for (std::size_t round = 0; round <= rounds; ++round) {
    begin.record(copies);
    on.copy(copies, "calibrate", direction, out ? here.data() : there.data(), out ? there.data() : here.data(),
            here.bytes());
    end.record(copies);
    end.synchronize();
    // The first one wakes the link up.
    double const us = std::max(on.elapsed_us(begin, end), 1e-3);
    if (round > 0) gbps[round - 1] = static_cast<double>(here.bytes()) / us / 1e3;
  }
  std::ranges::nth_element(gbps, gbps.begin() + rounds / 2);
  return gbps[rounds / 2];
}

}  // namespace

std::filesystem::path cache_folder() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing here changes the environment
  if (char const* const given = std::getenv("XDG_CACHE_HOME"); given != nullptr && *given == '/') {
    return std::filesystem::path(given) / "ferry";
  }
  if (char const* const home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::filesystem::path(home) / ".cache" / "ferry";
  }
  // NOLINTEND(concurrency-mt-unsafe)
  return {};
}

std::optional<measured_speed> remembered_speed(cuda_description const& gpu, std::filesystem::path const& folder) {
  if (folder.empty()) return std::nullopt;
  try {
    std::ifstream file(file_of(gpu, folder));
    auto const stored = nlohmann::json::parse(file);
    bool const ours = stored.at("format") == format_name && stored.at("version") == format_version &&
                      stored.at("pci_bus_id") == gpu.pci_bus_id;
    measured_speed const speed{stored.at("device_to_host_gbps").get<double>(),
                               stored.at("host_to_device_gbps").get<double>()};
    auto const sane = [](double gbps) { return std::isfinite(gbps) && gbps > 0 && gbps < 1e4; };
    if (ours && sane(speed.device_to_host) && sane(speed.host_to_device)) return speed;
  } catch (std::exception const&) {
    return std::nullopt;  // there is none, it is somebody else's, or half of one
  }
  return std::nullopt;
}

bool remember_speed(cuda_description const& gpu, measured_speed const& speed, std::filesystem::path const& folder) {
  if (folder.empty()) return false;
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return false;
  nlohmann::ordered_json const stored{{"format", format_name},
                                      {"version", format_version},
                                      {"gpu", gpu.name},
                                      {"uuid", gpu.uuid},
                                      {"pci_bus_id", gpu.pci_bus_id},
                                      {"device_to_host_gbps", speed.device_to_host},
                                      {"host_to_device_gbps", speed.host_to_device}};
  // Written aside and renamed: another process may be reading.
  auto const target = file_of(gpu, folder);
  auto const aside = target.string() + fmt::format(".{}", getpid());
  {
    std::ofstream file(aside);
    file << stored.dump(2) << '\n';
    file.flush();
    if (!file) problem = std::make_error_code(std::errc::io_error);
  }
  if (!problem) std::filesystem::rename(aside, target, problem);
  if (!problem) return true;
  std::error_code ignored;
  std::filesystem::remove(aside, ignored);
  return false;
}

measured_speed measure_speed(device& on) {
  constexpr std::size_t most_bytes = std::size_t{32} << 20;
  auto const& has = on.capabilities();
  std::size_t const bytes = std::min({most_bytes, has.device_bytes / 4, has.pinned_bytes / 4});
  memory const there(on, memory_space::device, bytes);
  memory const here(on, memory_space::pinned, bytes);
  stream const copies(on, stream_kind::copy, "calibrate");
  return {speed_of(on, copies, copy_direction::device_to_host, there, here),
          speed_of(on, copies, copy_direction::host_to_device, there, here)};
}

}  // namespace ferry::cuda
