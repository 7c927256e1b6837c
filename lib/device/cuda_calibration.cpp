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
constexpr int format_version = 2;

std::filesystem::path file_of(cuda_description const& gpu, std::filesystem::path const& folder) {
  return folder / fmt::format("link-{}.json", gpu.uuid);
}

constexpr std::size_t rounds = 5;

double median(std::array<double, rounds> values) {
  std::ranges::nth_element(values, values.begin() + rounds / 2);
  return values[rounds / 2];
}

/// Copies of one size each way.
class link_trial {
 public:
  link_trial(device& on, std::size_t bytes)
      : device_(on),
        out_(on, copy_direction::device_to_host, bytes),
        back_(on, copy_direction::host_to_device, bytes) {}

  measured_speed run() {
    measured_speed found{.device_to_host = speed_of(out_), .host_to_device = speed_of(back_)};
    found.out_beside_back = share_of(out_, found.device_to_host, back_, found.host_to_device);
    found.back_beside_out = share_of(back_, found.host_to_device, out_, found.device_to_host);
    return found;
  }

 private:
  struct lane {
    lane(device& on, copy_direction which, std::size_t bytes)
        : direction(which),
          there(on, memory_space::device, bytes),
          here(on, memory_space::pinned, bytes),
          copies(on, stream_kind::copy, "calibrate"),
          begin(on, event_timing::on),
          end(on, event_timing::on) {}
    copy_direction direction;
    memory there;
    memory here;
    stream copies;
    event begin;
    event end;
  };

  void copy(lane& way) {
    bool const out = way.direction == copy_direction::device_to_host;
    device_.copy(way.copies, "calibrate", way.direction, out ? way.here.data() : way.there.data(),
                 out ? way.there.data() : way.here.data(), way.here.bytes());
  }

  /// In GB/s.
  double timed_copy(lane& way) {
    way.begin.record(way.copies);
    copy(way);
    way.end.record(way.copies);
    way.end.synchronize();
    double const us = std::max(device_.elapsed_us(way.begin, way.end), 1e-3);
    return static_cast<double>(way.here.bytes()) / us / 1e3;
  }

  double speed_of(lane& way) {
    timed_copy(way);  // the first one wakes the link up
    std::array<double, rounds> gbps{};
    for (auto& one : gbps) one = timed_copy(way);
    return median(gbps);
  }

  /// What is left of the way's speed while the other is at work: each copy beside it against one alone just before.
  double share_of(lane& way, double gbps, lane& other, double other_gbps) {
    // The other way must not be done first, even if this one has little left.
    constexpr double least_left = 0.25;
    constexpr double most_copies = 64;
    double const longer = other_gbps / (least_left * gbps);
    auto const copies = static_cast<std::size_t>(std::min(std::ceil(longer) + 1, most_copies));
    std::array<double, rounds> shares{};
    for (auto& one : shares) {
      double const alone = timed_copy(way);
      for (std::size_t i = 0; i < copies; ++i) copy(other);
      one = timed_copy(way) / alone;
      other.copies.synchronize();
    }
    constexpr double worth_noting = 0.95;  // more than that is noise
    double const share = median(shares);
    return share < worth_noting ? std::max(contention::least, share) : 1;
  }

  device& device_;
  lane out_;
  lane back_;
};

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
                               stored.at("host_to_device_gbps").get<double>(),
                               stored.at("out_beside_back").get<double>(), stored.at("back_beside_out").get<double>()};
    auto const sane = [](double gbps) { return std::isfinite(gbps) && gbps > 0 && gbps < 1e4; };
    auto const is_share = [](double share) { return share >= contention::least && share <= 1; };
    if (ours && sane(speed.device_to_host) && sane(speed.host_to_device) && is_share(speed.out_beside_back) &&
        is_share(speed.back_beside_out)) {
      return speed;
    }
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
                                      {"host_to_device_gbps", speed.host_to_device},
                                      {"out_beside_back", speed.out_beside_back},
                                      {"back_beside_out", speed.back_beside_out}};
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
  std::size_t const bytes = std::min({most_bytes, has.device_bytes / 8, has.pinned_bytes / 8});
  return link_trial(on, bytes).run();
}

}  // namespace ferry::cuda
